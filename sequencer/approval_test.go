package sequencer_test

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// A state that has no bound of approvals is restored with the default one: with none, what needs a yes would be denied
// in the tick after its seal.
func TestRestoreFillsApprovalBound(t *testing.T) {
	f := sequencer.New("ws")
	if _, err := f.Step(0, &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "a",
		Join: &sequencer.Join{ID: "j", Logic: sequencer.Logic}}); err != nil {
		t.Fatal(err)
	}
	st := f.State()
	st.Rules.ApprovalTicks = 0
	restored, err := sequencer.Restore(st)
	if err != nil {
		t.Fatal(err)
	}
	if got := restored.State().Rules.ApprovalTicks; got != 14_400 || restored.StateHash() != f.StateHash() {
		t.Errorf("the bound is %d ticks, and the hash %x; it was %x", got, restored.StateHash(), f.StateHash())
	}
}

// A state that was taken does not change with the words that come later: a no takes the place of a yes.
func TestStateKeepsApprovals(t *testing.T) {
	f := sequencer.New("ws")
	args := sequencer.Hash{1}
	needed := func(index uint32) sequencer.Effect {
		return sequencer.Effect{Index: index, Class: sequencer.ClassIrreversible, Scopes: []sequencer.Scope{"mail:/x"},
			Approve: true, Args: args}
	}
	word := func(yes bool) *sequencer.Intent {
		return &sequencer.Intent{Kind: sequencer.IntentVerdict, Agent: "a", Incarnation: 1, N: 1, Tx: "T1",
			Verdict: &sequencer.Verdict{Approvals: []sequencer.Approval{{Yes: yes, By: "ann", Args: args}}}}
	}
	step := func(in *sequencer.Intent) sequencer.State {
		t.Helper()
		if _, err := f.Step(0, in); err != nil {
			t.Fatal(err)
		}
		return f.State()
	}
	step(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "a",
		Join: &sequencer.Join{ID: "j", Logic: sequencer.Logic}})
	step(&sequencer.Intent{Kind: sequencer.IntentSeal, Agent: "a", Incarnation: 1, N: 1, Base: 1, Tx: "T1",
		Seal: &sequencer.Seal{Effects: []sequencer.Effect{needed(0), needed(1)}}})
	agreed := step(word(true))
	if after := step(word(false)); after.Txs[0].Phase == sequencer.PhaseSealed {
		t.Fatal("the no does not end the transaction")
	}
	if got := agreed.Txs[0].Approvals; len(got) != 1 || !got[0].Yes {
		t.Errorf("the state of before the no says %+v", got)
	}
}
