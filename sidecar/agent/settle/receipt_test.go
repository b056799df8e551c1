package settle

import (
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
)

// A compensation that its sink has refused did not undo anything, though it was answered.
func TestRefusedCompensationIsShown(t *testing.T) {
	p := gate.Progress{Started: true, Answer: &gate.Answer{}, Undoing: true}
	p.Apply(gate.Mark{Step: gate.StepUndoLost, Answer: &gate.Answer{Refused: true}})
	held, _ := heldState(p, Standing{})
	if ran := ranState(p, Standing{}); ran != api.EffectUndoLost || held != api.EffectUndoLost {
		t.Errorf("it is shown as %s and %s", ran, held)
	}
}

// TestOverAndNotKnown holds that no held call of a transaction is called released before this sidecar has read that
// it was committed: one that was aborted is settled as cleanly.
func TestOverAndNotKnown(t *testing.T) {
	p := gate.Progress{}
	p.Tool.Class = sequencer.ClassIrreversible
	for state, want := range map[string]string{api.StateOpen: api.EffectUnknown, api.StateSealed: api.EffectUnknown,
		api.StateCommitted: api.EffectReleased, api.StateAborted: api.EffectDropped} {
		if got, _ := heldState(p, Standing{State: state, Over: true, Clean: true}); got != want {
			t.Errorf("of one that is settled and %s it is %s, want %s", state, got, want)
		}
	}
}

// TestNotSentThenReleased holds that a settlement without residue says more than an old mark: the try behind that mark
// was followed by one that was answered, of which this sidecar heard nothing.
func TestNotSentThenReleased(t *testing.T) {
	p := gate.Progress{Unsent: "it did not leave: away", Dropped: true}
	p.Tool.Class = sequencer.ClassIrreversible
	settled := &sequencer.Outcome{Kind: sequencer.OutcomeSettled, Final: true}
	left := &sequencer.Outcome{Kind: sequencer.OutcomeSettled, Final: true, Residue: []sequencer.TxID{"a.1.1"}}
	undone := &sequencer.Outcome{Kind: sequencer.OutcomeSettled, Final: true, Retraction: "a.1.1"}
	for _, c := range []struct {
		name string
		how  []*sequencer.Outcome
		want string
	}{
		{"clean", []*sequencer.Outcome{settled}, api.EffectReleased},
		{"with residue", []*sequencer.Outcome{left}, api.EffectNotSent},
		{"with residue, retracted", []*sequencer.Outcome{left, undone}, api.EffectNotSent},
		{"clean, retracted", []*sequencer.Outcome{settled, undone}, api.EffectUnknown},
	} {
		seen := &view.TxState{}
		for _, o := range c.how {
			seen.Retraction.Observe(o, &seen.Final)
			seen.Clean = seen.Clean || view.ReleasedAll(o)
		}
		st := Standing{State: api.StateCommitted, Over: seen.Final, Clean: seen.Clean, Back: seen.Retraction.Undone}
		if got, _ := heldState(p, st); got != c.want {
			t.Errorf("%s: it is %s, want %s", c.name, got, c.want)
		}
	}
}
