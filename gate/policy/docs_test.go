package policy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocs: the examples of the manual load and hold their cases, and every rule of lint and fuzz is named there.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(data), -1)
	if len(examples) < 2 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		p, err := Load([]byte(e[1]), Options{File: "example"})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, f := range append(p.Test(p.Cases()), p.Lint()...) {
			if f.Severity == Mistake {
				t.Error(f.Text("example"))
			}
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, file := range files {
		if !strings.HasPrefix(file, "lint") && !strings.HasPrefix(file, "fuzz") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`report\((?s:[^"]*?)"([a-z-]+)"`).FindAllStringSubmatch(string(text), -1) {
			rules++
			if !strings.Contains(string(data), "`"+m[1]+"`") {
				t.Errorf("docs/policy.md does not name the rule %s of %s", m[1], file)
			}
		}
	}
	if rules < 20 {
		t.Errorf("only %d rules were found in the code", rules)
	}
}
