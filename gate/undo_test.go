package gate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// TestUndoStops holds that a compensation which may yet arrive keeps earlier ones on its scope from being made: it
// would put back over theirs what they had written. Those on other scopes are made.
func TestUndoStops(t *testing.T) {
	w := newWorld()
	var effects []Progress
	for range 3 {
		p := w.add(sequencer.ClassReversible, true, true, true)
		_, err := w.engine().Run(t.Context(), p.Effect)
		must(t, err)
		effects = append(effects, p)
	}
	effects = w.journal(effects, ClaimOwn)
	effects[2].Tool.Scopes = effects[0].Tool.Scopes
	w.faults = []fault{faultVanish, faultVanish, faultVanish} // the undo of the last one, as often as it is tried
	s, err := w.engine().Undo(t.Context(), effects, ClaimOwn)
	must(t, err)
	if w.done["tool1-undo"] != 1 || w.done["tool0-undo"] != 0 {
		t.Errorf("undone: %v, want tool1 alone", w.done)
	}
	want := []sequencer.Result{sequencer.ResultLeaked, sequencer.ResultClean, sequencer.ResultUnresolved}
	for i, e := range s.Effects {
		if e.Result != want[i] {
			t.Errorf("effect %d settles as %s, want %s", i, e.Result, want[i])
		}
	}
	if len(s.Residue) != 2 || !strings.Contains(s.Residue[0].Detail, "effect 2") {
		t.Errorf("the residue is %v", s.Residue)
	}
}

// TestUndoForbidsAbsent holds that a call which was looked up and had not arrived is forbidden to its sink all the
// same: one that is later than its maximum time then does nothing.
func TestUndoForbidsAbsent(t *testing.T) {
	w := newWorld()
	w.lookups = true
	p := w.add(sequencer.ClassReversible, true, true, true)
	for range eagerTries {
		w.faults = append(w.faults, faultVanish)
	}
	a, err := w.engine().Run(context.Background(), p.Effect)
	must(t, err)
	if !a.Absent && !a.Refused {
		t.Fatalf("the call is answered %+v, want that it never arrived", a)
	}
	w.faults = nil
	effects := w.journal([]Progress{p}, ClaimOwn)
	s, err := w.engine().Undo(t.Context(), effects, ClaimOwn)
	must(t, err)
	w.flying = append(w.flying, landing{w.now, p.call()})
	w.pass(time.Second)
	if w.done["tool0"] != 0 || len(s.Residue) != 0 {
		t.Errorf("it happened %d times after it was settled as %v", w.done["tool0"], s.Effects)
	}
}

// TestUndoBehindStranger holds that whoever knows only the log does not call an effect leaked that a former owner may
// have undone before it died.
func TestUndoBehindStranger(t *testing.T) {
	w := newWorld()
	var effects []Progress
	for range 2 {
		p := w.add(sequencer.ClassReversible, false, true, false)
		_, err := w.engine().Run(t.Context(), p.Effect)
		must(t, err)
		effects = append(effects, p)
	}
	known := w.journal(effects, ClaimOwn)
	known[1].Tool.Scopes = known[0].Tool.Scopes
	left := slices.Clone(known)
	_, err := w.engine().Undo(t.Context(), known, ClaimOwn)
	must(t, err)
	s, err := w.engine().Undo(t.Context(), left, ClaimStranger)
	must(t, err)
	for _, e := range s.Effects {
		if e.Result != sequencer.ResultUnresolved {
			t.Errorf("effect %d settles as %s, want unresolved", e.Index, e.Result)
		}
	}
	w.checkOnce(t)
}

// recorder keeps the calls that reach the world.
type recorder struct {
	*world
	calls []Call
}

func (r *recorder) Adapter(string) (Adapter, error) { return r, nil }

func (r *recorder) Call(ctx context.Context, c Call) (Answer, error) {
	r.calls = append(r.calls, c)
	return r.world.Call(ctx, c)
}

// TestUndoForbidsOnly holds that the compensation of a call that a dead process announced, and that never arrived,
// says that it only forbids; that of a call which ran does not.
func TestUndoForbidsOnly(t *testing.T) {
	for _, ran := range []bool{false, true} {
		w := newWorld()
		w.lookups = true
		r := &recorder{world: w}
		p := w.add(sequencer.ClassReversible, true, true, true)
		if ran {
			_, err := w.engine().Run(t.Context(), p.Effect)
			must(t, err)
		}
		w.marks = []Mark{{Tx: p.Tx, Index: p.Index, Step: StepStarted, Try: 1}}
		g := New(Options{Tools: r, Marks: w, Lease: w, Clock: w})
		s, err := g.Undo(t.Context(), w.journal([]Progress{p}, ClaimSuccessor), ClaimSuccessor)
		must(t, err)
		if len(r.calls) != 1 || r.calls[0].Compensates != p.Key || r.calls[0].ForbidOnly == ran {
			t.Errorf("ran %v: the sink was sent %+v", ran, r.calls)
		}
		if w.net(&p) != 0 || len(s.Residue) != 0 {
			t.Errorf("ran %v: %d times, undone %d times, residue %v", ran, w.done["tool0"], w.done["tool0-undo"], s.Residue)
		}
	}
}

// TestUndoPassesAbsent holds that a call which never arrived does not keep what came before it from being undone, even
// if its sink takes no order to refuse it.
func TestUndoPassesAbsent(t *testing.T) {
	w := newWorld()
	w.lookups = true
	var effects []Progress
	for range 2 {
		effects = append(effects, w.add(sequencer.ClassReversible, true, true, true))
	}
	_, err := w.engine().Run(t.Context(), effects[0].Effect)
	must(t, err)
	effects = w.journal(effects, ClaimSuccessor)
	effects[1].Tool.Scopes, effects[1].Started = effects[0].Tool.Scopes, true
	w.faults = []fault{faultRefuse} // the order
	s, err := w.engine().Undo(t.Context(), effects, ClaimSuccessor)
	must(t, err)
	if w.net(&effects[0]) != 0 || len(s.Residue) != 0 {
		t.Errorf("undone: %v, residue %v", w.done, s.Residue)
	}
}
