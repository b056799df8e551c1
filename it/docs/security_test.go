package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

// TestThreats holds that each row of docs/security.md says what holds, and that the tests which it names are there.
func TestThreats(t *testing.T) {
	root := harness.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			there[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 4 || strings.Contains(line, "---") || cells[3] == "test |\n" {
			continue
		}
		rows++
		named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 || len(cells[1]) < 10 {
			t.Errorf("a row names no test, or does not say what holds: %s", line)
		}
		for _, m := range named {
			if !there[m[1]] {
				t.Errorf("there is no test %s, which docs/security.md names", m[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows are found", rows)
	}
}
