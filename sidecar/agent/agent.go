package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
)

// Agent is what the agent does through this sidecar: it joins the log, knows the agent's open transactions and
// loose reads, and keeps its promise to the log (the watermark). It begins anew, with another incarnation, when the
// lease of the one before has ended.
type Agent struct {
	agent     string
	workspace string
	view      *view.View
	delivery  *journal.Journal
	events    Log
	limits    Limits
	clock     Clock
	log       *slog.Logger
	metrics   *metrics.Agent
	tracing   tracing
	observes  bool           // every transaction only observes
	mode      sequencer.Mode // of transactions that name none
	keys      *once.Keys
	openFile  journal.Opener
	dataDir   string
	opened    func() // called once the journal is open
	joinedNow func() // called after each join
	patient   bool   // the journal is opened again when it cannot be
	cut       context.Context
	unwatch   func()
	untold    untold
	dealing   dealing
	soon      chan struct{} // there is something to maintain before the next beat
	tasks     tasks
	stopWork  context.CancelCauseFunc
	tools     gate.Tools // nil: no policy
	engine    engine     // nil: no policy
	bare      engine     // without a policy: settles what others have left
	lease     lease
	registry  *registry
	hook      Hook
	questions questions

	mu             sync.Mutex
	unopened       error         // why the journal could not be opened the last time; nil: nothing was wrong
	origin         string        // what keys of calls name, known before the first session
	incarnation    sequencer.Seq // of the current or the last session
	live           bool
	superseded     bool // another sidecar of this agent has joined; the agent's next request takes it back
	joinID         string
	joinSent       time.Time          // when it was sent first, by the steady clock
	joined         sequencer.Seq      // the seq of joinID's decision
	joinRefused    *sequencer.Outcome // why the log does not take joinID; nil: it does, or has not said
	joinAfter      time.Time          // after a refusal: it is not asked again before
	joinPause      time.Duration      // how long it is left alone after the next refusal
	unentered      sequencer.Seq      // a join of ours before that one: when no session came of it, its end costs nothing
	ended          sequencer.Seq      // the newest incarnation of ours whose lease has ended
	notice         journal.Notice     // what the agent read before is lost: each conversation's next request is told
	unnoted        bool               // that it is owed is not in the journal yet
	former         sequencer.Seq      // the incarnation that the journal was left by
	joins          []string           // intents of the journal's joins after that, up to the first here
	others         *bool              // whether another process had a session in between; nil: not looked for
	txs            map[sequencer.TxID]*tx
	active         map[sequencer.TxID]*tx // those that are not decided and may still be
	order          []sequencer.TxID       // of those that are over, oldest first
	open           int
	sending        map[sequencer.TxID]*sending // seals whose outcome is not known
	loose          journal.Talks
	moved          map[string]overtakes // by conversation: what was written over of its loose reads
	count          uint64
	debts          map[sequencer.TxID]*debt // decided transactions that this sidecar has to settle
	settles        uint32                   // settle intents of this process
	settling       int                      // of them are being settled
	orphans        orphans
	displaced      sequencer.Seq       // an incarnation that was live elsewhere until this process joined; zero: none
	pings          uint32              // questions that only confirm the lease
	first          sequencer.Seq       // the first incarnation of this process
	strangersSince time.Time           // a former process, not known to be dead, had a lease then; by the steady clock
	strangersLease time.Duration       // how long that lasts at most; zero: not known
	unresolved     []*journal.TxRecord // sealed by the process before this one; how they ended is not known yet
	resolves       int
	watermark      sequencer.Seq
	marked         time.Time
}

// observe is told of every decision after the view has it. It returns the waits to wake.
func (s *Agent) observe(o *sequencer.Outcome) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Code != sequencer.CodeLeaseExpired || o.Incarnation == s.incarnation { // else of another who asks the same
		s.questions.observe(o)
	}
	keys := []string{view.WaitSeq, view.WaitIntent(o.Intent)}
	switch o.Kind {
	case sequencer.OutcomeJoined:
		s.observeJoin(o)
	case sequencer.OutcomeLeaseEnded:
		keys = s.observeEnd(o, keys)
	case sequencer.OutcomeRefused:
		keys = s.observeJoinRefused(o, keys)
	}
	s.observeRules(o)
	if s.live {
		s.lease.confirm(o.Offset, s.sure())
	}
	if o.Tx != "" {
		keys = append(keys, view.WaitTx(o.Tx))
		if t := s.txs[o.Tx]; t != nil {
			s.observeTx(t, o)
		}
		s.observeDebt(o)
	}
	s.observeOrphans(o)
	s.observeTurn(o)
	if len(o.Writes)+len(o.Shards) > 0 {
		keys = s.observeWrites(o, keys)
	}
	return keys
}

func (s *Agent) observeJoin(o *sequencer.Outcome) {
	if o.Agent != s.agent {
		return
	}
	if o.Intent == joinIntent(s.joinID) {
		s.joined = o.Seq
		return
	}
	if s.incarnation != 0 && o.Seq > s.incarnation {
		s.superseded = true
	}
}

// observeEnd: an incarnation is over. What it had open is lost.
func (s *Agent) observeEnd(o *sequencer.Outcome, keys []string) []string {
	if o.Agent != s.agent {
		return keys
	}
	s.ended = max(s.ended, o.Incarnation)
	ours := o.Incarnation == s.incarnation || o.Incarnation == s.unentered || o.Incarnation == s.former
	if o.Intent == joinIntent(s.joinID) && !ours {
		s.oweAll() // it was alive until now, and its journal is not here
		s.displaced = cmp.Or(s.displaced, o.Incarnation)
		s.log.Warn("the journal of this agent's former session is not here: a new folder, or an emptied volume. "+
			""+journal.WithIt,
			"former", uint64(o.Incarnation), "journal", s.delivery.Place())
		s.strangersSince = s.clock.Steady()
		s.strangersLease = max(s.strangersLease, time.Duration(s.view.LeaseOf(o.Incarnation))*tickLength)
	}
	if o.Incarnation != s.incarnation {
		return keys
	}
	if strings.HasPrefix(o.Intent, "join:") && o.Intent != joinIntent(s.joinID) {
		s.superseded = true
	}
	return append(keys, s.lose("its lease ended")...)
}

// lose ends the session: every open transaction of it is lost.
func (s *Agent) lose(why string) (keys []string) {
	if s.live {
		s.log.Warn("the session is over", "incarnation", uint64(s.incarnation), "cause", why, "superseded", s.superseded)
	}
	s.live = false
	s.lease.end()
	for _, d := range s.debts { // the next session owns what its agent left, and nothing that this one had adopted
		if agent, _, _, _ := api.OwnerOf(d.tx); agent != s.agent {
			d.theirs, d.heard, d.waited, d.tries = true, false, false, 0
		}
	}
	for id, t := range s.active {
		s.close(t, phaseLost)
		keys = append(keys, view.WaitTx(id))
	}
	s.hurry()
	return keys
}

func (s *Agent) observeTx(t *tx, o *sequencer.Outcome) {
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

// tooOld ends a transaction that the log will not record any more: its base is below the floor.
func (s *Agent) tooOld(t *tx) {
	if t.decided() || t.phase == phaseLost {
		return
	}
	t.begun = false
	s.giveUp(t, &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: t.id, Code: sequencer.CodeTooOld, Retryable: true,
		Floor:  s.view.Settings().Floor,
		Detail: "it was open for so long that the workspace has forgotten where it began", Mode: t.begin.Mode})
}

func (s *Agent) observeDecision(t *tx, o *sequencer.Outcome) {
	if t.early != nil && o.Kind == sequencer.OutcomeCommitted {
		panic(fmt.Sprintf("sidecar: %s was answered %s from the view and committed at %d", t.id, t.early.Code, o.Seq))
	}
	t.outcome, t.waiting = view.Brief(o), nil
	s.metrics.Decided(view.StateOf(o), o.Code, t.sentAt, t.ackedAt, s.clock.Now())
	s.tracing.decided(t, o, s.clock.Now())
	s.close(t, phaseOver)
	if !o.Final {
		s.owe(t.id, o.Seq, o.Kind == sequencer.OutcomeCommitted, true)
	}
	err := s.delivery.Record(journal.RecordDecided, decisionRecord(t.id, o))
	if err != nil {
		s.log.Error("a decision is not in the journal: after a restart the log is asked", "tx", string(t.id), "cause", err)
	}
}

func decisionRecord(id sequencer.TxID, o *sequencer.Outcome) *journal.DecidedRecord {
	return &journal.DecidedRecord{Tx: id, State: view.StateOf(o), Code: o.Code, Seq: o.Seq, Scope: o.Scope,
		Moved:  o.Moved,
		Detail: o.Detail, Final: o.Final, By: o.By, Tool: o.Tool, MovedAgent: o.MovedAgent, Floor: o.Floor}
}

// close takes a transaction out of the open ones. It stays known until keptOver newer ones are over.
func (s *Agent) close(t *tx, to phase) {
	if t.phase == phaseOpen || t.phase == phaseSealed {
		t.slim()
		s.open--
		s.order = append(s.order, t.id)
		s.trim()
	}
	if t.phase != phaseLost {
		t.phase = to
	}
	if !t.pins() {
		delete(s.active, t.id)
	}
	delete(s.sending, t.id)
}

// trim forgets transactions that are over, oldest first, beyond the limit.
func (s *Agent) trim() {
	for len(s.order) > s.limits.Decided {
		id := s.order[0]
		s.order = s.order[1:]
		if t := s.txs[id]; t != nil && s.debts[id] == nil {
			delete(s.txs, id)
		}
	}
}

// observeWrites tells open transactions that a decision has written over what they read.
func (s *Agent) observeWrites(o *sequencer.Outcome, keys []string) []string {
	s.observeLoose(o)
	if s.open == 0 {
		return keys
	}
	for id, t := range s.active {
		if t.phase == phaseOpen && t.id != o.Tx && t.overtake(o) {
			keys = append(keys, view.WaitTx(id))
		}
	}
	return keys
}

// oldest is what the watermark may promise: nothing open is older.
func (s *Agent) oldest(at sequencer.Seq) sequencer.Seq {
	for _, t := range s.active {
		at = min(at, t.base)
		for _, r := range t.loose {
			at = min(at, r.View)
		}
	}
	return s.loose.Oldest(at)
}

// current is the live session's incarnation, or a problem that says why there is none.
func (s *Agent) current() (sequencer.Seq, error) {
	if err := s.view.Ready(); err != nil {
		return 0, view.NotReady(err)
	}
	if !s.live {
		s.hurry()
		if err := s.notLetIn(); err != nil { // waiting a moment longer does not help
			return 0, err
		}
		return 0, api.Problemf(api.CodeNotReady, "the sidecar has no live session: it is joining the log")
	}
	return s.incarnation, nil
}

func (s *Agent) hurry() {
	select {
	case s.soon <- struct{}{}:
	default:
	}
}

// await waits until there is a live session. A request of the agent brings back one that another sidecar took over.
func (s *Agent) await(ctx context.Context) error {
	s.mu.Lock()
	if !s.live {
		s.superseded = false
		s.hurry()
	}
	s.mu.Unlock()
	var err error
	ctx, cancel := context.WithTimeout(ctx, s.limits.SessionWait)
	defer cancel()
	wait := s.view.Waits.Until(ctx, waitSession, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, err = s.current()
		return err == nil || s.joinRefused != nil || s.view.BrokenBy() != nil
	})
	if err != nil {
		return err
	}
	return wait
}

// waitSession is the key of waits for a live session.
const waitSession = "session"

func joinIntent(id string) string {
	in := sequencer.Intent{Kind: sequencer.IntentJoin, Join: &sequencer.Join{ID: id}}
	return in.ID()
}

// now is the incarnation of the live session; zero: there is none.
func (s *Agent) now() sequencer.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		return 0
	}
	return s.incarnation
}

// health says why there is no session.
func (s *Agent) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.live:
		return nil
	case s.superseded:
		return api.Problemf(api.CodeNotReady, "another sidecar of this agent has joined")
	case s.joinRefused != nil:
		return s.notLetIn()
	}
	return api.Problemf(api.CodeNotReady, "the sidecar is joining the log")
}

// Health says how the agent stands.
func (s *Agent) Health() api.Standing {
	parts := map[string]error{"session": s.health(), "journal": s.delivery.Health()}
	owed := s.owing()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unopened != nil { // it says more than that the journal is not open
		parts["journal"] = s.unopened
	}
	out := api.Standing{Agent: s.agent, Parts: parts, Record: s.delivery.Refused(), Refused: s.notLetIn(),
		Displaced: uint64(s.displaced), Owed: owed}
	if s.live {
		out.Incarnation = uint64(s.incarnation)
	}
	return out
}
