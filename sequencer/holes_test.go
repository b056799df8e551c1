package sequencer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// hole is the row of docs/holes.md whose rule this binary was built without: it/mutants builds it over
// holes/<row>.patch. Empty: it has all rules.
func hole() string { return os.Getenv("HENCE_TEST_HOLE") }

// TestHole runs the script of the missing rule: the fold must go wrong exactly as the script says.
func TestHole(t *testing.T) {
	if hole() == "" {
		return // TestHoleScripts looks at the scripts
	}
	m := newMachine()
	datadriven.RunTest(t, filepath.Join("holes", hole()+".txt"), func(t *testing.T, d *datadriven.TestData) string {
		return directive(t, m, d)
	})
	checkReplay(t, m)
}

// TestHoleScripts runs the script of each hole with all rules: there is one for each patch, and what the fold says is
// not what it says without the rule.
func TestHoleScripts(t *testing.T) {
	if hole() != "" {
		return
	}
	patches, err := filepath.Glob("holes/*.patch")
	if err != nil || len(patches) < 40 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	for _, patch := range patches {
		text, err := os.ReadFile(strings.TrimSuffix(patch, "patch") + "txt")
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("the script of %s does not open with what it shows", patch)
		}
		m, differs := newMachine(), false
		for _, block := range strings.Split("\n"+string(text), "\nrun\n")[1:] {
			lines, said, _ := strings.Cut(block, "\n----\n")
			said, _, _ = strings.Cut(said, "\n\n")
			printed := runLines(t, m, &datadriven.TestData{Cmd: "run", Input: lines})
			differs = differs || strings.TrimSpace(printed) != strings.TrimSpace(said)
		}
		if !differs {
			t.Errorf("the script of %s comes to the same with the rule and without it", patch)
		}
	}
}
