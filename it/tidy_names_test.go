package it

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// undocumented finds exported names without a comment. A group of constants or variables may have one for all.
func undocumented(s *source) (found []string) {
	if s.test() || s.tree.Name.Name == "main" {
		return nil
	}
	for _, decl := range s.tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
				found = append(found, s.at(d, "%s is exported and has no comment: say shapes, units and errors", d.Name.Name))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				name, documented := specDoc(spec)
				if name != "" && !documented && d.Doc == nil {
					found = append(found, s.at(spec, "%s is exported and has no comment: say what it is, with its unit", name))
				}
			}
		}
	}
	return found
}

func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	kind := f.Recv.List[0].Type
	for {
		switch k := kind.(type) {
		case *ast.StarExpr:
			kind = k.X
		case *ast.IndexExpr:
			kind = k.X
		case *ast.IndexListExpr:
			kind = k.X
		case *ast.Ident:
			return k.IsExported()
		default:
			return false
		}
	}
}

// specDoc is the first exported name of a declaration, and whether it has a comment of its own.
func specDoc(spec ast.Spec) (string, bool) {
	switch v := spec.(type) {
	case *ast.TypeSpec:
		if v.Name.IsExported() {
			return v.Name.Name, v.Doc != nil || v.Comment != nil
		}
	case *ast.ValueSpec:
		for _, name := range v.Names {
			if name.IsExported() {
				return name.Name, v.Doc != nil || v.Comment != nil
			}
		}
	}
	return "", false
}

// packageDocs holds that every package has exactly one comment that says what it is.
func packageDocs(sources []*source) (found []string) {
	docs := map[string][]string{}
	for _, s := range sources {
		if s.test() {
			continue
		}
		files := docs[s.folder()]
		if s.tree.Doc != nil {
			files = append(files, s.path)
		}
		docs[s.folder()] = files
	}
	for _, folder := range slices.Sorted(maps.Keys(docs)) {
		switch files := docs[folder]; len(files) {
		case 0:
			found = append(found, folder+" has no package comment: say in one file what it is and what it refuses to be")
		case 1:
		default:
			found = append(found, folder+" has package comments in "+strings.Join(files, ", ")+": keep one")
		}
	}
	return found
}

// importWork finds init functions and package variables that can be changed; tests may have tables.
func importWork(s *source) (found []string) {
	for _, decl := range s.tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				found = append(found, s.at(d, "work at import: do it in a function that is called"))
			}
		case *ast.GenDecl:
			if d.Tok != token.VAR || s.test() {
				continue
			}
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				if !fixedVariable(d, v) {
					found = append(found, s.at(v, "%s can be changed by anybody: make it a constant, a function that returns it, "+
						"or a field of what needs it", v.Names[0].Name))
				}
			}
		}
	}
	return found
}

// fixedVariable says whether a package variable is one that does not change: an error, a regular expression, an
// embedded file, a once, or a check of an interface.
func fixedVariable(d *ast.GenDecl, v *ast.ValueSpec) bool {
	if v.Names[0].Name == "_" || embedded(d.Doc) || embedded(v.Doc) {
		return true
	}
	if len(v.Values) == 0 {
		return false
	}
	for _, value := range v.Values {
		if !fixedValue(value) {
			return false
		}
	}
	return true
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}

func fixedValue(value ast.Expr) bool {
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	on, ok := f.X.(*ast.Ident)
	if !ok {
		return false
	}
	switch on.Name {
	case "errors":
		return f.Sel.Name == "New"
	case "fmt":
		return f.Sel.Name == "Errorf"
	case "regexp":
		return strings.HasPrefix(f.Sel.Name, "MustCompile")
	case "sync":
		return strings.HasPrefix(f.Sel.Name, "OnceValue")
	}
	return false
}
