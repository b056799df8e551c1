package processor

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/states"
	"github.com/hence-dev/hence/topology"
)

// maxStateBytes is the largest state record that is written; a larger one waits until its outbox has shrunk.
const maxStateBytes = 1 << 20

// A state larger than stateUnit bytes is written after as many times the steps or the time, up to stateMost times.
const (
	stateUnit = 16 << 10
	stateMost = 8
)

// A workspace whose records decide nothing, which renewals of leases and ticks are, writes its state less often: after
// quietMost times StateAfter, or once quietRecords records of its partition lie behind the first that no state has.
// The next owner folds those once more; idle workspaces would else write their whole past every second or two.
const (
	quietMost    = 30
	quietRecords = 1 << 12
)

// seqPartition is the owner's memory of one partition of hence.intents: a replica of each workspace in it. The table
// has an older image of the same replicas; what lies between is in the log and is never committed.
type seqPartition struct {
	*seqProcessor
	partition int32
	store     *tableStore

	mu         sync.Mutex
	workspaces map[string]*workspaceState
	halted     map[string]*halted // workspaces that have stopped. Invariant: none of them is in workspaces
	read       int64              // offset of the last record that was taken
	stopped    error              // set: no further record of this partition is applied
	told       bool               // it is entered: what stops is said where people look
	left       bool               // it is not ours any more

	seals *partitionSeals // nil: nothing is sealed

	acksMu sync.Mutex // apart from mu: acknowledgements arrive while a callback waits for space in the producer
	acks   map[string]sequencer.Seq
	broken bool // a decision was refused: what is acknowledged behind it must not push it out of its outbox
}

// workspaceState is one workspace in memory.
type workspaceState struct {
	name    string
	replica *sequencer.Replica
	written []byte        // the row as this owner last saw or wrote it. Invariant: the very bytes that the store has
	kept    *atomic.Int64 // offset of the last state that Kafka has; -1: none
	steps   int           // records applied since the last state was written
	first   int64         // offset of the first of them
	since   time.Time     // when it was applied
	decided bool          // one of them led to a decision

	held   []*entry // Invariant: each record since the last written state that no mark covers: none is committed
	ledger *ledger  // that they are held in
	mark   *mark    // it had stopped, and Kafka may still have the mark: a state without it was not written yet

	notes notes

	pending  bool      // a tick is due some time
	countAt  time.Time // when the last counted tick was folded, or when the first one became pending
	appended sequencer.TickMark
	askedAt  time.Time // when it was appended
}

// newWorkspaceState is the workspace of a replica whose state Kafka has.
func newWorkspaceState(name string, replica *sequencer.Replica) *workspaceState {
	r := &workspaceState{name: name, replica: replica, kept: new(atomic.Int64)}
	r.kept.Store(replica.Offset())
	return r
}

// stop ends the work on this partition: until a newer binary takes it over, or until the replicas agree.
func (p *seqPartition) stop(err error) {
	p.stopped = err
	if p.told {
		p.tellStopped()
	}
	switch _, said := err.(*states.Difference); {
	case said:
		// The comparison of states has logged it.
	case errors.Is(err, errOffLog):
		p.cfg.Logger.Error("this partition is not processed", "partition", p.partition, "error", err)
	default:
		p.cfg.Logger.Error("this partition waits: run a binary that knows the row",
			slog.Int("partition", int(p.partition)), slog.Any("error", err))
	}
}

// tell says what has stopped where people look, from now on at once. It is called once the partition is entered: a
// recovery that has outlived its session must say nothing, nor take back what the partition's heir says.
func (p *seqPartition) tell() {
	// The housekeeper may be at this partition already, and goka may be taking it back.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told = !p.left; !p.told {
		return // given up meanwhile: what is said now would stay
	}
	if p.stopped != nil {
		p.tellStopped()
	}
	for _, h := range p.halted {
		p.tellHalted(h)
	}
}

// tellStopped says where people look that the partition has stopped; mu is held.
func (p *seqPartition) tellStopped() {
	p.metrics.Stopped.WithLabelValues(p.name).Inc()
	p.cfg.Health.Set(p.partName(), p.stopped)
}

// part is the partition's name in a health.
func (p *seqPartition) partName() string { return fmt.Sprintf("partition %d", p.partition) }

// take applies one record. It returns false when the partition is stopped: the record then stays unfinished, so that
// its offset is never committed.
func (p *seqPartition) take(ctx *tracked, value []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Stopped between two records: the replicas differ, so what this one would publish is in doubt.
	if p.checkReplicas(); p.stopped != nil {
		return false
	}
	p.read = ctx.Offset()
	// Before the step: an outbox that is not shrunk makes the next state too large to be written.
	p.drainAcks()
	in, reason := readIntent(ctx.Key(), p.partition, p.cfg.Partitions, value)
	if reason != "" {
		// Parked and a step of nothing: refused, it would be a decision that depends on which release could read it.
		p.park(ctx, value, reason)
	}
	if reason == topology.ParkedKey || reason == topology.ParkedPartition {
		return true // no workspace of ours
	}
	if m := p.cfg.Faults.Misread; m != nil && in != nil {
		m(ctx.Key(), in)
	}
	rec := &logRecord{offset: ctx.Offset(), at: ctx.Timestamp(), headers: ctx.Headers(), ledger: ctx.ledger,
		entry: ctx.entry}
	if h := p.halted[ctx.Key()]; h != nil {
		// Its fold is not whole; the record is read again from the mark by a binary that can take it.
		p.passBy(h, rec)
		return true
	}
	r := p.workspaces[ctx.Key()]
	if r == nil {
		r = newWorkspaceState(ctx.Key(), sequencer.NewReplica(ctx.Key()))
		p.workspaces[ctx.Key()] = r
	}
	p.apply(r, rec, in)
	return true
}

// logRecord is a record of hence.intents in work: one that goka brought, with its place in the ledger, or one that is
// read again for a workspace that had stopped.
type logRecord struct {
	offset  int64
	at      time.Time // when it was appended
	headers map[string][]byte
	ledger  *ledger // nil: it is read again, and a mark covers it
	entry   *entry
	span    trace.Span // of its fold; nil before it
}

// hold keeps the record's offset uncommitted until release is called once more.
func (r *logRecord) hold() {
	if r.ledger != nil {
		r.ledger.hold(r.entry)
	}
}

func (r *logRecord) release() {
	if r.ledger != nil {
		r.ledger.release(r.entry)
	}
}

// event notes in the record's span what happens now, for people who ask where the time of a decision goes.
func (r *logRecord) event(name string) {
	if r != nil && r.span != nil { // a decision that is published again has no record
		r.span.AddEvent(name)
	}
}

// apply steps a workspace, or stops it before the record. Nothing of a step is published before all of it can be: a
// reader that takes one of two decisions and never the other has a gap for good. mu is held.
func (p *seqPartition) apply(r *workspaceState, rec *logRecord, in *sequencer.Intent) {
	trace, span := p.folding(streams.TraceIn(rec.headers), r.name, in)
	rec.span = span
	defer span.End()
	next, had := r.replica.NextTick()
	before := r.replica.Fold().Seq()
	// 1. The fold. It is in memory only: whatever fails from here on, the log gives the same outcomes again.
	applied, err := p.step(r, rec.offset, in)
	var messages []message
	if err == nil {
		r.notes.see(in, trace, r.replica.Fold().Time())
		// 2. All outcomes in the form that readers take, before the first one leaves.
		messages, err = p.encode(r, applied.Outcomes, in, trace, rec.at)
	}
	if err != nil {
		// Stopped, and not refused: another binary would decide otherwise, and the log has one meaning.
		p.halt(r, rec, err)
		return
	}
	// 3. Out: NATS at once, since the record is acknowledged and so the outcome is determined; then Kafka, which alone
	// clears the outbox.
	for i := range messages {
		p.publish(r, &messages[i], rec)
	}
	if applied.Replayed {
		// Its state and its ticks counted it the first time.
		p.metrics.Replays.Inc()
		return
	}
	now := p.cfg.Clock.Now()
	// 4. What the other replica compares its own state with.
	p.sayState(r, before, now)
	// 5. When the next tick may be appended: counted from the tick that this fold took, so that two owners do not double
	// time.
	if in != nil && in.Tick != nil && had && in.Tick.N == next.N {
		r.countAt = now
	}
	if _, has := r.replica.NextTick(); has != r.pending {
		r.pending, r.countAt = has, now
	}
	// 6. The record is held until a state with it is written: committed before, it would be in no state of the next
	// owner.
	p.dirty(r, rec.offset, len(applied.Outcomes) > 0)
	if rec.ledger == nil {
		return // the mark covers it, and no state may be written before all records are read again
	}
	rec.hold()
	r.held, r.ledger = append(r.held, rec.entry), rec.ledger
	if p.stateDue(r, now) {
		// 7. Now and then the state, whose acknowledgement lets the held records go.
		p.writeState(r)
	}
}

// stateDue reports whether what no written state has of a workspace is to be written; mu is held.
func (p *seqPartition) stateDue(r *workspaceState, now time.Time) bool {
	times := stateTimes(len(r.written))
	if r.steps >= times*p.cfg.StateEvery {
		return true
	}
	waited := now.Sub(r.since)
	if r.steps == 0 || waited < time.Duration(times)*p.cfg.StateAfter {
		return false
	}
	return r.decided || waited >= quietMost*p.cfg.StateAfter || p.read-r.first >= quietRecords
}

// stateTimes is how many times the steps, or the time, pass between two writes of a state whose row has so many bytes.
// What it costs to write it grows with the past that it keeps, what it costs to take the steps again does not; these,
// and copies of their decisions, are what a crash costs. By time alone the row of a workspace that does little, or in
// which leases are renewed and nothing else, would be most of what there is to write.
func stateTimes(bytes int) int { return min(max(bytes/stateUnit, 1), stateMost) }

// dirty counts a record that is in no written state.
func (p *seqPartition) dirty(r *workspaceState, offset int64, decided bool) {
	if r.steps++; r.steps == 1 {
		r.first, r.since, r.decided = offset, p.cfg.Clock.Now(), false
	}
	r.decided = r.decided || decided
}

// encode writes the outcomes of a step. An error says that one of them cannot be written so that every reader of ours
// takes it. intent is when their record was appended; zero: that is not known any more.
func (p *seqPartition) encode(r *workspaceState, outcomes []sequencer.Outcome, in *sequencer.Intent, trace string,
	intent time.Time,
) ([]message, error) {
	messages := make([]message, len(outcomes))
	for i := range outcomes {
		m := &messages[i]
		m.outcome, m.intent, m.at = &outcomes[i], intent, p.cfg.Clock.Now()
		if in != nil {
			m.trace = r.notes.traceOf(m.outcome, in, trace)
		}
		var err error
		if m.event, m.nats, err = topology.EncodeDecision(m.outcome, m.intent, m.trace); err != nil {
			// Every reader of ours would stop at it, or leave a gap: nothing of the step goes out.
			return nil, err
		}
		if f := p.cfg.Faults.Encode; f != nil {
			if err := f(m.outcome); err != nil {
				return nil, err
			}
		}
	}
	return messages, nil
}

// publish gives an outcome to NATS at once, since it is determined, and to Kafka, whose acknowledgement lets it leave
// the outbox and ends its hold on the record that caused it, if that is known; mu is held.
func (p *seqPartition) publish(r *workspaceState, m *message, of *logRecord) {
	o := m.outcome
	if of != nil {
		// Until Kafka has the decision its record stays uncommitted: else a crash loses it (holes 10).
		of.hold()
	}
	p.metrics.Published.Inc()
	if o.StateHash != nil && p.cfg.OnStateHash != nil {
		p.cfg.OnStateHash(r.name, o.Seq, *o.StateHash)
	}
	of.event("hence.publish")
	p.nats.publish(m)
	of.event("hence.published")
	p.written.add(m.event, m.nats)
	rec := &kgo.Record{Topic: topology.TopicDecisions, Key: []byte(r.name), Value: m.event}
	for _, h := range topology.DecisionHeaders(o, m.intent, m.trace) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: []byte(h.Value)})
	}
	seq, chain := o.Seq, o.Chain
	p.out.send(rec, func(_ *kgo.Record, err error) {
		if err == nil {
			// Before it can leave the outbox: what is in neither outbox nor seal the next owner cannot seal.
			p.seals.published(r.name, seq, rec.Value, chain)
		}
		if !p.acknowledge(r.name, seq, err) {
			// The run ends and the next one publishes the outbox again: to go on would leave a gap in hence.decisions.
			p.fail(fmt.Errorf("write decision %s/%d: %w", r.name, seq, err))
			return
		}
		if of != nil {
			of.release()
		}
	})
}

// acknowledge notes that Kafka took a decision, and all before it; it returns false when that is not so.
func (p *seqPartition) acknowledge(workspace string, seq sequencer.Seq, err error) bool {
	// Not under mu: the producer calls this while a callback that has mu waits for the producer's buffer.
	p.acksMu.Lock()
	defer p.acksMu.Unlock()
	if p.broken = p.broken || err != nil; p.broken {
		// Kafka may refuse one batch and take the next. Were that one's acknowledgement believed, it would push the refused
		// decision out of the outbox.
		return false
	}
	p.acks[workspace] = max(p.acks[workspace], seq)
	return true
}

// drainAcks lets acknowledged outcomes leave their outboxes; mu is held.
func (p *seqPartition) drainAcks() {
	p.acksMu.Lock()
	// Taken whole and applied under mu only: an outbox is the fold's, and steps read it.
	acks := p.acks
	if len(acks) == 0 {
		// The usual case costs one lock and no map.
		p.acksMu.Unlock()
		return
	}
	p.acks = make(map[string]sequencer.Seq)
	p.acksMu.Unlock()
	for name, seq := range acks {
		if r := p.workspaces[name]; r != nil { // else it has stopped since
			r.replica.Acknowledged(seq)
		}
	}
}

// writeState writes a workspace's row; the records in it are finished once it is acknowledged. Decisions and states
// go through one producer, but not in one partition: a state may be durable before a decision that it counts as made.
// Its outbox has that decision then, and the offset under it stays uncommitted. mu is held.
func (p *seqPartition) writeState(r *workspaceState) {
	p.drainAcks()
	if had, _ := p.store.Get(r.name); len(had) != len(r.written) || len(had) > 0 && &had[0] != &r.written[0] {
		// Another writer in this process: whichever row is written now may lack what the other one let go.
		panic(fmt.Sprintf("streams: the row of workspace %q is not the one that this owner wrote", r.name))
	}
	if r.mark != nil && r.mark.gone.Load() {
		r.mark = nil
	}
	st := r.replica.State()
	row, err := p.encodeState(r.name, &st)
	if len(st.Outbox) > 0 && err == nil && len(row) > maxStateBytes {
		return // acknowledgements will shrink it
	}
	if err != nil && len(st.Outbox) > 0 {
		st.Outbox = nil
		if _, bare := p.encodeState(r.name, &st); bare == nil {
			return // as above: the state alone could be written
		}
	}
	if err != nil { // no acknowledgement makes it one that can be written
		p.halt(r, &logRecord{offset: r.replica.Offset()}, err)
		return
	}
	row = bytes.Clone(row) // it stays, and the space that its buffer has grown into need not
	if err := p.store.Set(r.name, row); err != nil {
		panic(fmt.Sprintf("streams: state of workspace %q: %v", r.name, err))
	}
	held, l, m := r.held, r.ledger, r.mark
	r.written, r.held, r.steps = row, nil, 0
	p.metrics.States.Inc()
	rec := &kgo.Record{Topic: p.table, Key: []byte(r.name), Value: row, Headers: atHeader(st.Offset)}
	name, kept := r.name, r.kept
	p.out.send(rec, func(_ *kgo.Record, err error) {
		if err != nil {
			// The records under it stay held, so the next owner folds them again.
			p.fail(fmt.Errorf("write state of workspace %q: %w", name, err))
			return
		}
		kept.Store(st.Offset)
		if m != nil {
			// Only now: a mark deleted before its state is durable would leave the records covered by neither.
			p.unmark(m)
		}
		if l != nil {
			l.release(held...)
		}
	})
}

// encodeState writes a state as a row. An error is about the state itself when it has no outbox.
func (p *seqPartition) encodeState(workspace string, st *sequencer.ReplicaState) ([]byte, error) {
	if f := p.cfg.Faults.EncodeState; f != nil {
		if err := f(workspace, st); err != nil {
			return nil, err
		}
	}
	row, err := topology.EncodeReplica(st)
	if err != nil {
		return nil, fmt.Errorf("its state cannot be written: %w", err)
	}
	return row, nil
}

// flush writes every changed state: the partition is being given up.
func (p *seqPartition) flush() {
	// No step may come between the state and what is let go under it.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped != nil {
		// Stopped: its last written state is the last one that is believed.
		return
	}
	for _, r := range p.workspaces {
		if r.steps > 0 {
			p.writeState(r)
		}
	}
}

// leave ends all work on the partition.
func (p *seqPartition) leave() {
	// The housekeeper may be at this partition now; it sees left, and appends and writes nothing more.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left = true; !p.told {
		return // nothing was said of it
	}
	p.leaveHalted()
	if p.stopped != nil {
		p.metrics.Stopped.WithLabelValues(p.name).Dec()
		p.cfg.Health.Drop(p.partName())
	}
}
