package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// join begins a session: it asks the log for an incarnation and returns once the view shows it. The same join is asked
// for until it is answered, so one that timed out does not make two.
func (s *Agent) join(ctx context.Context) error {
	if err := s.awaitView(ctx); err != nil {
		return err
	}
	if err := s.nameJoin(); err != nil {
		return err
	}
	before := s.joinRefused // told to requests until the log has answered again
	id, sent := s.joinID, s.joinSent
	failpoint.Hit(failpoint.JoinBefore)
	seq, err := s.askToJoin(ctx, id, before)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.JoinAfter)
	return s.enterSession(ctx, seq, sent)
}

// nameJoin gives the next join an id of its own unless the one before it has no answer. The journal has it before the
// log: a later start must know that what came of it was no other process.
func (s *Agent) nameJoin() error {
	entered := s.joinID == "" || s.joined != 0
	if !entered && (s.joinRefused == nil || s.joinRefused.Intent != api.JoinIntent(s.joinID)) {
		return nil
	}
	id := randomID()
	if err := s.delivery.Record(journal.RecordJoining, journal.JoiningRecord{ID: id}); err != nil {
		return fmt.Errorf("name the join in the journal: %w", err)
	}
	if s.joinID, s.joinSent = id, s.clock.Steady(); entered {
		s.unentered, s.joined = s.joined, 0
	}
	s.formers.Joining(id, entered)
	return nil
}

// awaitView waits a while for the view to be ready.
func (s *Agent) awaitView(ctx context.Context) error {
	ctx, cancel := s.clock.Within(ctx, view.PauseMost)
	defer cancel()
	_ = s.loop.Until(ctx, func() bool { return s.view.Ready() == nil })
	return s.view.Ready()
}

// askToJoin returns the incarnation that the log gives to a join. before is the refusal of the join before this one.
func (s *Agent) askToJoin(ctx context.Context, id string, before *sequencer.Outcome) (seq sequencer.Seq, err error) {
	ctx, cancel := s.clock.Within(ctx, joinTry)
	defer cancel()
	logic, err := s.firstLogic(ctx)
	if err != nil {
		return 0, err
	}
	in := &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: s.agent, Join: &sequencer.Join{ID: id, Logic: logic}}
	if _, err := s.append(ctx, in); err != nil {
		return 0, fmt.Errorf("append the join: %w", err)
	}
	err = s.loop.Until(ctx, func() bool { return s.joined != 0 || s.joinRefused != before })
	if err != nil {
		return 0, fmt.Errorf("wait for the join's decision: %w", err)
	}
	if s.joined == 0 {
		return 0, s.notLetIn()
	}
	return s.joined, nil
}

// firstLogic is the logic that a join asks for. It counts in a new workspace only, so only there the processors are
// asked what they know: one that does not know it would stop at the join.
func (s *Agent) firstLogic(ctx context.Context) (uint32, error) {
	if s.view.At() > 0 {
		return sequencer.Logic, nil
	}
	logic, err := loop.Do(s.loop, func() (uint32, error) { return s.events.KnownLogic(ctx, s.workspace) })
	if err != nil {
		return 0, fmt.Errorf("ask which logic the processors know: %w", err)
	}
	return min(logic, sequencer.Logic), nil
}

// enterSession makes a decided join the current session.
func (s *Agent) enterSession(ctx context.Context, seq sequencer.Seq, sent time.Time) error {
	nowhere, err := s.resolve(ctx, seq)
	if err != nil {
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
	err = s.delivery.Session(journal.JoinedRecord{Agent: s.agent, Workspace: s.workspace, Incarnation: seq,
		Boot: s.delivery.Boot, Since: s.formers.MayHaveHadOthers(), Nowhere: nowhere})
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
	if s.incarnation != 0 && s.incarnation != seq {
		s.lose("the sidecar joined again")
	}
	s.joinRefused, s.joinAfter, s.joinPause = nil, time.Time{}, 0
	s.incarnation, s.count, s.watermark, s.marked = seq, 0, seq, s.clock.Now()
	s.formers.Entered(seq)
	s.lease.begin(sent, s.sure())
	if s.live = s.ended < seq; !s.live {
		s.lease.end()
	}
	live := s.live
	if !live {
		return errors.New("the lease ended before the session began")
	}
	s.log.Info("the session is live", "incarnation", uint64(seq), "workspace", s.workspace, "agent", s.agent)
	s.loop.Go(func(ctx context.Context) { s.settle.FindOwed(ctx, seq) })
	s.learnFormat(s.clock.Now())
	s.settle.Start()
	return nil
}

// sameLog reports an error unless the log is the one whose journal is open.
func (s *Agent) sameLog(ctx context.Context) error {
	ctx, cancel := s.clock.Within(ctx, idTry)
	defer cancel()
	id, err := loop.Do(s.loop, func() (string, error) { return s.events.ID(ctx) })
	if err == nil && gate.Origin(id, s.workspace) != s.where() {
		err = streams.ErrOtherLog
	}
	if err != nil {
		return fmt.Errorf("make sure that the log is the one whose journal is open: %w", err)
	}
	return nil
}

// where is what the keys of this session's calls name.
func (s *Agent) where() string { return s.origin }

// originOutside is where, outside of the loop: the gate asks in the middle of its calls.
func (s *Agent) originOutside() (origin string) {
	s.loop.Run(func() { origin = s.where() })
	return origin
}

// adopt takes over what the journal knows of the process before this one: its transactions are lost unless they were
// decided; its loose reads go to the next seal.
func (s *Agent) adopt(l *journal.Ledger) {
	other := l.Joined.Boot != "" && l.Joined.Boot != s.delivery.Boot
	if other {
		s.log.Warn("the machine was started again, or is another one: what the agent read last may not be in the journal, " +
			"so each of its conversations is told once to read again")
	}
	s.formers.Left(l)
	s.notice.Apply(l.Notice.Record())
	if other {
		s.oweNotices()
	}
	if l.Joined.Incarnation != 0 {
		s.log.Info("going on with the journal of the former session", "former", uint64(l.Joined.Incarnation),
			"transactions", len(l.Txs), "loose_reads", l.Loose.Reads(), "events", len(l.Pending))
	}
	s.forgetMentions(l.Loose)
	for talk, reads := range l.Loose {
		s.loose.Give(talk, reads)
	}
	for _, id := range l.Order() {
		r := l.Txs[id]
		if r.Foreign {
			continue
		}
		t := newTx(id, r.Incarnation, r.Base, r.Begin, s.clock.Now())
		t.attempt, t.refusals, t.reads, t.loose, t.own = r.Attempt, r.Refusals, r.Reads, r.Loose, r.Own
		t.begun, t.phase, t.sealedBefore = true, phaseLost, r.Sealed
		for _, call := range r.Plan {
			t.places = append(t.places, &place{call: call})
		}
		s.txs[id] = t
		s.order = append(s.order, id)
		switch {
		case r.Decided != nil && r.Decided.Final:
			t.outcome, t.phase, t.final = r.Decided.Outcome(id), phaseOver, true
			t.clean = r.Decided.Clean
		case r.Vain(s.formers.Last()): // an earlier start has asked the log, which may have forgotten it since
		default:
			t.fate = fateUnread
			s.unresolved = append(s.unresolved, r)
		}
	}
	s.trim()
}

// resolve reads how the former process's transactions ended. The join has ended its lease, so each of them is decided
// before it, or never reached the log. Those it returns, for the journal: without it each later start would read the
// log from where the oldest of them began.
func (s *Agent) resolve(ctx context.Context, join sequencer.Seq) (nowhere []sequencer.TxID, err error) {
	records := s.unresolved
	if len(records) == 0 {
		return nil, nil
	}
	from := max(beganAfter(records, join), s.readTo) // a try goes on where the one before it was stopped
	ctx, cancel := s.clock.Within(ctx, resolveTry)
	defer cancel()
	to, read, err := s.settle.Through(ctx, from, s.concernsFormers(), func(o *sequencer.Outcome) (last bool) {
		s.others = s.others || s.formers.IsOthers(o)
		if t := s.txs[o.Tx]; t != nil && t.outcome == nil {
			s.observeTx(t, o)
		} else if t != nil {
			t.final, t.clean = t.final || o.Final, t.clean || view.ReleasedAll(o)
		}
		s.settle.ObserveSettlement(o)
		return o.Seq >= s.view.At()
	})
	s.log.Info("the log was read for how the former session's transactions ended", "count", len(records),
		"from", uint64(from), "join", uint64(join), "whole", read)
	if s.readTo = to; to == from {
		s.resolves++
	}
	if !read && !errors.Is(err, streams.ErrGone) && s.resolves < maxResolves {
		return nil, fmt.Errorf("read how the former session's transactions ended: %w", err)
	}
	if !read {
		s.log.Error("how the former session's sealed transactions ended is not known", "count", len(records), "cause", err)
	}
	for _, r := range records {
		s.resolved(r, read)
		if s.others || !read { // others may have worked on it
			s.settle.Share(r.Tx)
		}
		if t := s.txs[r.Tx]; read && t != nil && t.outcome == nil {
			nowhere = append(nowhere, r.Tx)
		}
	}
	s.unresolved = nil
	return nowhere, nil
}

// beganAfter is a decision up to which there is nothing of some transactions: of each its base, or the join of its
// session, which its view may have been behind.
func beganAfter(records []*journal.TxRecord, join sequencer.Seq) sequencer.Seq {
	from := join
	for _, r := range records {
		from = min(from, max(r.Base, r.Incarnation))
	}
	return from
}

// concernsFormers picks, outside of the loop, what resolve reads the log for, and where it has read enough.
func (s *Agent) concernsFormers() func(*sequencer.Outcome) bool {
	known := make(map[sequencer.TxID]bool, len(s.txs))
	for id := range s.txs { // no other begins before there is a session
		known[id] = true
	}
	return func(o *sequencer.Outcome) bool {
		return known[o.Tx] || o.Kind == sequencer.OutcomeJoined || o.Kind == sequencer.OutcomeAdopted ||
			o.Seq >= s.view.At()
	}
}

// resolved: the log was read for a transaction of the former process, or cannot be.
func (s *Agent) resolved(r *journal.TxRecord, read bool) {
	t := s.txs[r.Tx]
	if t == nil {
		return
	}
	t.fate = fateKnown
	switch {
	case read || t.outcome != nil:
	case r.Decided != nil && r.Decided.Seq > 0:
		t.outcome, t.phase = r.Decided.Outcome(r.Tx), phaseOver
	case r.Sealed:
		t.fate = fateGone
	}
}

// maxResolves is how often a start tries in vain to read on in the log for how its predecessor's transactions ended.
const maxResolves = 3

// What a start has learned of the time before it, and what rests on that, is in the journal first: the next start has
// the former session in its journal and would see nothing strange in the log.

// keepLearned puts what a start has learned into the journal, before the session that it rests on.
func (s *Agent) keepLearned() error {
	if s.unnoted {
		if err := s.delivery.Record(journal.RecordNotice, journal.NoticeRecord{Owed: true}); err != nil {
			return err
		}
		s.unnoted = false
	}
	return s.formers.Keep()
}

// learnFormat lets events share records once all processors of the workspace read such. No request waits for the
// answer: until it is there each event has a record to itself, which every release reads.
func (s *Agent) learnFormat(now time.Time) {
	if !s.live || now.Before(s.formatAfter) {
		return
	}
	s.formatAfter = now.Add(formatEvery)
	s.loop.Go(func(ctx context.Context) {
		format, err := loop.Do(s.loop, func() (uint32, error) { return s.events.KnownEvents(ctx, s.workspace) })
		if err == nil { // else the loop has stopped
			s.delivery.Together(format >= topology.EventsBatched)
		}
	})
}

// formatEvery is how often the processors are asked which format of events they read: others may take their place.
const formatEvery = time.Minute

// openJournal opens the journal once the log has said which one it is: what is in that of another log is true of
// nothing here. Until then no request is taken.
func (s *Agent) openJournal(ctx context.Context) error {
	var err error
	wait := s.loop.Retry(ctx, func() error {
		err = s.tryJournal(ctx)
		s.unopened = err
		if s.patient || errors.Is(err, journal.ErrNotKnown) {
			return err
		}
		return nil
	}, view.Complain(s.log, "the journal is not open yet: asked again"))
	if err = errors.Join(err, wait); err != nil {
		return err
	}
	s.adopt(s.delivery.Ledger)
	s.keys.Open(s.delivery)
	return nil
}

func (s *Agent) tryJournal(ctx context.Context) error {
	try, cancel := s.clock.Within(ctx, idTry)
	defer cancel()
	id, err := loop.Do(s.loop, func() (string, error) { return s.events.ID(try) })
	if err != nil {
		return fmt.Errorf("the log's id is %w: %w", journal.ErrNotKnown, err)
	}
	s.origin = gate.Origin(id, s.workspace)
	of := journal.Of{Log: id, Workspace: s.workspace, Agent: s.agent}
	s.loop.Do(func() { // the disk, and perhaps the log
		err = s.delivery.Open(s.dataDir, of, s.openFile, func(l *journal.Ledger, written time.Time) (bool, error) {
			return s.ofThisLog(ctx, l, written)
		})
	})
	return err
}

// dated is a log that knows when its decisions were made, as far as clocks agree.
type dated interface {
	// SeqBefore is the last decision before a time; zero: none.
	SeqBefore(ctx context.Context, workspace string, t time.Time) (sequencer.Seq, error)
}

// ofThisLog, outside of the loop, holds a journal that names no log against the log: its last session, and each in
// which something is left to do, is a join of this agent that is not newer than the journal, and the log's decisions
// are those that it has.
func (s *Agent) ofThisLog(ctx context.Context, l *journal.Ledger, written time.Time) (bool, error) {
	when, ok := s.events.(dated)
	if !ok || l.Joined.Incarnation == 0 || l.Mixed != nil {
		return false, nil
	}
	ctx, cancel := s.clock.Within(ctx, resolveTry)
	defer cancel()
	last, err := when.SeqBefore(ctx, s.workspace, written.Add(time.Millisecond))
	if err != nil {
		return false, err
	}
	from, to, joins, decided := l.Claims()
	end, err := when.SeqBefore(ctx, s.workspace, s.clock.Now().Add(time.Hour))
	if err != nil || last < l.Joined.Incarnation || end < to {
		return false, err
	}
	same := true
	err = s.events.Follow(ctx, s.workspace, from-1, func(o *sequencer.Outcome, _ streams.Way) error {
		if joins[o.Seq] && (o.Kind != sequencer.OutcomeJoined || o.Agent != s.agent) {
			same = false
		}
		if t := decided[o.Seq]; t != nil && (o.Tx != t.Tx || view.StateOf(o) != t.State) {
			same = false
		}
		if !same || o.Seq >= to {
			return errResolved
		}
		return nil
	})
	if errors.Is(err, errResolved) {
		return same, nil
	}
	if errors.Is(err, streams.ErrGone) {
		return false, nil
	}
	return false, err
}
