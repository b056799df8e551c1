package explore

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/script"
	"github.com/hence-dev/hence/sequencer/testsize"
)

func TestMain(m *testing.M) { testsize.Main(m) }

// walk runs configurations one after the other; the first violation ends the test.
func walk(t *testing.T, name string, cfgs []Config) {
	t.Helper()
	var reports []Report
	for _, cfg := range cfgs {
		r := Run(cfg)
		if !r.Complete {
			t.Fatal(r)
		}
		if r.Ends == 0 || r.Commits == 0 {
			t.Fatalf("nobody ends or nobody commits: %s", r)
		}
		reports = append(reports, r)
	}
	t.Logf("%d configurations: %s", len(cfgs), Sum(name, reports))
}

// every keeps one configuration of n.
func every[C any](n int, cfgs []C) []C {
	var out []C
	for i := 0; i < len(cfgs); i += n {
		out = append(out, cfgs[i])
	}
	return out
}

// TestPairs2x2 walks two transactions on two scopes in every mix of modes. With -short it takes a sample.
func TestPairs2x2(t *testing.T) {
	cfgs := PairConfigs()
	if testsize.Small() {
		cfgs = every(29, cfgs)
	}
	walk(t, "2 x 2, all modes", cfgs)
}

// full lists what is walked on demand; a sample of it is walked always.
func full[C any](t *testing.T, variable string, cfgs []C, sample int) []C {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s is %q: set it to 1 for all configurations, or to n for every n-th", variable, text)
		}
		return every(n, cfgs)
	}
	if testsize.Small() {
		sample = 1
	}
	t.Logf("%d of %d configurations: set %s=1 for all", sample, len(cfgs), variable)
	return every(len(cfgs)/sample, cfgs)[:sample]
}

// TestOptimistic3x2 walks three transactions on two scopes, shard writes among them.
func TestOptimistic3x2(t *testing.T) {
	walk(t, "3 x 2, optimistic", full(t, "HENCE_EXPLORE_3X2", TripleConfigs(), 8))
}

// TestModes walks three transactions on two scopes in every mix of modes, over fewer programs.
func TestModes(t *testing.T) {
	walk(t, "3 x 2, all modes", full(t, "HENCE_EXPLORE_ALL", MixedConfigs(), 8))
}

// TestForgetting walks two sidecars with watermarks, forgetting and late copies.
func TestForgetting(t *testing.T) {
	cfgs := ForgetConfigs()
	if testsize.Small() {
		cfgs = every(11, cfgs)
	}
	walk(t, "2 x 2, forgetting", cfgs)
}

// TestBranches walks branches of one group.
func TestBranches(t *testing.T) {
	walk(t, "3 x 2, branches", full(t, "HENCE_EXPLORE_ALL", BranchConfigs(), 8))
}

// TestCrashes walks sidecars that start again, and a hook.
func TestCrashes(t *testing.T) {
	walk(t, "2 x 2, crashes", full(t, "HENCE_EXPLORE_ALL", CrashConfigs(), 8))
}

// TestTicks walks touches, verdicts and transactions that expire.
func TestTicks(t *testing.T) {
	walk(t, "2 x 2, ticks", full(t, "HENCE_EXPLORE_ALL", TickConfigs(), 8))
}

// TestRows walks each row's configurations whole and without a violation. Where a duty of a sidecar is the row's, it
// is walked to a violation without it, too; TestHole does that for rules of the fold.
func TestRows(t *testing.T) {
	for _, row := range Rows() {
		t.Run(row.Name, func(t *testing.T) {
			if row.Hole != "" && testsize.Small() {
				t.Logf("not walked: set %s=1 for the whole world", testsize.Env)
				return
			}
			for i, cfg := range row.Configs {
				cfg.Name = fmt.Sprintf("row %s, configuration %d", row.Name, i+1)
				if !testsize.Small() {
					walk(t, cfg.Name, []Config{cfg})
				}
				if cfg.Careless = row.Careless; row.Careless != 0 {
					checkFound(t, row.Name, Run(cfg), row.Wrong)
				}
			}
		})
	}
}

// TestNobodyTriesForEver walks agents that try until they commit: after two refusals in mode locked. There must be no
// way round that commits nothing.
func TestNobodyTriesForEver(t *testing.T) {
	walk(t, "2 x 2, trying for ever", lockAfter(2, full(t, "HENCE_EXPLORE_ALL", PairConfigs(), 200)))
	walk(t, "3 x 2, trying for ever", lockAfter(2, full(t, "HENCE_EXPLORE_ALL", TripleConfigs(), 2)))
}

// TestLocksEndTries holds that without locks a reader in ordered and a writer can end each other for ever: the reader
// wounds the writer, whose compensation overtakes the read.
func TestLocksEndTries(t *testing.T) {
	cfg := agents("ab", sequencer.Optimistic, "Ra Eb", "Ea Eb")
	cfg.Agents[0].Mode = sequencer.Ordered
	for refusals, found := range []bool{true, false, false} {
		r := Run(lockAfter(refusals, []Config{cfg})[0])
		if (r.Violation != nil) != found || found && !strings.Contains(r.Violation.What, "nobody commits") {
			t.Errorf("locks after %d refusals: %s", refusals, r)
		}
	}
}

// TestFoundOnce walks what once showed a mistake in the fold.
func TestFoundOnce(t *testing.T) {
	// A write that waits for a sealed read of an older one in ordered was not woken by that one's decision.
	sealed := agents("as", sequencer.Optimistic, "Ea", "Ra Rs", "Ws")
	sealed.Agents[1].Mode = sequencer.Ordered
	for who := range sealed.Agents {
		sealed.Agents[who].Abort = who == 0
	}
	walk(t, "a sealed read ends", []Config{sealed})
}

// checkScript holds that a trace's script leads a fold to the same outcomes.
func checkScript(t *testing.T, trace Trace) {
	t.Helper()
	text := trace.Script("A counterexample.")
	_, text, _ = strings.Cut(text, "run\n")
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

// some are configurations small enough to be walked in several ways.
func some() []Config {
	out := append(every(197, PairConfigs()), retrying(agents("as", sequencer.Optimistic, "Ra Ws", "Rs Ea", "Ws"), 0))
	retracted := agents("as", sequencer.Optimistic, "Ea Ws", "Ra Ws")
	retracted.Agents[0].Retract = true
	watched := observing(agents("ab", sequencer.Optimistic, "Ea", "Ea Gb"), true, 2)
	watched.Agents[0].Retract = true
	out = append(out, retracted, watched, agents("ab", sequencer.Optimistic, "Ra Ea", "Ea Gb"))
	for i := range out {
		for who := range out[i].Agents {
			out[i].Agents[who].Abort = false
		}
	}
	return out
}

// TestKeysMergeOnlyWhatIsAlike walks configurations with states told apart exactly: written with seqs and epochs by
// their order, the states that are found must be those that the shorter walk finds.
func TestKeysMergeOnlyWhatIsAlike(t *testing.T) {
	for _, cfg := range some() {
		var found [2]map[uint64]bool
		var states [2]int
		keys := newKeyer(newModel(cfg))
		for i := range found {
			cfg.Exact = i == 1
			found[i] = map[uint64]bool{}
			s := newSearch(cfg)
			s.visit = func(w *world, st *sequencer.State) { found[i][keys.key(w, st)] = true }
			r := s.run()
			if !r.Complete {
				t.Fatal(r)
			}
			states[i] = r.States
		}
		t.Logf("%s: %d states by order, %d exactly", cfg.Name, states[0], states[1])
		if !maps.Equal(found[0], found[1]) {
			t.Errorf("%s: %d states by order, %d exactly, which are %d by order", cfg.Name, len(found[0]), states[1],
				len(found[1]))
		}
	}
}

// TestRestoredIsReplayed walks configurations from exported states and from the log: both must find the same.
func TestRestoredIsReplayed(t *testing.T) {
	for _, cfg := range some() {
		a := Run(cfg)
		cfg.Replay = true
		b := Run(cfg)
		if a.States != b.States || a.Transitions != b.Transitions || a.Commits != b.Commits {
			t.Errorf("%s: %s restored, %s replayed", cfg.Name, a, b)
		}
	}
}

func TestProgramSaysWhatIsWrong(t *testing.T) {
	for _, text := range []string{"Xa", "R", "Rab", "Rc"} {
		if _, err := Program(text, "ab"); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestBoundStopsTheWalk(t *testing.T) {
	cfg := PairConfigs()[0]
	cfg.MaxStates = 10
	if r := Run(cfg); r.Complete || r.Violation != nil {
		t.Errorf("a walk of at most 10 states: %s", r)
	}
}
