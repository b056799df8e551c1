package api_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// Every code that the fold and the sidecar can answer has a page, with a problem in it as it is really answered, and
// a row in the index; there is no page of a code that nothing answers.
func TestCodesHavePages(t *testing.T) {
	const folder = "../../docs/codes"
	all := append(codesIn(t, "../../sequencer"), codesIn(t, "../api")...)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) < 60 || !slices.Contains(all, "stale_read") || !slices.Contains(all, "no_key") {
		t.Fatalf("only %d codes are found in the source: %v", len(all), all)
	}
	index, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range all {
		text, err := os.ReadFile(filepath.Join(folder, code+".md"))
		if err != nil {
			t.Errorf("the code %s has no page: write docs/codes/%s.md: %v", code, code, err)
			continue
		}
		if !strings.Contains(string(index), "| ["+code+"]("+code+".md) |") {
			t.Errorf("docs/codes/README.md has no row for %s", code)
		}
		checkPage(t, code, string(text))
	}
	console := codesIn(t, "../console")
	for _, code := range console {
		text, err := os.ReadFile(filepath.Join(folder, code+".md"))
		if err != nil {
			t.Errorf("the console's code %s has no page: write docs/codes/%s.md: %v", code, code, err)
		} else if !slices.Contains(all, code) {
			checkSections(t, code, string(text))
		}
	}
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if name != "README" && !slices.Contains(all, name) && !slices.Contains(console, name) {
			t.Errorf("%s is about a code that nothing answers: remove it", page)
		}
	}
}

// checkPage holds that a page says what it must, and that its example is what the sidecar would answer.
func checkPage(t *testing.T, code, text string) {
	t.Helper()
	checkSections(t, code, text)
	if code == string(sequencer.CodeWaiting) {
		return // it refuses nothing
	}
	_, rest, _ := strings.Cut(text, "```json\n")
	example, _, closed := strings.Cut(rest, "```")
	p := &api.Problem{}
	decoder := json.NewDecoder(strings.NewReader(example))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(p); err != nil || !closed {
		t.Errorf("the example in docs/codes/%s.md: %v", code, err)
		return
	}
	want := api.Problemf(code, "%s", p.Detail)
	if p.Type != want.Type || p.Title != want.Title || p.Status != want.Status || p.Code != code || p.Detail == "" ||
		p.Retryable != want.Retryable || p.SafeSameKey != want.SafeSameKey {
		t.Errorf("the example in docs/codes/%s.md is %+v, the answer would be %+v", code, p, want)
	}
	yes := map[bool]string{true: "yes", false: "no"}
	facts := "Status " + strconv.Itoa(want.Status) + "; retryable: " + yes[want.Retryable] +
		"; with the same Idempotency-Key: " + yes[want.SafeSameKey] + "."
	if !strings.Contains(strings.Join(strings.Fields(text), " "), facts) {
		t.Errorf("docs/codes/%s.md does not say %q", code, facts)
	}
}

func checkSections(t *testing.T, code, text string) {
	t.Helper()
	for _, want := range []string{"# " + code + "\n", "**Means.** ", "**Why.** ", "**What to do.** ",
		`"type": "` + api.ProblemType(code) + `"`} {
		if !strings.Contains(text, want) && (code != string(sequencer.CodeWaiting) || want[0] != '"') {
			t.Errorf("docs/codes/%s.md does not have %q", code, want)
		}
	}
}

// codesIn are the values of the constants of a folder whose names begin with code or Code.
func codesIn(t *testing.T, folder string) (codes []string) {
	t.Helper()
	eachFile(t, folder, func(file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "code") {
				return true
			}
			if text, ok := literal(spec.Values[0]); ok {
				codes = append(codes, text)
			}
			return true
		})
	})
	return codes
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

func eachFile(t *testing.T, folder string, each func(*ast.File)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no source in %s: %v", folder, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		each(file)
	}
}
