// Command structure prints how the packages of a checkout hang together, so that a before and an after come from one
// program:
//
//	go run ./it/structure [-dir CHECKOUT] [-since COMMIT:FOLDER] ./sidecar/...
//
// For each package: its files without tests; the references between them, which are the pairs of files of which the
// first names something that the second declares, fields included; the largest circle, in which each file reaches each
// other by such references; the hub, which is the type with the most methods, with the files that have them and its
// fields; the calls of Lock and RLock, and those of them on a lock that is a field of the hub; the comments that say
// that a lock is held; the exported identifiers, and the exported methods of exported types.
//
// With -since the units are no smaller than the files of the package that was in that folder at that commit. A
// declaration that has the same name there, letter case aside, counts to the file where it was, all others to the file
// in which they stand now. So a file that is the union of two former ones counts as two, and one that was split counts
// as one in each package that has a part of it. Of methods with one name it is the one of the receiver with the same
// name, else that of a file with the same name; else it counts to the file where it stands. It says something of
// packages that were cut out of that folder only: what another package declares under a name of that folder is counted
// wrongly.
//
// It measures no walks and judges nothing.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	dir := flag.String("dir", ".", "the checkout")
	since := flag.String("since", "", "COMMIT:FOLDER of the checkout: units are no smaller than the files there")
	flag.Parse()
	if err := run(os.Stdout, *dir, *since, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "structure:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, dir, since string, patterns []string) error {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	all, err := list(dir, patterns)
	if err != nil {
		return err
	}
	was, err := formerUnits(dir, since)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "package\tfiles\tunits\treferences\tcircle\thub\tmethods/units/fields\tlocks\tof the hub\theld\t"+
		"exported\tmethods")
	for _, p := range all {
		if p.DepOnly || p.Standard || len(p.GoFiles) == 0 {
			continue
		}
		m, err := measure(p, all, was)
		if err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%d/%d/%d\t%d\t%d\t%d\t%d\t%d\n", p.ImportPath, len(p.GoFiles), m.units,
			m.references, m.circle, m.hub, m.methods, m.hubUnits, m.fields, m.locks, m.hubLocks, m.held, m.exported,
			m.exportedMethods)
	}
	return w.Flush()
}

// listed is a package as the go command lists it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	ImportMap               map[string]string
	DepOnly, Standard       bool
}

func list(dir string, patterns []string) (all []*listed, err error) {
	text, err := command(dir, "go", append([]string{"list", "-deps", "-export",
		"-json=ImportPath,Dir,Export,GoFiles,ImportMap,DepOnly,Standard"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		p := &listed{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

func command(dir, name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	text, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return text, nil
}

// former is a declaration of a former package.
type former struct{ file, receiver string }

// formerUnits are the declarations of the package in a commit's folder by their names, in lower case; nil: none is
// named. What is a method has a receiver.
func formerUnits(dir, since string) (map[string][]former, error) {
	if since == "" {
		return nil, nil
	}
	text, err := command(dir, "git", "show", since+"/")
	if err != nil {
		return nil, err
	}
	units := map[string][]former{}
	for name := range strings.Lines(string(text)) {
		name = strings.TrimSpace(name)
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := command(dir, "git", "show", since+"/"+name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			for _, id := range declared(d) {
				key := strings.ToLower(id.Name)
				units[key] = append(units[key], former{"former " + name, receiverOf(d)})
			}
		}
	}
	return units, nil
}

// receiverOf is the type that a method is of, in lower case; empty: it is no method.
func receiverOf(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if g, ok := of.(*ast.IndexExpr); ok {
		of = g.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return strings.ToLower(id.Name)
	}
	return "of a type"
}

// declared are the names that a declaration at the top of a file has.
func declared(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{d.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name)
			case *ast.ValueSpec:
				names = append(names, s.Names...)
			}
		}
	}
	return names
}

// figures are what is printed of one package.
type figures struct {
	units, references, circle int
	hub                       string
	methods, hubUnits, fields int
	locks, hubLocks, held     int
	exported, exportedMethods int
}

// check parses a package and gives each name its meaning; what it imports it knows from the compiler.
func check(p *listed, all []*listed) (*token.FileSet, []*ast.File, *types.Package, *types.Info, error) {
	set, info := token.NewFileSet(), &types.Info{Uses: map[*ast.Ident]types.Object{},
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, nil, nil, err
		}
		files = append(files, f)
	}
	exports := map[string]string{}
	for _, one := range all {
		exports[one.ImportPath] = one.Export
	}
	open := func(path string) (io.ReadCloser, error) {
		if to, ok := p.ImportMap[path]; ok {
			path = to
		}
		return os.Open(exports[path])
	}
	c := types.Config{Importer: importer.ForCompiler(set, "gc", open)}
	pkg, err := c.Check(p.ImportPath, set, files, info)
	return set, files, pkg, info, err
}

func measure(p *listed, all []*listed, was map[string][]former) (m figures, err error) {
	set, files, pkg, info, err := check(p, all)
	if err != nil {
		return m, err
	}
	unitAt := map[token.Pos]string{} // by where the name of a declaration stands
	within := map[ast.Decl]string{}
	seen := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			unit := set.Position(f.Pos()).Filename
			for _, id := range declared(d) {
				unit = unitOf(was, d, id.Name, set.Position(id.Pos()).Filename)
				unitAt[id.Pos()] = unit
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if f, ok := n.(*ast.StructType); ok {
					for _, field := range f.Fields.List {
						for _, id := range field.Names {
							unitAt[id.Pos()] = unit
						}
					}
				}
				return true
			})
			within[d], seen[unit] = unit, true
		}
	}
	m.units = len(seen)
	to := map[string]map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			from := within[d]
			ast.Inspect(d, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok || info.Uses[id] == nil {
					return true
				}
				if unit := unitAt[info.Uses[id].Pos()]; unit != "" && unit != from {
					if to[from] == nil {
						to[from] = map[string]bool{}
					}
					to[from][unit] = true
				}
				return true
			})
		}
	}
	for _, some := range to {
		m.references += len(some)
	}
	m.circle = largestCircle(to)
	m.types(pkg, unitAt)
	m.locking(files, pkg, info)
	return m, nil
}

// unitOf is the file that a declaration counts to.
func unitOf(was map[string][]former, d ast.Decl, name, file string) string {
	receiver, base := receiverOf(d), "former "+filepath.Base(file)
	var same []former
	for _, one := range was[strings.ToLower(name)] {
		if (one.receiver == "") == (receiver == "") && name != "_" {
			same = append(same, one)
		}
	}
	for _, fits := range []func(former) bool{
		func(former) bool { return len(same) == 1 },
		func(one former) bool { return one.receiver == receiver },
		func(one former) bool { return one.file == base },
	} {
		if at := slices.IndexFunc(same, fits); at >= 0 {
			return same[at].file
		}
	}
	return file
}

// types counts the hub and what is exported.
func (m *figures) types(pkg *types.Package, unitAt map[token.Pos]string) {
	for _, name := range pkg.Scope().Names() {
		obj := pkg.Scope().Lookup(name)
		if obj.Exported() {
			m.exported++
		}
		named, ok := obj.Type().(*types.Named)
		if _, isType := obj.(*types.TypeName); !isType || !ok {
			continue
		}
		units := map[string]bool{}
		for f := range named.Methods() {
			units[unitAt[f.Pos()]] = true
			if obj.Exported() && f.Exported() {
				m.exportedMethods++
			}
		}
		if n := named.NumMethods(); n > m.methods {
			m.hub, m.methods, m.hubUnits, m.fields = name, n, len(units), 0
			if s, ok := named.Underlying().(*types.Struct); ok {
				m.fields = s.NumFields()
			}
		}
	}
}

// locking counts where locks are taken, and the comments that say that one is held.
func (m *figures) locking(files []*ast.File, pkg *types.Package, info *types.Info) {
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of := info.Uses[sel.Sel]
			if of != nil && of.Pkg() != nil && of.Pkg().Path() == "sync" && slices.Contains([]string{"Lock", "RLock"},
				of.Name()) {
				m.locks++
				if lock, ok := sel.X.(*ast.SelectorExpr); ok && isHub(pkg, m.hub, info.TypeOf(lock.X)) {
					m.hubLocks++
				}
			}
			return true
		})
		for _, group := range f.Comments {
			m.held += strings.Count(strings.ToLower(strings.Join(strings.Fields(group.Text()), " ")), "mu is held")
		}
	}
}

// isHub reports whether a type is the hub, or points to it.
func isHub(pkg *types.Package, hub string, of types.Type) bool {
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem()
	}
	named, ok := of.(*types.Named)
	return ok && named.Obj() == pkg.Scope().Lookup(hub)
}

// largestCircle is how many units are in the largest set of which each reaches each other.
func largestCircle(to map[string]map[string]bool) (most int) {
	reach := map[string]map[string]bool{}
	for from := range to {
		seen := map[string]bool{}
		for next := []string{from}; len(next) > 0; {
			at := next[0]
			next = next[1:]
			for unit := range to[at] {
				if !seen[unit] {
					seen[unit] = true
					next = append(next, unit)
				}
			}
		}
		reach[from] = seen
	}
	for from, seen := range reach {
		n := 0
		for unit := range seen {
			if reach[unit][from] {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
