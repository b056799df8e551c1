package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const exampleTopology = "../../../../docs/examples/topology.yaml"

// topologyFile is a file with a text.
func topologyFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "topology.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTopologyCheck holds the exit codes, the sentence with its line, and what a program gets: two messages that show
// why something cannot be read.
func TestTopologyCheck(t *testing.T) {
	code, out, errs := hence(t, "topology", "check", exampleTopology)
	if code != ExitCheck || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	for _, want := range []string{
		"topology.yaml:27: revenue cannot honestly read search, whose data carries (none, trivial)",
		"it is lost for good where search copies values from orders", "5 places, 1 findings, 0 notes",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not said:\n%s", want, out)
		}
	}
	code, out, _ = hence(t, "topology", "check", "-o", "json", exampleTopology)
	var r TopologyReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != ExitCheck || r.OK || len(r.Places) != 5 ||
		len(r.Findings) != 1 {
		t.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
	g := r.Findings[0].Graph
	if g == nil || len(g.Messages) != 2 || g.Messages[0].Name != "m1" || len(g.Cut) != 1 || g.Cut[0] != "m2" {
		t.Errorf("the graph is %+v", g)
	}
	if p := r.Places[2]; p.Name != "search" || p.Line == 0 || p.Called != "bounded eventual" || p.Row != 3 ||
		p.Carries != "(none, trivial)" {
		t.Errorf("a place is %+v", p)
	}
	code, out, _ = hence(t, "topology", "check", "--dot", exampleTopology)
	if code != ExitCheck || !strings.HasPrefix(out, "digraph topology {") ||
		!strings.Contains(out, `"search" -> "revenue"`) {
		t.Errorf("exit code %d, the drawing is\n%s", code, out)
	}
}

// TestTopologyOfOurs holds that Hence's own data has nothing to be found, and can be named in a file.
func TestTopologyOfOurs(t *testing.T) {
	code, out, errs := hence(t, "topology", "check")
	if code != ExitOK || errs != "" || !strings.Contains(out, "hence: 14 places, 0 findings, 0 notes") {
		t.Errorf("exit code %d, %s%s", code, errs, out)
	}
	file := topologyFile(t, `version: 1
places:
  - {name: subjects, is: hence.v1.decisions}
  - {name: mine, closure: explicit, order: all, arbitration: causal, reads: [subjects]}
`)
	if code, out, _ = hence(t, "topology", "check", file); code != ExitCheck ||
		!strings.Contains(out, "mine cannot honestly read subjects") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	code, out, _ = hence(t, "topology", "names", "-o", "json")
	var names []TopologyName
	if err := json.Unmarshal([]byte(out), &names); err != nil || code != ExitOK || len(names) < 60 ||
		!strings.Contains(out, `"hence.view"`) || !strings.Contains(out, `"name":"sequential, current"`) {
		t.Errorf("exit code %d, %v, %d names\n%s", code, err, len(names), out)
	}
	code, out, _ = hence(t, "topology", "names")
	if code != ExitOK || !strings.Contains(out, "row 38; sequential; ZooKeeper") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestTopologyRefused holds what is said of a file that cannot be checked.
func TestTopologyRefused(t *testing.T) {
	file := topologyFile(t, "version: 1\nplaces:\n  - {name: a, is: redis, colour: red}\n")
	code, out, errs := hence(t, "topology", "check", file)
	if code != ExitFailed || out != "" || !strings.Contains(errs, "the topology file is refused:") ||
		!strings.Contains(errs, `:3:26: a place has no key "colour"`) {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	code, _, errs = hence(t, "topology", "check", file+".not")
	if code != ExitFailed || !strings.Contains(errs, "read the topology") {
		t.Errorf("no file: exit code %d, %s", code, errs)
	}
	short := topologyFile(t, `version: 1
places:
  - {name: log, is: hence.intents, retention: 1d, open: 2h}
  - {name: late, is: hence.view, reads: [{from: log, lag: 23h}]}
`)
	code, out, _ = hence(t, "topology", "check", short)
	want := ":3: the retention of log is too short: it keeps 1 day and must keep 25h"
	if code != ExitCheck || !strings.Contains(out, want) {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
