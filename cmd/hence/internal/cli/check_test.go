package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck holds the exit codes of "hence check", and that each way to print says what was found.
func TestCheck(t *testing.T) {
	example := filepath.Join("..", "..", "..", "..", "docs", "examples", "history.jsonl")
	clean := filepath.Join(t.TempDir(), "clean.jsonl")
	line := `{"agent":"a","read_set":["c"],"read_values":{"c":7},"read_time":0,"write_set":[],"write_time":1}` + "\n"
	if err := os.WriteFile(clean, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		out  string
		errs string
	}{
		{[]string{example}, ExitCheck, "A1: flights (t2) read trip/date", ""},
		{[]string{clean, example}, ExitCheck, "A3: planner (t5) stands", ""},
		{[]string{clean}, ExitOK, "A3 (possible): a (line 1) read c = 7", ""}, // possible is not certain
		{[]string{clean, "-o", "json"}, ExitOK, `"kind":"A3","certain":false`, ""},
		{[]string{example, "--role", "flights=producer"}, ExitCheck, "in the role producer in 0 of 100 cases", ""},
		{[]string{"nowhere.jsonl"}, ExitFailed, "", "nowhere.jsonl"},
		{[]string{"-"}, ExitFailed, "", "check standard input: it has no records"},
		{[]string{clean, "--html", filepath.Join(clean, "x")}, ExitFailed, "", "clean.jsonl/x: not a directory"},
		{[]string{clean, "--window=-1"}, ExitUsage, "", "give 0 to"},
		{[]string{clean, "--window", "-1"}, ExitUsage, "", "--window is -1: give 0 to"},
		{[]string{clean, "--limit", "-0.5"}, ExitUsage, "", "--limit: expected"},
		{[]string{clean, "--limit=-1"}, ExitUsage, "", "give 0 to"},
		{[]string{clean, "--role", "a=judge"}, ExitUsage, "", "the roles are assessor"},
		{nil, ExitUsage, "", "<file>"},
	} {
		code, out, errs := hence(t, append([]string{"check"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
			t.Errorf("hence check %v: exit code %d, %q, %q; want %+v", c.args, code, out, errs, c)
		}
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if code, _, errs := hence(t, "check", example, "--html", page); code != ExitCheck || errs != "" {
		t.Errorf("exit code %d, %q", code, errs)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "as recorded") {
		t.Errorf("the page: %v\n%s", err, text)
	}
}

// TestCheckTopology holds what "hence check --topology" says of files, and its exit codes.
func TestCheckTopology(t *testing.T) {
	examples := filepath.Join("..", "..", "..", "..", "docs", "examples", "layers")
	swarm, pipeline := filepath.Join(examples, "swarm.yaml"), filepath.Join(examples, "pipeline.yaml")
	for _, c := range []struct {
		args []string
		code int
		out  string
		errs string
	}{
		{[]string{swarm}, ExitCheck, "susceptible  20 of 20", ""},
		{[]string{swarm}, ExitCheck, "line 4: scout reads context in superstep 1; worker overwrites it", ""},
		{[]string{swarm, "--limit", "1"}, ExitCheck, "5 more; --limit 0 shows all", ""},
		{[]string{swarm, "--limit", "0"}, ExitCheck, "guard reads context in superstep 1; worker overwrites it", ""},
		{[]string{pipeline}, ExitOK, "immune  0 of 20", ""},
		{[]string{pipeline}, ExitOK, "no risk: raw is staged", ""},
		{[]string{pipeline, swarm, "-o", "json"}, ExitCheck, `"susceptible":true,"operations":3`, ""},
		{[]string{"nowhere.yaml"}, ExitFailed, "", "read the topology: open nowhere.yaml"},
		{[]string{"-"}, ExitFailed, "", "the topology is refused:"},
		{[]string{swarm, "--window", "5"}, ExitUsage, "", "are about histories"},
		{[]string{swarm, "--html", "x.html"}, ExitUsage, "", "are about histories"},
		{[]string{swarm, "--role", "scout=producer"}, ExitUsage, "", "are about histories"},
	} {
		code, out, errs := hence(t, append([]string{"check", "--topology"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
			t.Errorf("hence check --topology %v: exit code %d, %q, %q; want %+v", c.args, code, out, errs, c)
		}
	}
}
