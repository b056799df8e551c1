package explore

import (
	"os"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
)

// walkGate walks configurations of the gate's world; the first violation ends the test.
func walkGate(t *testing.T, name string, cfgs []GateConfig) {
	t.Helper()
	var reports []Report
	for _, cfg := range cfgs {
		r := RunGate(cfg)
		if !r.Complete {
			t.Fatal(r)
		}
		if r.Ends == 0 || r.Commits == 0 {
			t.Fatalf("nobody ends or nobody commits: %s", r)
		}
		t.Log(r)
		reports = append(reports, r)
	}
	t.Logf("%d configurations: %s", len(cfgs), Sum(name, reports))
}

// TestGate walks the gate's world: effects with and without keys that land late, are lost or not answered, sinks that
// are down, two incarnations of one agent, and another agent that adopts.
func TestGate(t *testing.T) {
	cfgs := GateConfigs()
	if os.Getenv("HENCE_EXPLORE_GATE") != "" {
		cfgs = full(t, "HENCE_EXPLORE_GATE", cfgs, 0)
	} else {
		small := cfgs[:0:0]
		for _, cfg := range cfgs {
			one := len(cfg.Programs[0]) == 1 && len(cfg.Programs[1]) == 1
			if one && !cfg.Leaves && !cfg.Elsewhere && cfg.Crashes < 2 {
				small = append(small, cfg)
			}
		}
		t.Logf("%d of %d configurations: set HENCE_EXPLORE_GATE=1 for all", len(small), len(cfgs))
		cfgs = every(2, small)
	}
	walkGate(t, "the gate", cfgs)
}

// TestGateRows walks each duty's configuration twice: without a violation, and to one when the duty is left undone.
func TestGateRows(t *testing.T) {
	for _, row := range GateRows() {
		t.Run(row.Name, func(t *testing.T) {
			if os.Getenv("HENCE_EXPLORE_GATE") != "" || !row.Large && !testsize.Small() {
				walkGate(t, row.Name, []GateConfig{row.Config})
			} else {
				t.Log("only to the violation: set HENCE_EXPLORE_GATE=1 for the whole world")
			}
			row.Config.Careless = row.Careless
			r := RunGate(row.Config)
			t.Log(r)
			if r.Violation == nil || !strings.Contains(r.Violation.What, row.Wrong) {
				t.Fatalf("without the duty it must find %q", row.Wrong)
			}
			checkScript(t, Config{}, r.Violation.Trace)
		})
	}
}

func TestGateProgramSaysWhatIsWrong(t *testing.T) {
	for _, text := range []string{"Xa", "R", "Rab", "Kc"} {
		if _, err := GateProgram(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
