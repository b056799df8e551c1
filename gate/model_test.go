package gate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"pgregory.net/rapid"
)

func drawWorld(t *rapid.T, gatedOnly bool) (*world, []Progress) {
	w := newWorld()
	w.lookups = rapid.Bool().Draw(t, "lookups")
	w.foreign = rapid.Bool().Draw(t, "foreign")
	classes := []sequencer.Class{sequencer.ClassBufferable, sequencer.ClassIrreversible}
	if !gatedOnly {
		classes = append(classes, sequencer.ClassReversible, sequencer.ClassKnownOutcome)
	}
	var effects []Progress
	for range rapid.IntRange(1, 4).Draw(t, "effects") {
		p := w.add(rapid.SampledFrom(classes).Draw(t, "class"), rapid.Bool().Draw(t, "keyed"),
			rapid.Bool().Draw(t, "undo"), rapid.Bool().Draw(t, "undo keyed"))
		if len(effects) > 0 && rapid.Bool().Draw(t, "same scope") {
			p.Tool.Scopes = effects[0].Tool.Scopes
		}
		effects = append(effects, p)
	}
	return w, effects
}

func drawFaults(t *rapid.T) []fault {
	return rapid.SliceOfN(rapid.SampledFrom([]fault{faultNone, faultNone, faultNone, faultDown, faultLost, faultLate,
		faultVanish, faultRefuse, faultTurned, faultTimeout, faultDiffers}), 0, 10).Draw(t, "faults")
}

// runner is Release or Undo.
type runner func(*Engine, []Progress, Claim) (Settlement, error)

// settle runs a settlement through crashes and marks that fail until it ends, under whatever claim comes next.
func settle(t *rapid.T, w *world, effects []Progress, run runner) Settlement {
	claim := ClaimOwn
	for range rapid.IntRange(0, 3).Draw(t, "crashes") {
		w.dieAt = w.ops + rapid.IntRange(1, 12).Draw(t, "die after")
		var s Settlement
		var err error
		if attempt(func() { s, err = run(w.engine(), effects, claim) }) {
			must2(t, err)
			w.dieAt = 0
			return s
		}
		claim = max(claim, rapid.SampledFrom([]Claim{ClaimSuccessor, ClaimStranger}).Draw(t, "claim"))
		effects = w.journal(effects, claim)
	}
	w.dieAt = 0
	s, err := run(w.engine(), effects, claim)
	must2(t, err)
	return s
}

func must2(t *rapid.T, err error) {
	if err != nil {
		t.Fatalf("unexpected: %v", err)
	}
}

// TestReleaseModel crashes a release anywhere and goes on under any claim: what is said of each effect is true, none
// takes place twice, and none before those issued before it.
func TestReleaseModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, effects := drawWorld(t, true)
		w.faults = drawFaults(t)
		s := settle(t, w, effects, func(g *Engine, ps []Progress, c Claim) (Settlement, error) {
			return g.Release(context.Background(), ps, c)
		})
		w.checkTruth(t, effects, s, true)
		for i, index := range w.order {
			if int(index) != i {
				t.Fatalf("they took place in the order %v", w.order)
			}
		}
	})
}

// TestUndoModel runs eager calls, aborts, and undoes with crashes anywhere, or takes back what was committed.
func TestUndoModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, effects := drawWorld(t, false)
		ctx := context.Background()
		w.faults = drawFaults(t)
		w.dieAt = rapid.IntRange(0, 20).Draw(t, "die at")
		claim := ClaimOwn
		if !attempt(func() {
			for i := range effects {
				if effects[i].Tool.Class.Eager() {
					_, err := w.engine().Run(ctx, effects[i].Effect)
					if err != nil && !errors.Is(err, ErrGivenUp) {
						t.Fatalf("running: %v", err)
					}
				}
			}
		}) {
			claim = ClaimSuccessor
		}
		w.dieAt = 0
		effects = w.journal(effects, ClaimOwn)
		if rapid.Bool().Draw(t, "committed") && allKnown(effects) {
			_, err := w.engine().Release(ctx, effects, claim)
			must2(t, err)
			for i := range effects {
				effects[i].Committed = true
			}
		}
		effects = w.journal(effects, claim)
		w.faults = drawFaults(t)
		before := maps.Clone(w.sent)
		s := settle(t, w, effects, func(g *Engine, ps []Progress, c Claim) (Settlement, error) {
			return g.Undo(ctx, ps, max(c, claim))
		})
		for i, p := range w.journal(effects, ClaimOwn) {
			tool := &p.Tool
			if held := !p.Started && p.Answer == nil && !p.GivenUp; tool.Class.Gated() && held && !p.Dropped {
				t.Fatalf("nothing says of held effect %d that it never leaves", i)
			}
			if again := tool.Class.Eager() && tool.Undo; !again && w.sent[tool.Name] != before[tool.Name] {
				t.Fatalf("effect %d, which nothing takes back, was made again only to be known", i)
			}
		}
		w.checkTruth(t, effects, s, false)
	})
}

func allKnown(effects []Progress) bool {
	return !slices.ContainsFunc(effects, func(p Progress) bool {
		return p.Tool.Class.Eager() && (!p.Started || !p.Known() || p.GivenUp)
	})
}
