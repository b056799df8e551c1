package explore

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	folds "github.com/hence-dev/hence/sequencer/explore"
	"github.com/hence-dev/hence/sequencer/script"
	"github.com/hence-dev/hence/sequencer/testsize"
)

func TestMain(m *testing.M) { testsize.Main(m) }

// walk walks configurations of the gate's world; the first violation ends the test.
func walk(t *testing.T, name string, cfgs []Config) {
	t.Helper()
	var reports []folds.Report
	for _, cfg := range cfgs {
		if os.Getenv("HENCE_EXPLORE_WITHOUT") != "" { // the numbers of the explorer before it asked the gate
			cfg.Without = AllSteps
		}
		r := Run(cfg)
		if !r.Complete {
			t.Fatal(r)
		}
		if r.Ends == 0 || r.Commits == 0 {
			t.Fatalf("nobody ends or nobody commits: %s", r)
		}
		t.Log(r)
		reports = append(reports, r)
	}
	t.Logf("%d configurations: %s", len(cfgs), folds.Sum(name, reports))
}

// TestGate walks the gate's world: effects with and without keys that land late, are lost or not answered, sinks that
// are down, two incarnations of one agent, and another agent that adopts.
func TestGate(t *testing.T) {
	cfgs := Configs()
	if n := full(t); n > 0 {
		cfgs = every(n, cfgs)
	} else {
		small := cfgs[:0:0]
		for _, cfg := range cfgs {
			one := len(cfg.Programs[0]) == 1 && len(cfg.Programs[1]) == 1
			large := cfg.Leaves || cfg.Elsewhere || cfg.Crashes > 1 ||
				cfg.Crashes > 0 && cfg.Down && cfg.Programs[0][0].Keyed
			if one && !large {
				small = append(small, cfg)
			}
		}
		t.Logf("%d of %d configurations: set HENCE_EXPLORE_GATE=1 for all", len(small), len(cfgs))
		cfgs = every(2, small)
	}
	walk(t, "the gate", cfgs)
}

// TestGateSteps counts what each step adds that only the gate had: without all of them a world has as many states as
// it had when the explorer had a rule of its own.
func TestGateSteps(t *testing.T) {
	for _, c := range []struct {
		first, second                string
		change                       func(*Config)
		states, transitions, endings int // of the former rule
	}{
		{"Ga", "Ea", func(c *Config) { c.Down, c.Abort = true, true }, 1044, 1788, 116},
		{"Ga", "Ea", func(c *Config) { c.Crashes, c.Torn = 1, true }, 3717, 4874, 719},
		{"Ga", "Ea", func(c *Config) { c.Lapses = true }, 3243, 5763, 204},
		{"Ka", "Ea", func(c *Config) { c.Crashes = 1 }, 13601, 19468, 2235},
		{"Ea", "Ea", func(c *Config) { c.Down, c.Abort = true, true }, 2099, 3792, 216},
		{"Ea", "Ea", func(c *Config) { c.Crashes, c.Torn = 1, true }, 5531, 7182, 1003},
		{"Ea", "Ea", func(c *Config) { c.Lapses = true }, 5199, 8926, 293},
		{"Fa", "Ea", func(c *Config) { c.Crashes = 1 }, 43587, 62902, 6596},
	} {
		cfg := gateConfig(c.first, c.second, c.change)
		line := cfg.Name + ":"
		for _, step := range []struct {
			name    string
			without Steps
		}{{"without the steps", AllSteps}, {"repeat", AllSteps &^ StepRepeat}, {"order", AllSteps &^ StepOrder},
			{"known", AllSteps &^ StepKnown}, {"all", 0}} {
			if step.without != AllSteps && c.states > 20_000 && testsize.Small() {
				continue // half a million states
			}
			cfg.Without = step.without
			r := Run(cfg)
			if !r.Complete {
				t.Fatalf("%s: %s", step.name, r)
			}
			line += fmt.Sprintf(" %s %d", step.name, r.States)
			former := r.States == c.states && r.Transitions == c.transitions && r.Ends == c.endings
			if step.without == AllSteps && !former {
				t.Errorf("%s; it had %d states, %d transitions and %d ends", r, c.states, c.transitions, c.endings)
			}
		}
		t.Log(line)
	}
	for _, first := range []string{"L", "M"} { // a sink that can be asked, and the same one when it is not
		asked := gateConfig(first+"a", "Ea", func(c *Config) { c.Crashes = 1 })
		mute := asked
		mute.Without = StepAsk
		a, b := Run(asked), Run(mute)
		if !a.Complete || !b.Complete {
			t.Fatalf("%s\n%s", a, b)
		}
		t.Logf("%s: all %d without asking %d", asked.Name, a.States, b.States)
	}
}

// TestGateRows walks each duty's configuration twice: without a violation, and to one when the duty is left undone.
func TestGateRows(t *testing.T) {
	for _, row := range Rows() {
		t.Run(row.Name, func(t *testing.T) {
			if os.Getenv("HENCE_EXPLORE_GATE") != "" || !row.Large && !testsize.Small() {
				walk(t, row.Name, []Config{row.Config})
			} else {
				t.Log("only to the violation: set HENCE_EXPLORE_GATE=1 for the whole world")
			}
			row.Config.Careless = row.Careless
			r := Run(row.Config)
			t.Log(r)
			if r.Violation == nil || !strings.Contains(r.Violation.What, row.Wrong) {
				t.Fatalf("without the duty it must find %q", row.Wrong)
			}
			checkScript(t, r.Violation.Trace)
		})
	}
}

// every keeps one configuration of n.
func every(n int, cfgs []Config) (out []Config) {
	for i := 0; i < len(cfgs); i += n {
		out = append(out, cfgs[i])
	}
	return out
}

// full is how many configurations are left out of what is walked on demand: HENCE_EXPLORE_GATE is 1 for all, or n for
// every n-th; zero: it is not set.
func full(t *testing.T) int {
	t.Helper()
	text := os.Getenv("HENCE_EXPLORE_GATE")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("HENCE_EXPLORE_GATE is %q: set it to 1 for all configurations, or to n for every n-th", text)
	}
	return n
}

// checkScript holds that a trace's script leads a fold to the same outcomes.
func checkScript(t *testing.T, trace folds.Trace) {
	t.Helper()
	_, text, _ := strings.Cut(trace.Script("A counterexample."), "run\n")
	text, _, _ = strings.Cut(text, "----\n")
	a, b := sequencer.New(workspace), sequencer.New(workspace)
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line, _, _ = strings.Cut(line, "  #")
		in, err := script.Parse(line)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		for f, in := range map[*sequencer.Fold]*sequencer.Intent{a: in, b: trace.Intents[i]} {
			if _, err := f.Step(int64(i), in); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a.StateHash() != b.StateHash() {
		t.Fatal("the script leads to another state")
	}
}

func TestGateProgramSaysWhatIsWrong(t *testing.T) {
	for _, text := range []string{"Xa", "R", "Rab", "Kc"} {
		if _, err := Program(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
