package tables

import (
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/topology/trace"
)

// TestDeathsFall holds the rule of agents that die: it says no to each single thing that is not as it should be.
func TestDeathsFall(t *testing.T) {
	right := dead{runs: 5, late: 2, whole: 1, after: 5}
	if got := right.judge(0, 66, 1, 3); got.Verdict != Reproduced {
		t.Errorf("nothing is wrong, and %+v", got)
	}
	for name, got := range map[string]Result{
		"a half":                    (&dead{runs: 5, after: 5, halves: 1}).judge(0, 66, 1, 3),
		"a commit of nobody":        (&dead{runs: 5, after: 5, early: 1}).judge(0, 66, 1, 3),
		"one waits for ever":        (&dead{runs: 5, after: 4}).judge(0, 66, 1, 3),
		"no run":                    (&dead{}).judge(0, 66, 1, 3),
		"a half under a runtime":    right.judge(1, 66, 1, 3),
		"a baseline without halves": right.judge(0, 66, 0, 3),
	} {
		if got.Verdict != Missed {
			t.Errorf("%s, and %+v", name, got)
		}
	}
	e := &Env{Subject: Ours()}
	if torn, n := e.dieWithin(); torn != 0 || n != 6*len(runtimes.Kinds()) {
		t.Errorf("%d of %d agents left a half under the runtimes", torn, n)
	}
	// A runtime that commits an agent's first write by itself leaves a half: another one that has it, and no more.
	e.Subject.Runtime = func(...runtimes.Kind) *runtimes.Runtime {
		r := runtimes.New(runtimes.Vanilla)
		op := r.Begin(runtimes.Begin{Agent: "half"})
		op.Write("x", trace.Text("v"))
		op.Commit()
		return r
	}
	if torn, n := e.dieWithin(); torn != n*5/6 {
		t.Errorf("%d of %d are seen as halves", torn, n)
	}
}
