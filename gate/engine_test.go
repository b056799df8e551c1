package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// TestReleaseTable goes through every claim, key, progress and fault of one held effect.
func TestReleaseTable(t *testing.T) {
	faults := [][]fault{nil, {faultDown}, {faultDown, faultDown, faultDown}, {faultLost}, {faultLate}, {faultVanish},
		{faultVanish, faultVanish, faultVanish}, {faultRefuse}, {faultTimeout}, {faultLate, faultRefuse},
		{faultTurned}, {faultLost, faultTurned}, {faultLost, faultTurned, faultTurned}, {faultVanish, faultRefuse}}
	for _, claim := range []Claim{ClaimOwn, ClaimSuccessor, ClaimStranger} {
		for _, keyed := range []bool{true, false} {
			for _, started := range []bool{true, false} {
				for _, fs := range faults {
					t.Run(fmt.Sprintf("%s/keyed=%v/started=%v/%v", claim, keyed, started, fs), func(t *testing.T) {
						w := newWorld()
						effects := []Progress{w.add(sequencer.ClassIrreversible, keyed, false, false),
							w.add(sequencer.ClassIrreversible, true, false, false)}
						effects[0].Started = started
						w.faults = fs
						s, err := w.engine().Release(context.Background(), effects, claim)
						must(t, err)
						w.checkTruth(t, effects, s, true)
						if got, want := s.Effects[0].Result, releaseWant(claim, keyed, started, fs); got != want {
							t.Errorf("settles as %s, want %s", got, want)
						}
						if !keyed && (started || claim == ClaimStranger) && w.done["tool0"] != 0 {
							t.Error("called without a key, and without a claim to")
						}
						if s.NoneElse != claim.whole() {
							t.Errorf("claims that nothing else ran: %v", s.NoneElse)
						}
					})
				}
			}
		}
	}
}

func releaseWant(claim Claim, keyed, started bool, fs []fault) sequencer.Result {
	maybe := started || claim == ClaimStranger
	if !keyed && maybe {
		return sequencer.ResultUnresolved
	}
	for n, f := range fs {
		switch {
		case f == faultRefuse, f == faultTurned && n == 0 && !maybe:
			return sequencer.ResultPartial
		case f != faultDown && !keyed, n == 2 && (f != faultDown || maybe):
			return sequencer.ResultUnresolved
		case n == 2:
			return sequencer.ResultPartial
		}
	}
	return sequencer.ResultClean
}

// TestRefusedAndAbsent counts a refusal of a repetition once a look-up shows that no other try did anything.
func TestRefusedAndAbsent(t *testing.T) {
	for _, c := range []struct {
		first fault
		want  sequencer.Result
		says  string
	}{{faultVanish, sequencer.ResultPartial, "the sink refused it, nothing happened: not today"},
		{faultLost, sequencer.ResultClean, ""}, {faultLate, sequencer.ResultClean, ""}} {
		w := newWorld()
		w.lookups = true
		w.faults = []fault{c.first, faultTurned, faultTurned}
		p := w.add(sequencer.ClassIrreversible, true, false, false)
		s, err := w.engine().Release(t.Context(), []Progress{p}, ClaimOwn)
		must(t, err)
		w.checkTruth(t, []Progress{p}, s, true)
		if s.Effects[0].Result != c.want || c.says != "" && !strings.Contains(s.Residue[0].Detail, c.says) {
			t.Errorf("after fault %d it settles as %s: %+v", c.first, s.Effects[0].Result, s.Residue)
		}
	}
}

// TestUndoAnswers says what becomes of one eager effect that ran, by what the compensation met.
func TestUndoAnswers(t *testing.T) {
	for _, c := range []struct {
		name        string
		undo, keyed bool
		claim       Claim
		faults      []fault
		want        sequencer.Result
	}{
		{"done", true, false, ClaimOwn, nil, sequencer.ResultClean},
		{"none declared", false, false, ClaimOwn, nil, sequencer.ResultLeaked},
		{"refused", true, true, ClaimOwn, []fault{faultRefuse}, sequencer.ResultLeaked},
		{"turned away", true, true, ClaimOwn, []fault{faultTurned}, sequencer.ResultLeaked},
		{"turned away after it was done", true, true, ClaimOwn, []fault{faultLost, faultTurned, faultTurned},
			sequencer.ResultUnresolved},
		{"refused for other arguments after it was done", true, true, ClaimOwn,
			[]fault{faultLost, faultDiffers, faultDiffers}, sequencer.ResultUnresolved},
		{"turned away after an unknown try, then done", true, true, ClaimOwn, []fault{faultLost, faultTurned},
			sequencer.ResultClean},
		{"unknown without key", true, false, ClaimOwn, []fault{faultLost}, sequencer.ResultUnresolved},
		{"unknown with key", true, true, ClaimOwn, []fault{faultLost}, sequencer.ResultClean},
		{"down", true, true, ClaimOwn, []fault{faultDown, faultDown, faultDown}, sequencer.ResultLeaked},
		{"stranger without key", true, false, ClaimStranger, nil, sequencer.ResultUnresolved},
		{"stranger with key", true, true, ClaimStranger, nil, sequencer.ResultClean},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			p := w.add(sequencer.ClassReversible, true, c.undo, c.keyed)
			_, err := w.engine().Run(context.Background(), p.Effect)
			must(t, err)
			effects := w.journal([]Progress{p}, c.claim)
			w.faults = c.faults
			s, err := w.engine().Undo(context.Background(), effects, c.claim)
			must(t, err)
			w.checkTruth(t, effects, s, false)
			if len(s.Effects) != 1 || s.Effects[0].Result != c.want {
				t.Errorf("settles as %v, want %s", s.Effects, c.want)
			}
		})
	}
}

// TestFailEach fails the n-th operation for every n: nothing leaves after a mark that failed, and going on is true.
func TestFailEach(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld()
		effects := []Progress{w.add(sequencer.ClassReversible, true, true, true),
			w.add(sequencer.ClassBufferable, true, false, false), w.add(sequencer.ClassIrreversible, false, false, false)}
		w.failAt = n
		ctx := context.Background()
		_, err := w.engine().Run(ctx, effects[0].Effect)
		failed := err != nil
		effects = w.journal(effects, ClaimOwn)
		var s Settlement
		for range 3 {
			if s, err = w.engine().Release(ctx, effects, ClaimOwn); err == nil {
				break
			}
			if !errors.Is(err, ErrMark) {
				t.Fatalf("operation %d: %v", n, err)
			}
			failed = true
		}
		must(t, err)
		w.checkTruth(t, effects, s, true)
		if w.ops < n {
			if failed {
				t.Fatalf("operation %d of %d failed", n, w.ops)
			}
			return
		}
	}
}

// TestLease begins no call that the lease does not outlast, and leaves no trace of one.
func TestLease(t *testing.T) {
	w := newWorld()
	w.leaseEnd = w.now.Add(testMax)
	effects := []Progress{w.add(sequencer.ClassIrreversible, false, false, false)}
	_, err := w.engine().Release(context.Background(), effects, ClaimOwn)
	if !errors.Is(err, ErrLease) || len(w.marks) != 0 {
		t.Fatalf("got %v and %d marks, want %v and none", err, len(w.marks), ErrLease)
	}
	w.leaseEnd = w.now.Add(time.Hour)
	s, err := w.engine().Release(context.Background(), effects, ClaimOwn)
	must(t, err)
	w.checkTruth(t, effects, s, true)
}

// TestTriesCountOverALease holds that a release which a lease has stopped goes on with its tries: were they counted
// from the first again, a sink that stays away would be tried for good. The next process has as many again.
func TestTriesCountOverALease(t *testing.T) {
	w := newWorld()
	for range 100 {
		w.faults = append(w.faults, faultDown)
	}
	effects := []Progress{w.add(sequencer.ClassIrreversible, true, false, false)}
	n := effects[0].Tool.Retry.Attempts
	former := w.engine()
	for range n - 1 {
		w.leaseEnd = w.now.Add(testMax + 1)
		if _, err := former.Release(t.Context(), effects, ClaimOwn); !errors.Is(err, ErrLease) {
			t.Fatalf("the former process: %v", err)
		}
	}
	g := w.engine()
	for renewed := range 50 {
		w.leaseEnd = w.now.Add(testMax + 1) // one call long: the pause behind it is too much
		s, err := g.Release(t.Context(), effects, ClaimOwn)
		if errors.Is(err, ErrLease) {
			continue
		}
		must(t, err)
		if effects[0].Tries != 2*n-1 || renewed == 0 || 100-len(w.faults) != 2*n-1 {
			t.Errorf("%d tries, %d of them by the former process, under %d leases, want %d under several", effects[0].Tries,
				n-1, renewed+1, 2*n-1)
		}
		if effects[0].Unsent == "" || s.Effects[0].Result != sequencer.ResultPartial {
			t.Errorf("it is settled as %v: %+v", s.Effects, effects[0])
		}
		return
	}
	t.Errorf("after %d tries it is still being tried", effects[0].Tries)
}

// slowMarks take so long now and then that the lease is over before the call can leave.
type slowMarks struct {
	*world
	slow int // so many starts
}

func (m *slowMarks) Mark(mark Mark) error {
	if (mark.Step == StepStarted || mark.Step == StepUndoing) && m.slow > 0 {
		m.slow--
		m.leaseEnd = m.now
	}
	return m.world.Mark(mark)
}

// TestTriesAreCalls holds that a try which the lease stops behind its mark is none: it neither counts against the
// attempts, nor is it named among the calls. So with a compensation.
func TestTriesAreCalls(t *testing.T) {
	for _, undo := range []bool{false, true} {
		for _, first := range []fault{faultDown, faultVanish} {
			w := newWorld()
			p := w.add(sequencer.ClassIrreversible, true, undo, true)
			if w.faults = []fault{first, faultDown, faultDown}; undo {
				p.Committed, p.Started, p.Answer = true, true, &Answer{}
			}
			effects := []Progress{p}
			m := &slowMarks{world: w}
			g := New(Options{Tools: w, Marks: m, Lease: w, Clock: w})
			settle := g.Release
			if undo {
				settle = g.Undo
			}
			for n, slow := range []int{1, 0, 1, 1, 0} { // the lease is one call long: the pause behind it is too much
				m.slow, w.leaseEnd = slow, w.now.Add(testMax+1)
				if _, err := settle(t.Context(), effects, ClaimOwn); !errors.Is(err, ErrLease) {
					t.Fatalf("undo %v, %v: settlement %d: %v", undo, first, n, err)
				}
			}
			w.leaseEnd = w.now.Add(time.Hour)
			s, err := settle(t.Context(), effects, ClaimOwn)
			must(t, err)
			if len(w.faults) != 0 || len(s.Residue) != 1 || s.Residue[0].Tries != 3 {
				t.Errorf("undo %v, %v: %d calls are not made, the residue is %+v", undo, first, len(w.faults), s.Residue)
			}
		}
	}
}

// silent is a sink that never answers.
type silent struct{ *world }

func (s silent) Adapter(string) (Adapter, error) { return s, nil }

func (silent) Call(ctx context.Context, _ Call) (Answer, error) {
	<-ctx.Done()
	return Answer{}, ErrUnknown
}

// TestGiveUp ends an unanswered call after its maximum time, on the machine's clock.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.add(sequencer.ClassReversible, false, false, false)
		start := time.Now()
		g := New(Options{Tools: silent{w}, Marks: w, Lease: w})
		if _, err := g.Run(t.Context(), p.Effect); !errors.Is(err, ErrGivenUp) {
			t.Fatalf("got %v, want %v", err, ErrGivenUp)
		}
		if d := time.Since(start); d != testMax {
			t.Errorf("given up after %s, want %s", d, testMax)
		}
		if last := w.marks[len(w.marks)-1]; last.Step != StepGivenUp {
			t.Errorf("the last mark is %s", last.Step)
		}
	})
}

// TestAbsentYet does not believe that a call never arrived while it may be on its way.
func TestAbsentYet(t *testing.T) {
	w := newWorld()
	w.lookups = true
	p := w.add(sequencer.ClassKnownOutcome, true, false, false)
	p.Started = true
	w.flying = append(w.flying, landing{w.now.Add(testMax / 2), w.engine().callOf(&p.Effect)})
	effects := []Progress{p}
	s, err := w.engine().Undo(context.Background(), effects, ClaimOwn)
	must(t, err)
	w.checkTruth(t, effects, s, false)
	if len(s.Residue) != 1 || s.Residue[0].Result != sequencer.ResultLeaked {
		t.Errorf("the residue is %v, want one that leaked", s.Residue)
	}
}
