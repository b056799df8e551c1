package gate

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// TestNextByHand says what a person may have tried again of a residue, and why not.
func TestNextByHand(t *testing.T) {
	held := Tool{Class: sequencer.ClassIrreversible}
	eager := Tool{Class: sequencer.ClassReversible, Undo: true}
	forbids := Tool{Class: sequencer.ClassReversible, Undo: true, Forbids: true}
	safe := func(r sequencer.Result) Hand { return Hand{Result: r, Keyed: true, Kept: true} }
	with := func(h Hand, change func(*Hand)) Hand {
		change(&h)
		return h
	}
	for _, c := range []struct {
		name string
		p    Progress
		hand Hand
		want Plan
	}{
		{"held, with a key", Progress{Effect: Effect{Tool: held, Key: "k"}}, safe(sequencer.ResultUnresolved),
			Plan{Do: DoByHand}},
		{"held, without", Progress{Effect: Effect{Tool: held}}, Hand{Result: sequencer.ResultUnresolved},
			Plan{Do: DoRefuse, Why: WhyUnkeyed}},
		{"held, without, and looked at", Progress{Effect: Effect{Tool: held}},
			Hand{Result: sequencer.ResultUnresolved, Force: true}, Plan{Do: DoByHand}},
		{"held, with a key that is too old", Progress{Effect: Effect{Tool: held, Key: "k"}},
			Hand{Result: sequencer.ResultPartial, Keyed: true}, Plan{Do: DoRefuse, Why: WhyKeyForgotten}},
		{"held, and made", Progress{Effect: Effect{Tool: held, Key: "k"}, Answer: &Answer{Detail: "ok"}},
			safe(sequencer.ResultUnresolved), Plan{Do: DoDone, Why: WhyMade, Answer: Answer{Detail: "ok"}}},
		{"held, never left, retracted", Progress{Effect: Effect{Tool: held, Key: "k"}, Dropped: true},
			safe(sequencer.ResultPartial), Plan{Do: DoRefuse, Why: WhyRetracted, Undo: true}},
		{"held, may have left, retracted", Progress{Effect: Effect{Tool: held, Key: "k"}},
			with(safe(sequencer.ResultUnresolved), func(h *Hand) { h.Back = true }),
			Plan{Do: DoRefuse, Why: WhyUnknown, Undo: true}},
		{"ran, nothing undoes it", Progress{Effect: Effect{Tool: Tool{Class: sequencer.ClassKnownOutcome}, Key: "k"},
			Answer: &Answer{}}, safe(sequencer.ResultLeaked), Plan{Do: DoRefuse, Why: WhyNoUndo, Undo: true}},
		{"ran", Progress{Effect: Effect{Tool: eager, Key: "k"}, Answer: &Answer{}}, safe(sequencer.ResultLeaked),
			Plan{Do: DoByHand, Undo: true}},
		{"may have run", Progress{Effect: Effect{Tool: eager, Key: "k"}}, safe(sequencer.ResultUnresolved),
			Plan{Do: DoRefuse, Why: WhyMayNotBeThere, Undo: true}},
		{"may have run, its sink forbids", Progress{Effect: Effect{Tool: forbids, Key: "k"}},
			safe(sequencer.ResultUnresolved), Plan{Do: DoByHand, Undo: true, Only: true}},
		{"ran, its sink forbids", Progress{Effect: Effect{Tool: forbids, Key: "k"}}, safe(sequencer.ResultLeaked),
			Plan{Do: DoByHand, Undo: true}},
		{"undone by hand before", Progress{Effect: Effect{Tool: eager, Key: "k"}, Answer: &Answer{}},
			with(safe(sequencer.ResultLeaked), func(h *Hand) { h.Undone = &Answer{Detail: "gone"} }),
			Plan{Do: DoDone, Why: WhyMade, Undo: true, Answer: Answer{Detail: "gone"}}},
	} {
		got := Next(&c.p, ClaimOwn, Facts{Phase: PhaseResidue, Hand: c.hand})
		if got.Do != c.want.Do || got.Why != c.want.Why || got.Undo != c.want.Undo || got.Only != c.want.Only ||
			got.Answer.Detail != c.want.Answer.Detail {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
