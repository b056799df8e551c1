package gate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a patch of the rule that breaks one clause.
type mutant struct {
	what, file string
	hunks      [][2]string // text, and what stands there instead
}

// readMutant reads a patch: a line that says what it breaks, then a unified diff whose hunks are found by their text.
func readMutant(t *testing.T, path string) (m mutant) {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		hunk := len(m.hunks) - 1
		switch {
		case strings.HasPrefix(line, "# "):
			m.what = strings.TrimSpace(line[2:])
		case strings.HasPrefix(line, "--- "):
			m.file = filepath.Base(strings.TrimSpace(line[4:]))
		case strings.HasPrefix(line, "+++ "):
		case strings.HasPrefix(line, "@@"):
			m.hunks = append(m.hunks, [2]string{})
		case line[0] == '-':
			m.hunks[hunk][0] += line[1:]
		case line[0] == '+':
			m.hunks[hunk][1] += line[1:]
		default:
			m.hunks[hunk][0] += line[1:]
			m.hunks[hunk][1] += line[1:]
		}
	}
	return m
}

// applied is the mutated text of the file.
func (m mutant) applied(t *testing.T) string {
	t.Helper()
	body, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	for _, h := range m.hunks {
		if strings.Count(text, h[0]) != 1 {
			t.Fatalf("the patch does not fit: %d places in %s have\n%s", strings.Count(text, h[0]), m.file, h[0])
		}
		text = strings.Replace(text, h[0], h[1], 1)
	}
	return text
}

// TestMutants breaks one clause of the rule after the other and holds that a check finds it: the model of the sink,
// the explorer, the simulator, or, for what a person has tried again and for calls that arrive later than they may, a
// table. Without HENCE_TEST_MUTANTS it holds that each patch fits, so that the list stays true.
func TestMutants(t *testing.T) {
	paths, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d mutants, want ten at least: %v", len(paths), err)
	}
	run := os.Getenv("HENCE_TEST_MUTANTS") != ""
	if !run {
		t.Log("only whether the patches fit: set HENCE_TEST_MUTANTS=1 to run them, 15 minutes")
	}
	for _, path := range paths {
		m := readMutant(t, path)
		text := m.applied(t)
		if !run {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if by := caught(t, m.file, text); by == "" {
			t.Errorf("%s survives: %s", name, m.what)
		} else {
			t.Logf("%s: %s: caught by the %s", name, m.what, by)
		}
	}
}

// caught names the first check that fails with a file replaced.
func caught(t *testing.T, file, text string) string {
	t.Helper()
	dir := t.TempDir()
	where, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	mutated, overlay := filepath.Join(dir, file), filepath.Join(dir, "overlay.json")
	body, err := json.Marshal(map[string]map[string]string{"Replace": {where: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{mutated: text, overlay: string(body)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, check := range []struct {
		name, folder, tests string
		flags               []string
	}{
		{"model", ".", "Model$", []string{"-rapid.nofailfile", "-rapid.checks=3000"}},
		{"explorer", "./explore", "^TestGate$", nil},
		{"simulator", "../sidecar/sim", "^TestSchedules$", []string{"-schedules=1000"}},
		{"tables", ".", "^Test[^M]", nil},
	} {
		args := []string{"test", "-count=1", "-failfast", "-overlay=" + overlay, "-run", check.tests, check.folder}
		out, err := exec.Command("go", append(args, check.flags...)...).CombinedOutput()
		switch {
		case err == nil:
		case strings.Contains(string(out), "[build failed]"):
			t.Fatalf("the mutant does not compile:\n%s", out)
		default:
			return fmt.Sprintf("%s: %s", check.name, firstFinding(string(out)))
		}
	}
	return ""
}

// firstFinding is the line of a test's output that says what was found.
func firstFinding(out string) string {
	for _, word := range []string{"violation: ", "sim: ", "[rapid] ", "_test.go:", "panic: "} {
		for line := range strings.Lines(out) {
			if _, said, found := strings.Cut(line, word); found && !strings.HasPrefix(said, "OK") {
				return word + strings.TrimSpace(said)
			}
		}
	}
	return "it fails"
}
