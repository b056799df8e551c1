package explore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHole walks the worlds that need the missing rule, in a binary that it/mutants builds without it: each must find
// what its row says. Docs/holes.md has what is printed here.
func TestHole(t *testing.T) {
	hole := os.Getenv("HENCE_TEST_HOLE")
	if hole == "" {
		return // TestRowsHaveHoles looks at the names
	}
	n := 0
	for _, row := range Rows() {
		if row.Hole != hole {
			continue
		}
		for _, cfg := range row.Configs {
			cfg.Replay = hole == "1b" // what such a touch has got so far is no part of the fold's state
			n++
			checkFound(t, row.Name, Run(cfg), row.Wrong)
		}
	}
	for _, row := range PlainRows() {
		if row.Hole == hole {
			n++
			checkFound(t, row.Name, row.Run(), row.Wrong)
		}
	}
	t.Logf("%d worlds need rule %s", n, hole)
}

// checkFound holds that a walk has come to a violation, by records that lead any fold to the same state.
func checkFound(t *testing.T, name string, r Report, wrong string) {
	t.Helper()
	t.Logf("%s: %.3000s", name, r)
	if r.Violation == nil || !strings.Contains(r.Violation.What, wrong) {
		t.Fatalf("%s: without the rule it must find %q", name, wrong)
	}
	checkScript(t, r.Violation.Trace)
	what, _, _ := strings.Cut(r.Violation.What, "\n")
	fmt.Printf("found\t%s\t%d records: %s\n", name, len(r.Violation.Trace.Intents), what)
}

// TestRowsHaveHoles holds that each rule that a row needs can be taken out.
func TestRowsHaveHoles(t *testing.T) {
	var names []string
	for _, row := range Rows() {
		if (row.Hole == "") == (row.Careless == 0) {
			t.Errorf("row %s has both a rule and a duty, or neither", row.Name)
		}
		names = append(names, row.Hole)
	}
	for _, row := range PlainRows() {
		names = append(names, row.Hole)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join("..", "holes", name+".patch")); name != "" && err != nil {
			t.Error(err)
		}
	}
}
