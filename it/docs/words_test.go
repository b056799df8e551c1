package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
)

// TestWords holds that docs/words.md has a line for every word that the code can say: each kind of decision, class and
// state of a call, order mode, level, result and code, and that it has no code that nothing says.
func TestWords(t *testing.T) {
	root := harness.Root(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "words.md"))
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]string{}
	for part := range strings.SplitSeq(string(page), "\n## ") {
		title, rows, _ := strings.Cut(part, "\n")
		groups[title] = rows
	}
	has := func(group, word string) {
		if !strings.Contains(groups[group], "\n| "+word+" | ") {
			t.Errorf("docs/words.md has no line for %s under %q", word, group)
		}
	}
	seen := 0
	every := func(group string, words []string) {
		for _, w := range words {
			seen++
			has(group, "`"+w+"`")
		}
	}
	every("Decisions", namesOf(sequencer.OutcomeBegun))
	every("Order modes", namesOf(sequencer.Optimistic))
	every("Tools: classes", namesOf(sequencer.ClassRead))
	every("Residue", namesOf(sequencer.ResultClean))
	levels := constants(t, filepath.Join(root, "sequencer"), regexp.MustCompile(`^[AL]\d$`))
	for name := range levels {
		every("Levels", []string{name})
	}
	states := constants(t, filepath.Join(root, "sidecar", "api"), regexp.MustCompile(`^Effect[A-Z]`))
	for _, state := range states {
		every("Tools: states of a call", []string{state})
	}
	codes := map[string]bool{}
	for _, folder := range []string{"sequencer", "sidecar/api", "sidecar/console"} {
		for _, code := range constants(t, filepath.Join(root, folder), regexp.MustCompile(`^[cC]ode[A-Z]`)) {
			codes[code] = true
			has("Codes", fmt.Sprintf("[%[1]s](codes/%[1]s.md)", code))
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\| \[(\w+)\]`).FindAllStringSubmatch(groups["Codes"], -1) {
		if !codes[m[1]] {
			t.Errorf("docs/words.md has the code %s, which nothing says", m[1])
		}
	}
	if seen < 45 || len(codes) < 70 || len(levels) != 9 || len(states) < 13 {
		t.Fatalf("only %d words, %d codes, %d levels, %d states are found", seen, len(codes), len(levels), len(states))
	}
}

// namesOf are the names of all values of a kind, from the first one on.
func namesOf[T interface {
	~uint8
	String() string
}](first T) (out []string) {
	for v := first; v.String() != "unknown"; v++ {
		out = append(out, v.String())
	}
	return out
}

// constants are the constants of a folder's code whose names match, with their texts; one that is no text has none.
func constants(t *testing.T, folder string, name *regexp.Regexp) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no source in %s: %v", folder, err)
	}
	out := map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				continue
			}
			for _, s := range decl.Specs {
				spec, ok := s.(*ast.ValueSpec)
				if !ok || !name.MatchString(spec.Names[0].Name) {
					continue
				}
				text := ""
				if len(spec.Values) == 1 {
					if l, ok := spec.Values[0].(*ast.BasicLit); ok {
						text, _ = strconv.Unquote(l.Value)
					}
				}
				out[spec.Names[0].Name] = text
			}
		}
	}
	return out
}
