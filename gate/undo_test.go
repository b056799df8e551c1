package gate

import (
	"context"
	"errors"
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

// TestUndoHeldFirst holds that what was held, and so ran at the commit, is undone before what ran at once, whatever
// their indexes are, and that the settlement lists both by index.
func TestUndoHeldFirst(t *testing.T) {
	w := newWorld()
	var effects []Progress
	for _, class := range []sequencer.Class{sequencer.ClassBufferable, sequencer.ClassReversible} {
		effects = append(effects, w.add(class, true, true, true))
	}
	_, err := w.engine().Run(t.Context(), effects[1].Effect)
	must(t, err)
	effects = w.journal(effects, ClaimOwn)
	_, err = w.engine().Release(t.Context(), effects, ClaimOwn)
	must(t, err)
	effects = w.journal(effects, ClaimOwn)
	for i := range effects {
		effects[i].Committed = true
		effects[i].Tool.Scopes = effects[0].Tool.Scopes
	}
	w.faults = []fault{faultVanish, faultVanish, faultVanish} // the undo of the held one
	s, err := w.engine().Undo(t.Context(), effects, ClaimOwn)
	must(t, err)
	if w.done["tool1-undo"] != 0 || len(s.Residue) != 2 || !strings.Contains(s.Residue[1].Detail, "effect 0") {
		t.Errorf("undone %v, residue %+v; want that effect 1 waits for effect 0", w.done, s.Residue)
	}
	if len(s.Effects) != 2 || s.Effects[0].Index != 0 || s.Residue[0].Effect.Index != 0 {
		t.Errorf("listed %+v, %+v; want both by index", s.Effects, s.Residue)
	}
}

// TestUndoStopsThroughBehind holds that an effect which is not undone for one that came after it keeps those before it
// from being undone, too, also where only it moves what they moved.
func TestUndoStopsThroughBehind(t *testing.T) {
	w := newWorld()
	var effects []Progress
	for range 3 {
		p := w.add(sequencer.ClassReversible, true, true, true)
		_, err := w.engine().Run(t.Context(), p.Effect)
		must(t, err)
		effects = append(effects, p)
	}
	effects = w.journal(effects, ClaimOwn)
	effects[1].Tool.Scopes = append(slices.Clone(effects[0].Tool.Scopes), effects[2].Tool.Scopes...)
	w.faults = []fault{faultVanish, faultVanish, faultVanish} // the undo of the last one
	s, err := w.engine().Undo(t.Context(), effects, ClaimOwn)
	must(t, err)
	if w.done["tool1-undo"] != 0 || w.done["tool0-undo"] != 0 || len(s.Residue) != 3 {
		t.Errorf("undone %v, residue %+v; want nothing undone and all on the list", w.done, s.Residue)
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
	w.flying = append(w.flying, landing{w.now, w.engine().callOf(&p.Effect)})
	w.pass(time.Second)
	if w.done["tool0"] != 0 || len(s.Residue) != 0 {
		t.Errorf("it happened %d times after it was settled as %v", w.done["tool0"], s.Effects)
	}
}

// TestUndoBehindStranger holds that an undo by the log alone does not call an effect leaked that a former owner may
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

// TestUndoLooksBehindOrder holds that an order to refuse a call which could not be made, was refused or was lost does
// not count as obeyed: a call that shows up in spite of it is undone, or listed, and keeps what came before it.
func TestUndoLooksBehindOrder(t *testing.T) {
	lost := []fault{faultVanish, faultVanish, faultVanish}
	for _, c := range []struct {
		name   string
		needs  bool
		order  []fault
		late   bool
		result sequencer.Result
	}{
		{"cannot be made", true, nil, true, sequencer.ResultClean},
		{"cannot be made, absent", true, nil, false, sequencer.ResultClean},
		{"refused", false, []fault{faultRefuse}, true, sequencer.ResultLeaked},
		{"refused, absent", false, []fault{faultRefuse}, false, sequencer.ResultClean},
		{"lost", false, lost, true, sequencer.ResultLeaked}, // the sink has no record of the order
		{"lost, absent", false, lost, false, sequencer.ResultClean},
		{"did not leave", false, []fault{faultDown, faultDown, faultDown}, true, sequencer.ResultLeaked},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.lookups, w.needs = true, c.needs
			effects := []Progress{w.add(sequencer.ClassReversible, true, true, true),
				w.add(sequencer.ClassReversible, true, true, true)}
			_, err := w.engine().Run(t.Context(), effects[0].Effect)
			must(t, err)
			for range eagerTries {
				w.faults = append(w.faults, faultVanish)
			}
			_, err = w.engine().Run(t.Context(), effects[1].Effect)
			must(t, err)
			late := &effects[1]
			if c.late {
				w.execute(w.engine().callOf(&late.Effect))
			}
			w.faults = c.order
			effects = w.journal(effects, ClaimOwn)
			effects[1].Tool.Scopes = effects[0].Tool.Scopes
			s, err := w.engine().Undo(t.Context(), effects, ClaimOwn)
			must(t, err)
			if s.Effects[1].Result != c.result {
				t.Errorf("it settles as %s, want %s", s.Effects[1].Result, c.result)
			}
			if c.result == sequencer.ResultClean && (w.net(&effects[0]) != 0 || w.net(&effects[1]) != 0) {
				t.Errorf("all is clean, and done is %v", w.done)
			}
			if c.result != sequencer.ResultClean && (w.net(&effects[0]) != 1 || len(s.Residue) != 2) {
				t.Errorf("what came before is undone: %v, residue %v", w.done, s.Residue)
			}
		})
	}
}

// TestUndoShowsUpBehindStuck holds that a call which shows up, and whose sink could not be told to refuse it, is not
// undone before a later one on its scope.
func TestUndoShowsUpBehindStuck(t *testing.T) {
	w := newWorld()
	w.lookups, w.needs = true, true
	var effects []Progress
	for i := range 2 {
		p := w.add(sequencer.ClassReversible, true, true, true)
		p.Tool.Scopes = []sequencer.Scope{"x:/one"}
		for range eagerTries * (1 - i) { // the first one
			w.faults = append(w.faults, faultVanish)
		}
		_, err := w.engine().Run(t.Context(), p.Effect)
		must(t, err)
		w.faults = nil
		effects = append(effects, p)
	}
	w.execute(w.engine().callOf(&effects[0].Effect))
	w.faults = []fault{faultVanish, faultVanish, faultVanish} // the undo of the second one
	s, err := w.engine().Undo(t.Context(), w.journal(effects, ClaimOwn), ClaimOwn)
	must(t, err)
	if w.done["tool0"] != 1 || w.done["tool0-undo"] != 0 || len(s.Residue) != 2 {
		t.Errorf("done %v, residue %v; want both on the list", w.done, s.Residue)
	}
}

// TestUndoLapsed holds that a known outcome which its sink let lapse is clean while the sink surely knows the key.
func TestUndoLapsed(t *testing.T) {
	for _, c := range []struct {
		name      string
		life, age time.Duration
		ahead     time.Duration // of this machine's clock: the one on which it was issued
		result    sequencer.Result
	}{
		{"for good", 0, time.Hour, 0, sequencer.ResultClean},
		{"within its life", time.Hour, time.Minute, 0, sequencer.ResultClean},
		{"older", time.Hour, time.Hour, 0, sequencer.ResultLeaked},
		{"within its life by a clock that is behind", time.Hour, 50 * time.Minute, 0, sequencer.ResultLeaked},
		{"issued by a clock that is ahead", time.Hour, 50 * time.Minute, ClocksApart, sequencer.ResultClean},
		{"issued later than clocks differ", 24 * time.Hour, time.Minute, time.Hour, sequencer.ResultLeaked},
	} {
		w := newWorld()
		w.lookups, w.leaseEnd = true, w.now.Add(24*time.Hour)
		p := w.add(sequencer.ClassKnownOutcome, true, false, false)
		p.At, p.Tool.KeyLife = w.now.Add(c.ahead), c.life
		_, err := w.engine().Run(t.Context(), p.Effect)
		must(t, err)
		delete(w.seen, p.Key)
		w.pass(c.age)
		s, err := w.engine().Undo(t.Context(), w.journal([]Progress{p}, ClaimOwn), ClaimOwn)
		must(t, err)
		if s.Effects[0].Result != c.result {
			t.Errorf("%s: it settles as %s, want %s", c.name, s.Effects[0].Result, c.result)
		}
	}
}

// TestUndoAtForeignSink holds what is sent to a sink that takes keys and has never heard of compensations: nothing for
// a call that is not known to be there, and the compensation for one that shows up by the time of the abort.
func TestUndoAtForeignSink(t *testing.T) {
	for _, c := range []struct {
		name    string
		lookups bool
		late    bool // the call arrives after its maximum time
		result  sequencer.Result
		sent    int // compensations
	}{
		{"absent", true, false, sequencer.ResultClean, 0},
		{"absent, then there", true, true, sequencer.ResultClean, 1},
		{"unknown", false, false, sequencer.ResultUnresolved, 0},
		{"unknown, and there", false, true, sequencer.ResultUnresolved, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.lookups, w.foreign = c.lookups, true
			p := w.add(sequencer.ClassReversible, true, true, true)
			for range eagerTries {
				w.faults = append(w.faults, faultVanish)
			}
			_, err := w.engine().Run(t.Context(), p.Effect)
			if err != nil && !errors.Is(err, ErrGivenUp) {
				t.Fatal(err)
			}
			w.faults = nil
			if c.late {
				w.execute(w.engine().callOf(&p.Effect))
			}
			s, err := w.engine().Undo(t.Context(), w.journal([]Progress{p}, ClaimOwn), ClaimOwn)
			must(t, err)
			if len(s.Effects) != 1 || s.Effects[0].Result != c.result || w.done["tool0-undo"] != c.sent {
				t.Errorf("it settles as %+v and %d compensations were sent, want %s and %d", s.Effects, w.done["tool0-undo"],
					c.result, c.sent)
			}
		})
	}
}

// TestUndoKeepsOrderBehindUnknown holds that what came before a call of unknown outcome, on its scope, is not
// undone: an operator who undoes that one later would put back over it what it had written.
func TestUndoKeepsOrderBehindUnknown(t *testing.T) {
	w := newWorld()
	w.foreign = true
	var effects []Progress
	for i := range 2 {
		p := w.add(sequencer.ClassReversible, true, true, true)
		if i == 1 {
			p.Tool.Scopes = effects[0].Tool.Scopes
			for range eagerTries {
				w.faults = append(w.faults, faultVanish)
			}
		}
		if _, err := w.engine().Run(t.Context(), p.Effect); err != nil && !errors.Is(err, ErrGivenUp) {
			t.Fatal(err)
		}
		effects = append(effects, p)
	}
	w.faults = nil
	s, err := w.engine().Undo(t.Context(), w.journal(effects, ClaimOwn), ClaimOwn)
	must(t, err)
	if len(s.Residue) != 2 || len(w.done) != 1 {
		t.Errorf("done %v, residue %+v; want both on the list and nothing undone", w.done, s.Residue)
	}
}

// TestPlain holds that what came from elsewhere cannot move a cursor, hide itself or add a row where it is shown.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"grüße, 日本": "grüße, 日本", "a\nb\tc\r": "a b c ", "\x1b[2K": "\uFFFD[2K", "\u009b2K": "\uFFFD2K",
		"\x00\x7f":      "\uFFFD\uFFFD",
		"\u202egnp.exe": "\uFFFDgnp.exe", "a\u200bb\u2066\ufeff": "a\uFFFDb\uFFFD\uFFFD", "\u2028x\u2029": "\uFFFDx\uFFFD",
		"\xff\xc0\xaf": "\uFFFD",
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
