package compose

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
)

// TestComposePolicy runs the cases of the example's policy. Of mistakes it has one: the ledger's token crosses the
// compose network in the clear, as compose/README.md says.
func TestComposePolicy(t *testing.T) {
	binary := harness.Binary(t)
	for _, file := range []string{"../../compose/policy.yaml", "../../compose/mcp/policy.yaml"} {
		out, code, err := harness.Spawn(t, binary, nil, "policy", "test", file).Wait(time.Minute)
		if err != nil || code != 0 {
			t.Errorf("hence policy test: exit code %d: %v\n%s", code, err, out)
		}
	}
	lints := harness.Spawn(t, binary, nil, "policy", "lint", "-o", "json", "../../compose/policy.yaml")
	out, _, err := lints.Wait(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var lint struct {
		Findings []struct{ Severity, Rule, Tool string }
	}
	if err := json.Unmarshal(out, &lint); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var wrong []string
	for _, f := range lint.Findings {
		if f.Severity == "mistake" {
			wrong = append(wrong, f.Rule+" "+f.Tool)
		}
	}
	slices.Sort(wrong)
	if want := []string{"clear-text payment.charge", "clear-text payment.refund"}; !slices.Equal(wrong, want) {
		t.Errorf("lint finds the mistakes %v, want %v: %s", wrong, want, out)
	}
}
