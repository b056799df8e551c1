package it

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hence-dev/hence/it/harness"
)

// The house rules' bounds.
const (
	maxFileLines     = 800
	neverFileLines   = 800
	maxFunctionLines = 100
	maxLineChars     = 119
	modulePath       = "github.com/hence-dev/hence"
)

// source is one parsed file of the repository.
type source struct {
	path string // from the repository's root, with slashes
	text []byte
	tree *ast.File
	set  *token.FileSet
}

func (s *source) test() bool     { return strings.HasSuffix(s.path, "_test.go") }
func (s *source) folder() string { return filepath.ToSlash(filepath.Dir(s.path)) }

func (s *source) line(n ast.Node) int { return s.set.Position(n.Pos()).Line }

func (s *source) at(n ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: ", s.path, s.line(n)) + fmt.Sprintf(format, args...)
}

// TestTidy holds the house rules over every Go file of the repository. Each message says what to do instead.
func TestTidy(t *testing.T) {
	sources := readSources(t, harness.Root(t))
	for _, rule := range []struct {
		name  string
		check func(*source) []string
	}{
		{"file length", longFile},
		{"function length", longFunctions},
		{"line length", longLines},
		{"no sleeping tests", sleeps},
		{"skips say why", bareSkips},
		{"arrows", arrows},
		{"arrows inside the sidecar", sidecarArrows},
		{"the inside of an agent", agentsInside},
		{"documented names", undocumented},
		{"nothing left over", leftovers},
		{"no work at import", importWork},
		{"no rule switched off", weakened},
	} {
		t.Run(strings.ReplaceAll(rule.name, " ", "_"), func(t *testing.T) {
			for _, s := range sources {
				for _, finding := range rule.check(s) {
					t.Error(finding)
				}
			}
		})
	}
	t.Run("package_docs", func(t *testing.T) {
		for _, finding := range packageDocs(sources) {
			t.Error(finding)
		}
	})
}

func readSources(tb testing.TB, root string) (all []*source) {
	tb.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "vendor") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		s, err := parseSource(root, path)
		all = append(all, s)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func parseSource(root, path string) (*source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return &source{path: filepath.ToSlash(rel), text: text, tree: tree, set: set}, err
}

func longFile(s *source) []string {
	lines := strings.Count(string(s.text), "\n")
	switch {
	case lines >= neverFileLines:
		return []string{fmt.Sprintf("%s has %d lines, never more than %d: split it by what its parts know",
			s.path, lines, neverFileLines)}
	case lines >= maxFileLines:
		return []string{fmt.Sprintf("%s has %d lines, at most %d: move what belongs together into a file of its own",
			s.path, lines, maxFileLines-1)}
	}
	return nil
}

func longFunctions(s *source) (found []string) {
	for _, decl := range s.tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		if lines := s.set.Position(f.End()).Line - s.line(f) + 1; lines >= maxFunctionLines {
			found = append(found, s.at(f, "%s has %d lines, at most %d: give its parts names", f.Name.Name, lines,
				maxFunctionLines-1))
		}
	}
	return found
}

func longLines(s *source) (found []string) {
	lines := bufio.NewScanner(strings.NewReader(string(s.text)))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if chars := utf8.RuneCountInString(lines.Text()); chars > maxLineChars {
			found = append(found, fmt.Sprintf("%s:%d: the line has %d characters, at most %d: break it", s.path, n, chars,
				maxLineChars))
		}
	}
	return found
}

// calls visits every call of a selector, such as time.Sleep.
func (s *source) calls(visit func(call *ast.CallExpr, on, name string)) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok {
			on, _ := f.X.(*ast.Ident)
			if on != nil {
				visit(call, on.Name, f.Sel.Name)
			}
		}
		return true
	})
}

func sleeps(s *source) (found []string) {
	if !s.test() {
		return nil
	}
	s.calls(func(call *ast.CallExpr, on, name string) {
		if on == "time" && name == "Sleep" {
			found = append(found, s.at(call, "a test sleeps: wait on a condition or a channel, or use testing/synctest"))
		}
	})
	return found
}

func bareSkips(s *source) (found []string) {
	s.calls(func(call *ast.CallExpr, _, name string) {
		if (name == "Skip" || name == "SkipNow") && len(call.Args) == 0 && s.test() {
			found = append(found, s.at(call, "a test is skipped without a word: say what is missing and how to get it"))
		}
	})
	return found
}

// mayImport says which of our top folders a top folder may use, itself aside.
func mayImport(folder string) []string {
	switch folder {
	case "sequencer":
		return nil
	case "topology":
		return []string{"sequencer"}
	case "streams", "gate":
		return []string{"topology", "sequencer"}
	case "sidecar":
		return []string{"streams", "gate", "topology", "sequencer"}
	case "cmd":
		return []string{"sidecar", "streams", "gate", "topology", "sequencer"}
	case "it":
		return []string{"sidecar", "streams", "gate", "topology", "sequencer"}
	case "compose": // examples for users: a client, and the mail server of the demo
		return []string{"sidecar", "gate"}
	}
	return nil
}

// judgesTraces: what the detectors of anomalies are tested against reads the records of files, in the shape that the
// files have. That shape stands on nothing of ours, so no circle can come of it.
func judgesTraces(s *source, ours string) bool {
	return ours == "topology/trace" && (s.folder() == "sequencer/anomaly/brute" ||
		s.folder() == "sequencer/anomaly" && s.test())
}

// noArrow is an import that a folder of ours, with those below it, must not have.
type noArrow struct {
	from, to string
	why      string
}

// noArrows are the rules within a top folder, and between parts of two. They are for what runs: external tests of a
// package may use what stands above it.
func noArrows() []noArrow {
	return []noArrow{
		{"streams", "streams/processor", "clients need no processor: what both need is in streams"},
		{"streams", "streams/inspect", "what inspections need of a client is in streams"},
		{"streams", "github.com/lovoo/goka", "goka is the processors': streams/processor"},
		{"streams", "github.com/IBM/sarama", "sarama is the processors': streams/processor"},
		{"streams/inspect", "streams/processor", "what both need is in streams or streams/internal"},
		{"streams/processor", "streams/inspect", "a processor asks no doctor"},
		{"sidecar", "streams/processor", "a sidecar speaks to the log by streams.Client"},
	}
}

// forbids says whether the rule is about a file and what it imports. A rule from streams is about that package alone:
// those below it stand on it, as the support of its tests does.
func (n noArrow) forbids(s *source, path string) bool {
	to := strings.TrimPrefix(path, modulePath+"/")
	if to != n.to && !strings.HasPrefix(to, n.to+"/") || s.test() {
		return false
	}
	if n.from == "streams" {
		return s.folder() == "streams"
	}
	return s.folder() == n.from || strings.HasPrefix(s.folder(), n.from+"/")
}

// foldImports are the packages that the fold may use: none that knows a clock, a file, a network or chance.
func foldImports() []string {
	return []string{
		"bytes", "cmp", "container/heap", "crypto/sha256", "encoding/binary", "encoding/hex", "errors", "fmt", "hash",
		"iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "unicode", "unicode/utf8",
	}
}

func arrows(s *source) (found []string) {
	own, _, _ := strings.Cut(s.path, "/")
	for _, spec := range s.tree.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return []string{s.at(spec, "%v", err)}
		}
		ours, isOurs := strings.CutPrefix(path, modulePath+"/")
		top, _, _ := strings.Cut(ours, "/")
		for _, n := range noArrows() {
			if n.forbids(s, path) {
				found = append(found, s.at(spec, "%s may not import %s: %s", n.from, path, n.why))
			}
		}
		switch {
		case isOurs && top != own && !slices.Contains(mayImport(own), top) && !judgesTraces(s, ours):
			found = append(found, s.at(spec, "%s may not import %s: arrows run cmd, sidecar, (streams, gate), topology, "+
				"sequencer; move what both need down", own, path))
		case s.folder() == "sequencer" && !s.test() && (isOurs || !slices.Contains(foldImports(), path)):
			found = append(found, s.at(spec, "the fold may not import %s: it has no clock, no I/O, no chance and nothing "+
				"of ours; hand it in as an intent", path))
		case own == "sidecar" && strings.HasPrefix(s.path, "sidecar/client/") && !s.test() && isOurs &&
			ours != "sidecar/api" && ours != "sidecar/signature":
			found = append(found, s.at(spec, "the client may not import %s: users link it; sidecar/api has the shapes", path))
		}
	}
	return found
}

// sidecarMayImport says which packages below sidecar one of them may use. Faces stand on an agent's interface, which
// is theirs, so none of them needs the agent, its journal or its view; those are leaves that know no agent either.
func sidecarMayImport(folder string) (may []string, known bool) {
	switch folder {
	case "http", "sbus", "mcp", "llm": // the faces
		return []string{"api", "feed", "metrics", "once", "words"}, true
	case "agent":
		return []string{"agent/settle", "api", "coverage", "journal", "loop", "metrics", "once", "view", "words"}, true
	case "agent/settle":
		return []string{"api", "journal", "loop", "metrics", "view", "words"}, true
	case "client":
		return []string{"api", "signature"}, true
	case "journal", "feed", "loop", "metrics", "signature", "words":
		return []string{"api"}, true
	case "view":
		return []string{"api", "words"}, true
	case "once":
		return []string{"api", "journal"}, true // a key's record is the journal's
	case "console":
		return []string{"api", "client", "feed", "words"}, true
	case "api", "coverage", "internal/conform", "internal/memlog":
		return nil, true
	}
	return nil, false
}

// sidecarArrows holds the arrows between the packages of the sidecar. Package sidecar puts all of them together, and
// the simulator drives all of them.
func sidecarArrows(s *source) (found []string) {
	folder, inside := strings.CutPrefix(s.folder(), "sidecar/")
	if s.test() || folder == "sim" || strings.HasPrefix(folder, "sim/") || s.folder() == "sidecar" {
		return nil
	}
	may, known := sidecarMayImport(folder)
	if inside && !known {
		return []string{s.at(s.tree.Name, "package %s has no row in sidecarMayImport: say what it stands on", folder)}
	}
	for _, spec := range s.tree.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		to, ours := strings.CutPrefix(path, modulePath+"/sidecar")
		switch to = strings.TrimPrefix(to, "/"); {
		case !ours:
		case inside && !slices.Contains(may, to):
			found = append(found, s.at(spec, "sidecar/%s may not import sidecar/%s: it may use %v", folder, to, may))
		case !inside && (to == "agent" || strings.HasPrefix(to, "agent/")):
			found = append(found, s.at(spec, "only package sidecar puts an agent together: ask sidecar, or a face"))
		}
	}
	return found
}

// agentsInside holds that what stands outside package agent takes and gives none of its types but those that an agent
// is made of.
func agentsInside(s *source) (found []string) {
	if s.test() || strings.HasPrefix(s.path, "sidecar/agent/") {
		return nil
	}
	outside := []string{"Agent", "Clock", "Config", "Hook", "Limits", "Log", "Machine"}
	ast.Inspect(s.tree, func(n ast.Node) bool {
		f, ok := n.(*ast.FuncType)
		if !ok {
			return true
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if on, ok := sel.X.(*ast.Ident); ok && on.Name == "agent" && !slices.Contains(outside, sel.Sel.Name) {
				found = append(found, s.at(sel, "agent.%s is of an agent's inside: take a shape of sidecar/api",
					sel.Sel.Name))
			}
			return true
		})
		return true
	})
	return found
}

func leftovers(s *source) (found []string) {
	for _, group := range s.tree.Comments {
		for _, c := range group.List {
			for _, word := range []string{"TODO", "FIXME", "XXX", "HACK"} {
				if strings.Contains(c.Text, word) {
					found = append(found, s.at(c, "%s is left over: do it, or write down in words what holds", word))
				}
			}
		}
	}
	return found
}

// weakened holds that the code has no switch that takes a rule of the fold out: patches of sequencer/holes do.
func weakened(s *source) (found []string) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && strings.HasPrefix(id.Name, "Weaken") {
			found = append(found, s.at(id, "%s switches a rule off: take it out by a patch of sequencer/holes", id.Name))
		}
		return true
	})
	return found
}
