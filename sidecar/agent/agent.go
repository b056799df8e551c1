package agent

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/coverage"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
)

// Agent is what the agent does through this sidecar: it joins the log, knows the agent's open transactions and
// loose reads, and keeps its promise to the log (the watermark). It begins again, with another incarnation, when the
// lease of the one before has ended.
//
// One loop owns it: what is not made once in New is read and changed by flows of the loop alone, and a flow gives way
// at Await and Do alone (until, untilTx, reach, do, retry and sleep are these). Of what other goroutines need, lease
// and delivery have a mutex of their own, taken for a few instructions inside of the loop too; view has another.
type Agent struct {
	agent     string
	workspace string
	view      *view.View
	events    Log
	limits    Limits
	clock     Clock
	log       *slog.Logger
	metrics   *metrics.Agent
	tracing   tracing
	defaults  // of transactions
	journals  // what outlives the process
	running   // what runs it
	calling   // what makes tool calls
	presence
	past
	ownTxs
	looseReads
	settle    *settle.Settler
	formers   *settle.Formers
	marks     settle.Marks
	lease     lease
	registry  *registry
	questions questions
}

// defaults are those of transactions.
type defaults struct {
	observes bool           // every transaction only observes
	mode     sequencer.Mode // of transactions that name none
}

// journals are what outlives the process.
type journals struct {
	delivery *journal.Journal
	keys     *once.Keys
	openFile journal.Opener
	dataDir  string
	opened   func() // called once the journal is open
	patient  bool   // the journal is opened again when it cannot be
	unopened error  // why the journal could not be opened the last time; nil: nothing was wrong
	origin   string // what keys of calls name, known before the first session
}

// running is what runs an agent.
type running struct {
	loop      loop.Timed
	work      context.Context // of what outlives requests
	stopWork  context.CancelCauseFunc
	joinedNow func()          // called after each join
	cut       context.Context // its end ends what a stop waits for
	unwatch   func()          // nil: decisions do not come yet
	soon      chan struct{}   // there is something to maintain before the next beat
	told      sequencer.Seq   // of the last decision that observe was told of; Invariant: the view is not behind it
	seen      loop.Watched    // told
}

// calling is what makes tool calls.
type calling struct {
	tools  gate.Tools // nil: no policy
	engine engine     // nil: no policy
	hook   Hook
}

// presence is the session of this agent in the log: the one that is live, or the join that asks for one.
type presence struct {
	incarnation sequencer.Seq // of the current or the last session
	live        bool          // Invariant: then incarnation is that of a lease whose end the view has not shown
	superseded  bool          // another sidecar of this agent has joined; the agent's next request takes it back
	joinID      string
	joinSent    time.Time          // when it was sent first, by the steady clock
	joined      sequencer.Seq      // the seq of joinID's decision
	joinRefused *sequencer.Outcome // why the log does not take joinID; nil: it does, or has not said
	joinAfter   time.Time          // after a refusal: it is not asked again before
	joinPause   time.Duration      // how long it is left alone after the next refusal
	pings       uint32             // questions that only confirm the lease
	words       uint32             // approvals and denials that were sent
	formatAfter time.Time          // the processors are not asked before which format of events they read
	watermark   sequencer.Seq      // Invariant: no open transaction of this session and no loose read is older
	marked      time.Time
}

// past is what is known of the sessions before, and of what may be left of them.
type past struct {
	unentered  sequencer.Seq       // of a join before; when no session came of it, its end costs nothing
	ended      sequencer.Seq       // the newest incarnation of ours whose lease has ended
	notice     journal.Notice      // what the agent read before is lost: each conversation's next request is told
	unnoted    bool                // that it is owed is not in the journal yet
	unresolved []*journal.TxRecord // sealed by the process before this one; how they ended is not known yet
	resolves   int
}

// ownTxs are the transactions of this agent.
type ownTxs struct {
	txs     map[sequencer.TxID]*tx
	active  map[sequencer.TxID]*tx      // Invariant: each is in txs, and the watermark may not pass it
	order   []sequencer.TxID            // of those that are over, oldest first
	open    int                         // Invariant: those of txs that are open or sealed
	sending map[sequencer.TxID]*sending // seals whose outcome is not known
	ahead   map[sequencer.TxID]*ahead   // seals of this process that some of this agent wait for
	count   uint64
}

// looseReads are those outside of transactions, by conversation, until a seal carries them.
type looseReads struct {
	loose journal.Talks
	moved map[string]overtakes // by conversation: what was written over of its loose reads

	giving  map[giving]*given // to readers, until they have their answers
	givings uint64            // counts their beginnings and ends

	asked    map[string]mentioned // requests to models that are under way
	mentions uint64               // counts them
	covered  *coverage.Log

	resets uint64 // counts the decisions that took all shards away, as the view has shown them
}

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
			s.oweAll()
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

// lose ends the session: every open transaction of it is lost.
func (s *Agent) lose(why string) {
	if s.live {
		s.log.Warn("the session is over", "incarnation", uint64(s.incarnation), "cause", why, "superseded", s.superseded)
	}
	s.live = false
	s.lease.end()
	s.settle.Lost()
	for _, t := range s.active {
		s.close(t, phaseLost)
	}
	s.hurry()
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
	s.charge(t.begin.Session, o.Kind == sequencer.OutcomeCommitted)
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

func decisionRecord(id sequencer.TxID, o *sequencer.Outcome) *journal.DecidedRecord {
	return &journal.DecidedRecord{Tx: id, State: view.StateOf(o), Code: o.Code, Seq: o.Seq, Scope: o.Scope,
		Moved:  o.Moved,
		Detail: o.Detail, Final: o.Final, By: o.By, Tool: o.Tool, MovedAgent: o.MovedAgent, Floor: o.Floor}
}

// close takes a transaction out of the open ones. It stays known until Limits.Decided newer ones are over.
func (s *Agent) close(t *tx, to phase) {
	s.loop.Moved(&t.changed)
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
	s.view.Leave(t.id)
}

// trim forgets transactions that are over, oldest first, beyond the limit.
func (s *Agent) trim() {
	for len(s.order) > s.limits.Decided {
		id := s.order[0]
		s.order = s.order[1:]
		if t := s.txs[id]; t != nil && !s.settle.Owes(id) {
			delete(s.txs, id)
		}
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

// oldest is what the watermark may promise: nothing open is older.
func (s *Agent) oldest(at sequencer.Seq) sequencer.Seq {
	for _, t := range s.active {
		at = min(at, t.base)
		for _, r := range t.loose {
			at = min(at, r.View)
		}
	}
	for _, m := range s.asked { // an answer may make a read of that view
		at = min(at, m.view)
	}
	return s.loose.Oldest(at)
}

// current is the live session's incarnation, or a problem that says why there is none; then one is asked for at once.
func (s *Agent) current() (sequencer.Seq, error) {
	inc, err := s.session()
	if err != nil {
		s.hurry()
	}
	return inc, err
}

// session is current, and changes nothing.
func (s *Agent) session() (sequencer.Seq, error) {
	if err := s.view.Ready(); err != nil {
		return 0, view.NotReady(err)
	}
	if !s.live {
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
	_, err := s.session()
	if err == nil {
		return nil
	}
	if !s.live {
		s.superseded = false
		s.hurry()
	}
	ctx, cancel := s.clock.Within(ctx, s.limits.SessionWait)
	defer cancel()
	wait := s.loop.Until(ctx, func() bool {
		_, err := s.session()
		return err == nil || s.joinRefused != nil || s.view.BrokenBy() != nil
	})
	if _, err := s.session(); err != nil {
		return err
	}
	return wait
}

// now is the incarnation of the live session; zero: there is none.
func (s *Agent) now() sequencer.Seq {
	if !s.live {
		return 0
	}
	return s.incarnation
}

// health says why there is no session.
func (s *Agent) health() error {
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
func (s *Agent) Health() (out api.Standing) {
	s.loop.Run(func() {
		parts := map[string]error{"session": s.health(), "journal": s.delivery.Health()}
		if s.unopened != nil { // it says more than that the journal is not open
			parts["journal"] = s.unopened
		}
		out = api.Standing{Agent: s.agent, Parts: parts, Record: s.delivery.Refused(), Refused: s.notLetIn(),
			Displaced: uint64(s.formers.Displaced()), Owed: s.owing(), Incarnation: uint64(s.now())}
	})
	return out
}
