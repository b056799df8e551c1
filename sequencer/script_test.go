package sequencer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/hence-dev/hence/sequencer"
)

// TestScripts runs the scripts in testdata. Each opens with what it shows and ends in a hash. Their directives:
//
//	run                  one line is one intent (package script), dup <tx> <verb>, ticks <n> or restore
//	new                  begins again
//	state, holds, hash   print what the fold keeps
//	restore              writes the state out and reads it back in
//	replay               feeds the log again, whole and restored after each record; both must come to the same
//
// Run with -rewrite to write what the fold does into the scripts, and read every line that changed.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" {
			return
		}
		m := newMachine()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				checkReplay(t, m)
				m = newMachine()
				return "ok"
			}
			return directive(t, m, d)
		})
		checkReplay(t, m)
	})
}

func directive(t *testing.T, m *machine, d *datadriven.TestData) string {
	switch d.Cmd {
	case "run":
		return runLines(t, m, d)
	case "state":
		return showState(m.fold.State())
	case "holds":
		return showHolds(m.fold.State())
	case "hash":
		h := m.fold.StateHash()
		return fmt.Sprintf("%x\n", h[:8])
	case "cone":
		return showCone(m.fold, sequencer.TxID(d.CmdArgs[0].Key))
	case "restore":
		out, err := m.restore()
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return out
	case "replay":
		checkReplay(t, m)
		return fmt.Sprintf("%d records, the same\n", len(m.log))
	}
	d.Fatalf(t, "unknown directive %s", d.Cmd)
	return ""
}

// runLines runs each line; where there are several, each is printed above its outcomes.
func runLines(t *testing.T, m *machine, d *datadriven.TestData) string {
	var out strings.Builder
	lines := strings.Split(d.Input, "\n")
	for _, line := range lines {
		line, _, _ = strings.Cut(line, "  #")
		printed, err := m.run(strings.TrimSpace(line))
		if err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		if len(lines) > 1 {
			printed = "> " + line + "\n" + printed
		}
		out.WriteString(printed)
	}
	return out.String()
}

// checkReplay: the log alone gives the same outcomes, also when the state was written out after each record.
func checkReplay(t *testing.T, m *machine) {
	t.Helper()
	if err := replaySame(m.log); err != nil {
		t.Errorf("decided again under its own rules: %v", err)
	}
	for _, restored := range []bool{false, true} {
		if restored && hole() != "" { // what a missing rule leaves behind is in no state
			continue
		}
		if err := m.replay(restored); err != nil {
			t.Errorf("replay, restored=%v: %v", restored, err)
		}
	}
}

// TestScriptsAreComplete holds the form of the scripts: a paragraph of intent first, a hash last.
func TestScriptsAreComplete(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 45 {
		t.Fatalf("got %d scripts (%v), want at least 45", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s does not open with what it shows", path)
		}
		at := strings.LastIndex(string(text), "\nhash\n----\n")
		if at < 0 || strings.Count(string(text)[at:], "\n") != 5-1 && strings.Count(string(text)[at:], "\n") != 4 {
			t.Errorf("%s does not end in its hash", path)
		}
	}
}
