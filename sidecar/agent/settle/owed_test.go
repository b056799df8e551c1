package settle

import (
	"context"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// owing is a log whose answer about what is unsettled is as of one seq.
type owing struct {
	*memlog.Door
	rows    []topology.Unsettled
	through sequencer.Seq
}

func (o owing) Unsettled(context.Context, string, string, int) ([]topology.Unsettled, sequencer.Seq, error) {
	return o.rows, o.through, nil
}

// finds has a settler find what its join has made its own, as of a seq.
func finds(t *testing.T, s *Settler, tx sequencer.TxID, through sequencer.Seq) *unsettled {
	t.Helper()
	s.Events = owing{s.Events.(*memlog.Door), []topology.Unsettled{{Tx: tx, Owner: 7, Phase: sequencer.PhaseCommitted,
		Decision: 6}}, through}
	s.FindOwed(t.Context(), 7)
	return s.unsettled[tx]
}

// An answer about what is owed may be older than what this sidecar has seen. A member of a cone that is settled since
// is not owed again before its turn: the log would take that settlement for the turn's.
func TestOwedAnswerIsOlder(t *testing.T) {
	for name, c := range map[string]struct {
		through sequencer.Seq
		final   bool
		owed    bool
	}{
		"settled since":               {through: 16},
		"final since":                 {through: 16, final: true, owed: true}, // that is for the view to say
		"the answer is as of that":    {through: 17, owed: true},
		"the answer is later, undone": {through: 20, owed: true},
	} {
		s := alone(t)
		tx := api.TxName("a", 5, 1)
		s.Observe(&sequencer.Outcome{Kind: sequencer.OutcomeSettled, Tx: tx, Seq: 17})
		if c.final {
			s.Observe(&sequencer.Outcome{Kind: sequencer.OutcomeSettled, Tx: tx, Seq: 19, Final: true})
		}
		if got := finds(t, s, tx, c.through) != nil; got != c.owed {
			t.Errorf("%s: owed %v", name, got)
		}
	}
}

// A settlement is not appended once its transaction is settled: session.Append would end the test.
func TestSettledMeanwhile(t *testing.T) {
	s := alone(t)
	d := s.owe(api.TxName("a", 7, 1), 6, true, true)
	s.paid(&sequencer.Outcome{Kind: sequencer.OutcomeSettled, Tx: d.tx, Seq: 8})
	if err := s.appendSettlement(t.Context(), d, gate.Settlement{}, 7); err != nil || s.settles > 0 {
		t.Errorf("it is settled, and settled again: %v, %d", err, s.settles)
	}
}

// A sidecar that had adopted a transaction may go on by its own clock after a join has ended its session. The agent
// that comes back for the transaction waits for it, and for its calls.
func TestOwedWaitsForAnAdopter(t *testing.T) {
	for by, want := range map[string]bool{"b": true, "a": false, "": false} {
		s := alone(t)
		tx := api.TxName("a", 5, 1)
		if by != "" {
			s.Observe(&sequencer.Outcome{Kind: sequencer.OutcomeAdopted, Tx: tx, Seq: 10, Agent: by, Incarnation: 9})
		}
		s.Observe(&sequencer.Outcome{Kind: sequencer.OutcomeLeaseEnded, Seq: 11, Agent: "b", Incarnation: 9,
			Intent: api.JoinIntent("b joins")})
		d := finds(t, s, tx, 12)
		if d == nil || !d.freed.IsZero() != want || want && !d.freed.After(s.clock.Steady()) {
			t.Fatalf("adopted by %q: %+v", by, d)
		}
	}
}

// The last one that may begin a call is the one whose calls are waited for.
func TestCallsOfTheLastStranger(t *testing.T) {
	s := alone(t)
	now := s.clock.Steady()
	s.formers.strangersSince, s.formers.strangersLease = now.Add(-time.Hour), time.Hour+time.Minute
	d := &unsettled{tx: api.TxName("a", 5, 1), freed: now.Add(-time.Second), heard: true}
	effects := []gate.Progress{{Effect: gate.Effect{Tool: gate.Tool{MaxTime: time.Second}}}}
	if want := now.Add(time.Minute + time.Second); !s.mustWait(d, effects, gate.ClaimStranger) ||
		d.notBefore.Before(want) {
		t.Errorf("it waits until %v, want %v", d.notBefore, want)
	}
}

// short is a lease of which nothing is known yet.
type short struct{ Lease }

func (short) Longest() time.Duration { return 0 }

// Calls that are lost are waited for as long as a lease allows, also when that has to be asked for first.
func TestLostCallsUnderUnknownRules(t *testing.T) {
	s := alone(t)
	lease := s.lease
	s.lease = short{}
	d := &unsettled{tx: api.TxName("a", 5, 1)}
	if !s.mustWaitUnknown(d, gate.ClaimStranger) || d.waited {
		t.Error("while the rules are unknown it does not wait for more")
	}
	s.lease = lease
	if !s.mustWaitUnknown(d, gate.ClaimStranger) || !d.waited || d.notBefore.Before(s.clock.Steady().Add(time.Minute)) {
		t.Errorf("it waits until %v, of a lease of an hour", d.notBefore)
	}
}

// What was adopted and turns out to be settled is nothing that is owed, and the journal has it.
func TestAdoptedIsFinal(t *testing.T) {
	s := alone(t)
	d := s.owe(api.TxName("b", 5, 1), 12, false, false)
	call := gate.Progress{Effect: gate.Effect{Tx: d.tx, Incarnation: 5, Tool: gate.Tool{Name: "t"}, Args: []byte("{}")}}
	if err := s.keep([]gate.Progress{call}); err != nil {
		t.Fatal(err)
	}
	s.Events = owing{s.Events.(*memlog.Door), nil, 12}
	gone, err := s.learn(t.Context(), d)
	if kept, is := s.delivery.Call(d.tx, 0); !gone || err != nil || !s.Idle() || is && kept.Args != nil {
		t.Errorf("gone %v, %v; owed: %d, kept: %+v", gone, err, len(s.unsettled), kept)
	}
}
