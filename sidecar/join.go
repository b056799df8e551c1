package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

// How long one try of something may take before it is tried again.
const (
	appendTry  = 5 * time.Second
	joinTry    = 10 * time.Second
	resolveTry = 30 * time.Second
	pauseLeast = 20 * time.Millisecond
	pauseMost  = 500 * time.Millisecond
)

// join begins a session: it asks the log for an incarnation and returns once the view shows it. The same join is asked
// for until it is answered, so one that timed out does not make two.
func (s *session) join(ctx context.Context) error {
	if err := s.awaitView(ctx); err != nil {
		return err
	}
	if err := s.nameJoin(); err != nil {
		return err
	}
	s.mu.Lock()
	before := s.joinRefused // told to requests until the log has answered again
	id, sent := s.joinID, s.joinSent
	s.mu.Unlock()
	failpoint.Hit(failpoint.JoinBefore)
	seq, err := s.askToJoin(ctx, id, before)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.JoinAfter)
	return s.enter(ctx, seq, sent)
}

// nameJoin gives the next join an id of its own unless the one before it has no answer. The journal has it before the
// log: a later start must know that what came of it was no other process.
func (s *session) nameJoin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entered := s.joinID == "" || s.joined != 0
	if !entered && (s.joinRefused == nil || s.joinRefused.Intent != joinIntent(s.joinID)) {
		return nil
	}
	id := randomID()
	if err := s.delivery.record(recordJoining, joiningRecord{id}); err != nil {
		return fmt.Errorf("name the join in the journal: %w", err)
	}
	if s.joinID, s.joinSent = id, s.clock.Steady(); entered {
		s.unentered, s.joined = s.joined, 0
	}
	if s.first == 0 {
		s.joins = append(s.joins, joinIntent(id))
	}
	return nil
}

// awaitView waits a while for the view to be ready.
func (s *session) awaitView(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pauseMost)
	defer cancel()
	_ = s.view.waits.until(ctx, waitSeq, func() bool { return s.view.ready() == nil })
	return s.view.ready()
}

// askToJoin returns the incarnation that the log gives to a join. before is the refusal of the join before this one.
func (s *session) askToJoin(ctx context.Context, id string, before *sequencer.Outcome) (seq sequencer.Seq, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinTry)
	defer cancel()
	logic, err := s.firstLogic(ctx)
	if err != nil {
		return 0, err
	}
	in := &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: s.agent, Join: &sequencer.Join{ID: id, Logic: logic}}
	if _, err := s.append(ctx, in); err != nil {
		return 0, fmt.Errorf("append the join: %w", err)
	}
	err = s.view.waits.until(ctx, waitIntent(joinIntent(id)), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		seq = s.joined
		return seq != 0 || s.joinRefused != before
	})
	if err != nil {
		return 0, fmt.Errorf("wait for the join's decision: %w", err)
	}
	if seq == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return 0, s.notLetIn()
	}
	return seq, nil
}

// observeJoinRefused: the log does not let this agent in, for now. It is asked again after a pause that doubles from
// one refusal to the next: what has to end first, the session of another agent, lasts for seconds at least. s.mu is
// held.
func (s *session) observeJoinRefused(o *sequencer.Outcome, keys []string) []string {
	if s.joinID == "" || o.Intent != joinIntent(s.joinID) || s.joined != 0 {
		return keys
	}
	s.joinRefused, s.joinAfter = o, s.clock.Now().Add(s.joinPause.Next())
	return append(keys, waitSession)
}

// notLetIn is why the log does not take this agent's join; nil: it has not refused it. s.mu is held.
func (s *session) notLetIn() error {
	o := s.joinRefused
	if o == nil {
		return nil
	}
	code := string(o.Code)
	if code == "" {
		code = codeNotReady
	}
	return problem(code, "the log does not let agent %s join: %s; it is asked again by itself", s.agent, o.Detail)
}

// firstLogic is the logic that a join asks for. It counts in a new workspace only, so only there the processors are
// asked what they know: one that does not know it would stop at the join.
func (s *session) firstLogic(ctx context.Context) (uint32, error) {
	if s.view.at() > 0 {
		return sequencer.Logic, nil
	}
	logic, err := s.events.KnownLogic(ctx, s.workspace)
	if err != nil {
		return 0, fmt.Errorf("ask which logic the processors know: %w", err)
	}
	return min(logic, sequencer.Logic), nil
}

// enter makes a decided join the current session.
func (s *session) enter(ctx context.Context, seq sequencer.Seq, sent time.Time) error {
	if err := s.resolve(ctx, seq); err != nil {
		return err
	}
	failpoint.Hit(failpoint.StartResolved)
	if err := s.sameLog(ctx); err != nil {
		return err
	}
	s.learnRules(ctx)
	if err := s.keepLearned(); err != nil {
		return fmt.Errorf("put what has to pass first into the journal: %w", err)
	}
	failpoint.Hit(failpoint.SessionBefore)
	err := s.delivery.session(joinedRecord{Agent: s.agent, Workspace: s.workspace, Incarnation: seq,
		Boot: s.delivery.boot})
	if err != nil {
		return fmt.Errorf("begin the session in the journal: %w", err)
	}
	failpoint.Hit(failpoint.SessionAfter)
	if err := s.announceTools(ctx, seq); err != nil {
		return err
	}
	if err := s.registerAll(ctx, seq); err != nil {
		return fmt.Errorf("register the agent's tools: %w", err)
	}
	s.mu.Lock()
	keys := []string{waitSession}
	if s.incarnation != 0 && s.incarnation != seq {
		keys = append(keys, s.lose("the sidecar joined again")...)
	}
	s.joinRefused, s.joinAfter = nil, time.Time{}
	s.joinPause.Reset()
	s.incarnation, s.count, s.watermark, s.marked = seq, 0, seq, s.clock.Now()
	if s.first == 0 {
		s.first = seq
	}
	s.lease.begin(sent, s.sure())
	if s.live = s.ended < seq; !s.live {
		s.lease.end()
	}
	live := s.live
	s.mu.Unlock()
	s.view.waits.wake(keys...)
	if !live {
		return errors.New("the lease ended before the session began")
	}
	s.log.Info("the session is live", "incarnation", uint64(seq), "workspace", s.workspace, "agent", s.agent)
	s.tasks.start(func(ctx context.Context) { s.findOwed(ctx, seq) })
	s.settleAll(ctx)
	return nil
}

// sameLog reports an error unless the log is the one whose journal is open.
func (s *session) sameLog(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, idTry)
	defer cancel()
	id, err := s.events.ID(ctx)
	if err == nil && gate.Origin(id, s.workspace) != s.where() {
		err = streams.ErrOtherLog
	}
	if err != nil {
		return fmt.Errorf("make sure that the log is the one whose journal is open: %w", err)
	}
	return nil
}

// where is what the keys of this session's calls name.
func (s *session) where() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.origin
}

// adopt takes over what the journal knows of the process before this one: its transactions are lost unless they were
// decided; its loose reads go to the next seal.
func (s *session) adopt(l *ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	other := l.joined.Boot != "" && l.joined.Boot != s.delivery.boot
	if other {
		s.log.Warn("the machine was started again, or is another one: what the agent read last may not be in the journal, " +
			"so each of its conversations is told once to read again")
	}
	s.former = l.joined.Incarnation
	s.notice.apply(l.notice.record())
	if other {
		s.oweAll()
	}
	s.waitsOf(l.waits)
	for _, id := range l.joining {
		s.joins = append(s.joins, joinIntent(id))
	}
	if l.joined.Incarnation != 0 {
		s.log.Info("going on with the journal of the former session", "former", uint64(l.joined.Incarnation),
			"transactions", len(l.txs), "loose_reads", l.loose.reads(), "events", len(l.pending))
	}
	for talk, reads := range l.loose {
		s.loose.give(talk, reads)
	}
	for _, id := range l.order() {
		r := l.txs[id]
		if r.Foreign {
			continue
		}
		t := newTx(id, r.Incarnation, r.Base, r.Begin, s.clock.Now())
		t.attempt, t.refusals, t.reads, t.loose, t.own = r.Attempt, r.Refusals, r.Reads, r.Loose, r.Own
		t.begun, t.phase, t.sealedBefore = true, phaseLost, r.Sealed
		s.txs[id] = t
		s.order = append(s.order, id)
		switch {
		case r.Decided != nil && r.Decided.Final:
			t.outcome, t.phase, t.final = r.Decided.outcome(id), phaseOver, true
			t.clean = r.Decided.Clean
		case r.vain(s.former): // an earlier start has asked the log, which may have forgotten it since
		default:
			t.fate = fateUnread
			s.unresolved = append(s.unresolved, r)
		}
	}
	s.trim()
}

func (d *decidedRecord) outcome(id sequencer.TxID) *sequencer.Outcome {
	o := &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: id, Seq: d.Seq, Code: d.Code, Scope: d.Scope,
		Moved: d.Moved, Detail: d.Detail, Final: d.Final, Retryable: d.Code.Retryable(),
		By: d.By, Tool: d.Tool, MovedAgent: d.MovedAgent, Floor: d.Floor}
	if d.State == "committed" {
		o.Kind = sequencer.OutcomeCommitted
	}
	return o
}

var errResolved = errors.New("every decision up to the join was seen")

// resolve reads how the former process's transactions ended. The join has ended its lease, so each of them is decided
// before it, or never reached the log.
func (s *session) resolve(ctx context.Context, join sequencer.Seq) error {
	s.mu.Lock()
	records := s.unresolved
	s.mu.Unlock()
	if len(records) == 0 {
		return nil
	}
	from := join
	for _, r := range records {
		from = min(from, r.Base)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTry)
	defer cancel()
	others := false
	err := s.events.Follow(ctx, s.workspace, from, func(o *sequencer.Outcome, _ streams.Way) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		others = others || s.isOthers(o)
		if t := s.txs[o.Tx]; t != nil && t.outcome == nil {
			s.observeTx(t, o)
		} else if t != nil {
			t.final, t.clean = t.final || o.Final, t.clean || releasedAll(o)
		}
		s.observeDebt(o)
		if o.Seq >= s.view.at() {
			return errResolved
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resolves++; !errors.Is(err, errResolved) && !errors.Is(err, streams.ErrGone) && s.resolves < maxResolves {
		return fmt.Errorf("read how the former session's transactions ended: %w", err)
	}
	if !errors.Is(err, errResolved) {
		s.log.Error("how the former session's sealed transactions ended is not known", "count", len(records), "cause", err)
	}
	read := errors.Is(err, errResolved)
	for _, r := range records {
		s.resolved(r, read)
		if others || !read { // others may have worked on it
			s.share(r.Tx, s.debts[r.Tx])
		}
	}
	s.unresolved = nil
	return nil
}

// resolved: the log was read for a transaction of the former process, or cannot be; s.mu is held.
func (s *session) resolved(r *txRecord, read bool) {
	t := s.txs[r.Tx]
	if t == nil {
		return
	}
	t.fate = fateKnown
	switch {
	case read || t.outcome != nil:
	case r.Decided != nil && r.Decided.Seq > 0:
		t.outcome, t.phase = r.Decided.outcome(r.Tx), phaseOver
	case r.Sealed:
		t.fate = fateGone
	}
}

// maxResolves is how often a start tries to read how its predecessor's transactions ended.
const maxResolves = 3

// retry calls f until it succeeds or ctx ends, with growing pauses.
func retry(ctx context.Context, f func() error, failed func(error)) error {
	return pause.Retry(ctx, pause.Doubling{Least: pauseLeast, Most: pauseMost}, f, failed)
}
