package gate

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// TestUnknownIsExplained holds what the residue of a call of unknown outcome says: whether its sink was told to refuse
// it, and why nothing was sent where a compensation is declared.
func TestUnknownIsExplained(t *testing.T) {
	const told, notForbidden = "was told to refuse its key", "not declared to forbid a key"
	obeyed := &Answer{}
	for name, c := range map[string]struct {
		undo, forbids, keyed, lost bool
		answer                     *Answer
		told, notForbidden         bool
	}{
		"an order that was obeyed":            {undo: true, forbids: true, keyed: true, answer: obeyed, told: true},
		"an order without an answer":          {undo: true, forbids: true, keyed: true},
		"an order that was refused":           {undo: true, forbids: true, keyed: true, answer: obeyed, lost: true},
		"a sink that cannot forbid":           {undo: true, keyed: true, notForbidden: true},
		"no compensation":                     {keyed: true},
		"a call without a key":                {undo: true},
		"one whose sink was declared anew":    {undo: true, keyed: true, answer: obeyed, told: true, notForbidden: true},
		"the same, and the order was refused": {undo: true, keyed: true, answer: obeyed, lost: true, notForbidden: true},
	} {
		p := Progress{Effect: Effect{Tool: Tool{Undo: c.undo, Forbids: c.forbids}}, UndoDone: c.answer, UndoLost: c.lost}
		if c.keyed {
			p.Key = "k"
		}
		detail := orderDetail(&p)
		if strings.Contains(detail, told) != c.told || strings.Contains(detail, notForbidden) != c.notForbidden {
			t.Errorf("%s: %q", name, detail)
		}
	}
}

// TestForbidsWhatHasAKey holds that a compensation is an order to refuse a call only if that has a key and is not
// known to have run: what has none cannot be refused, so undoing it by hand undoes it.
func TestForbidsWhatHasAKey(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		for _, ran := range []bool{false, true} {
			w := newWorld()
			p := w.add(sequencer.ClassReversible, keyed, true, true)
			if ran {
				p.Answer = &Answer{}
			}
			c, _, err := Compensation(w, "here", &p, Answer{})
			must(t, err)
			if want := keyed && !ran; c.ForbidOnly != want {
				t.Errorf("keyed %v, ran %v: it only forbids: %v", keyed, ran, c.ForbidOnly)
			}
		}
	}
}

// TestNamesOfSteps: a step that is none, of a newer journal or of a torn one, is said by its number.
func TestNamesOfSteps(t *testing.T) {
	names := map[Step]string{0: "step 0", StepIssued: "issued", StepNotSent: "not_sent", StepNotSent + 1: "step 10"}
	for step, want := range names {
		if got := step.String(); got != want {
			t.Errorf("step %d is %q, want %q", uint8(step), got, want)
		}
	}
}

// TestMisuse holds that what would corrupt an effect's progress stops the process instead.
func TestMisuse(t *testing.T) {
	w := newWorld()
	held := w.add(sequencer.ClassIrreversible, true, false, false)
	eager := w.add(sequencer.ClassReversible, true, true, true)
	for name, f := range map[string]func(){
		"a mark of another effect":      func() { held.Apply(Mark{Tx: held.Tx, Index: eager.Index, Step: StepStarted}) },
		"a mark of another transaction": func() { held.Apply(Mark{Tx: "other", Index: held.Index, Step: StepStarted}) },
		"a held call is finished":       func() { _, _ = w.engine().Finish(t.Context(), held, ClaimOwn) },
		"a held call that has begun is finished": func() {
			p := held
			p.Started = true
			_, _ = w.engine().Finish(t.Context(), p, ClaimOwn)
		},
		"effects out of order": func() { _, _ = w.engine().Release(t.Context(), []Progress{eager, held}, ClaimOwn) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestRetriesAreCounted: of three calls of one effect two are retries.
func TestRetriesAreCounted(t *testing.T) {
	w := newWorld()
	w.faults = []fault{faultDown, faultDown}
	g := w.engine()
	effects := []Progress{w.add(sequencer.ClassIrreversible, true, false, false)}
	_, err := g.Release(t.Context(), effects, ClaimOwn)
	must(t, err)
	if n := g.Metrics.Retries.Load(); n != 2 || w.done["tool0"] != 1 {
		t.Errorf("%d retries, done %v", n, w.done)
	}
}

// TestUnsentSaysWhy: what a person is told of a held call that did not leave names what stood in its way.
func TestUnsentSaysWhy(t *testing.T) {
	w := newWorld()
	w.faults = []fault{faultDown, faultDown, faultDown}
	effects := []Progress{w.add(sequencer.ClassIrreversible, true, false, false)}
	s, err := w.engine().Release(t.Context(), effects, ClaimOwn)
	must(t, err)
	if len(s.Residue) != 1 || !strings.Contains(s.Residue[0].Detail, "connection refused") {
		t.Errorf("the residue is %+v", s.Residue)
	}
}

// TestLongest: a tool without a maximum time has the default, and a compensation that cannot be made takes no time.
func TestLongest(t *testing.T) {
	if got := (&Tool{}).maxTime(); got != defaultMaxTime {
		t.Errorf("a tool that says nothing may take %v, want %v", got, defaultMaxTime)
	}
	w := newWorld()
	w.needs = true
	p := w.add(sequencer.ClassReversible, true, true, true)
	if got := w.engine().longest(&p); got != testMax {
		t.Errorf("a call may take %v, want %v", got, testMax)
	}
}
