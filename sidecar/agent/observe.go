package agent

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
)

// observed is told of every decision after the view has it, by the goroutine that applies them: a flow of its own.
func (s *Agent) observed(o *sequencer.Outcome) { s.loop.Run(func() { s.observe(o) }) }

// begun is told that the view has its snapshot, also outside of the loop.
func (s *Agent) begun() {
	s.loop.Run(func() {
		s.told = s.view.At()
		s.loop.Moved(&s.seen)
	})
	s.hurry()
}

// observe draws what follows from a decision.
func (s *Agent) observe(o *sequencer.Outcome) {
	s.told = o.Seq
	s.loop.Moved(&s.seen)
	s.passed(o.Tx)
	if o.Code != sequencer.CodeLeaseExpired || o.Incarnation == s.incarnation { // else of another who asks the same
		s.questions.observe(o)
	}
	switch o.Kind {
	case sequencer.OutcomeJoined:
		s.observeJoin(o)
	case sequencer.OutcomeLeaseEnded:
		s.observeEnd(o)
	case sequencer.OutcomeRefused:
		s.observeJoinRefused(o)
	}
	s.formers.ObserveRules(o, s.incarnation != 0)
	if s.live {
		s.lease.confirm(o.Offset, s.sure())
	}
	if o.Tx != "" {
		if t := s.txs[o.Tx]; t != nil {
			s.observeTx(t, o)
		}
	}
	s.settle.Observe(o)
	if len(o.Writes)+len(o.Shards) > 0 {
		s.observeWrites(o)
	}
}

func (s *Agent) observeJoin(o *sequencer.Outcome) {
	if o.Agent != s.agent {
		return
	}
	if o.Intent == api.JoinIntent(s.joinID) {
		s.joined = o.Seq
		return
	}
	if s.incarnation != 0 && o.Seq > s.incarnation {
		s.superseded = true
		s.formers.Another(s.incarnation) // it may make calls that this journal does not know
	}
}

// observeEnd: an incarnation is over. What it had open is lost.
func (s *Agent) observeEnd(o *sequencer.Outcome) {
	if o.Agent != s.agent {
		return
	}
	s.ended = max(s.ended, o.Incarnation)
	if o.Intent == api.JoinIntent(s.joinID) {
		known := o.Incarnation == s.incarnation || o.Incarnation == s.unentered || o.Incarnation == s.formers.Last()
		if !known {
			s.oweNotices()
		}
		s.formers.EndedByJoin(o.Incarnation, known)
	}
	if o.Incarnation != s.incarnation {
		return
	}
	if strings.HasPrefix(o.Intent, "join:") && o.Intent != api.JoinIntent(s.joinID) {
		s.superseded = true
	}
	s.lose("its lease ended")
}

func (s *Agent) observeTx(t *tx, o *sequencer.Outcome) {
	s.loop.Moved(&t.changed)
	t.residue = t.residue || o.Kind == sequencer.OutcomeSettled && len(o.Residue) > 0
	t.clean = t.clean || view.ReleasedAll(o)
	t.noteWait(o, s.clock.Now())
	t.retraction.Observe(o, &t.final)
	t.shown = t.shown || o.Kind != sequencer.OutcomeRefused // a refusal may be of one that the log does not know
	switch o.Kind {
	case sequencer.OutcomeGranted:
		t.take(o)
	case sequencer.OutcomeWaiting:
		t.waiting = o
	case sequencer.OutcomeRefused:
		s.observeRefusal(t, o)
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		s.observeDecision(t, o)
	}
}

// observeRefusal: an intent was refused and its transaction lives on; a refused seal leaves it open. What others ask
// of a transaction, to settle or to retract it, does not concern it.
func (s *Agent) observeRefusal(t *tx, o *sequencer.Outcome) {
	if o.Incarnation != t.incarnation {
		return
	}
	t.refused = o
	if t.asking != nil && o.Intent == t.asking.ID() {
		t.asking = nil
	}
	if _, known := s.view.Transaction(t.id); !known && o.Code == sequencer.CodeTooOld {
		s.tooOld(t)
		return
	}
	if t.phase == phaseSealed && o.Intent == t.seal.ID() {
		s.sealRefused(t, o)
	}
}

func (s *Agent) observeDecision(t *tx, o *sequencer.Outcome) {
	if t.early != nil && o.Kind == sequencer.OutcomeCommitted {
		panic(fmt.Sprintf("sidecar: %s was answered %s from the view and committed at %d", t.id, t.early.Code, o.Seq))
	}
	t.outcome, t.waiting = view.Brief(o), nil
	s.metrics.Decided(view.StateOf(o), o.Code, t.sentAt, t.ackedAt, s.clock.Now())
	if t.early == nil { // else it was charged with that answer: what was spent since is the next attempt's
		s.charge(t.begin.Session, o.Kind == sequencer.OutcomeCommitted)
	}
	s.tracing.decided(t, o, s.clock.Now())
	s.close(t, phaseOver)
	if !o.Final {
		s.settle.Owe(t.id, o.Seq, o.Kind == sequencer.OutcomeCommitted)
	}
	// It rests: after a crash the log is asked, as after one before the decision came.
	err := s.delivery.Rest(journal.RecordDecided, decisionRecord(t.id, o))
	if err != nil {
		s.log.Error("a decision is not in the journal: after a restart the log is asked", "tx", string(t.id), "cause", err)
	}
}

// observeWrites tells open transactions that a decision has written over what they read.
func (s *Agent) observeWrites(o *sequencer.Outcome) {
	s.observeLoose(o)
	s.observeReset(o)
	if s.open == 0 {
		return
	}
	for _, t := range s.active {
		if t.phase == phaseOpen && t.id != o.Tx && t.overtake(o) {
			s.loop.Moved(&t.changed)
		}
	}
}

// observeJoinRefused: the log does not let this agent in, for now. It is asked again after a pause that doubles from
// one refusal to the next: what has to end first, the session of another agent, lasts for seconds at least.
func (s *Agent) observeJoinRefused(o *sequencer.Outcome) {
	if s.joinID == "" || o.Intent != api.JoinIntent(s.joinID) || s.joined != 0 {
		return
	}
	s.joinPause = min(max(2*s.joinPause, view.PauseMost), view.PauseAsking)
	s.joinRefused, s.joinAfter = o, s.clock.Now().Add(s.joinPause)
}
