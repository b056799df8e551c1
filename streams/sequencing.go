package streams

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lovoo/goka"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// headerAt is the header of a table's record that says which position of its input the row is of.
const headerAt = "hence-at"

// maxStateBytes is the largest state record that is written; a larger one waits until its outbox has shrunk.
const maxStateBytes = 1 << 20

// seqPartition is the owner's memory of one partition of hence.intents: a replica of each workspace in it. The table
// has an older image of the same replicas; what lies between is in the log and is never committed.
type seqPartition struct {
	*seqProcessor
	partition int32
	store     *tableStore

	mu      sync.Mutex
	rooms   map[string]*room
	stopped error // set: no further record of this partition is applied
	left    bool  // it is not ours any more

	acksMu sync.Mutex // apart from mu: acknowledgements arrive while a callback waits for room in the producer
	acks   map[string]sequencer.Seq
	broken bool // a decision was refused: what is acknowledged behind it must not push it out of its outbox
}

// room is one workspace in memory.
type room struct {
	name    string
	replica *sequencer.Replica
	written []byte    // the row as this owner last saw or wrote it
	steps   int       // records applied since the last state was written
	since   time.Time // of the first of them

	held   []*entry // records that are not in a written state
	ledger *ledger  // that they are held in

	notes notes

	pending  bool      // a tick is due some time
	countAt  time.Time // when the last counted tick was folded, or when the first one became pending
	appended sequencer.TickMark
	askedAt  time.Time // when it was appended
}

// recover loads a partition that was gained: every replica is decoded, and every outbox is published again, because
// the former owner may have gone before Kafka took it. An error says that Kafka could not be asked.
func (p *seqPartition) recover() error {
	p.states.await()
	p.mu.Lock()
	defer p.mu.Unlock()
	applied := int64(-1)
	for key, value := range p.store.snapshot() {
		if reason := checkKey(key, p.partition, p.cfg.Partitions); reason != "" {
			p.metrics.parked.WithLabelValues(p.table, reason).Inc()
			continue // not a workspace of ours
		}
		r, err := p.load(key, value)
		if err != nil {
			p.stop(fmt.Errorf("state of workspace %q in %s: %w", key, p.table, err))
			return nil
		}
		applied = max(applied, r.replica.Offset())
	}
	if err := p.meetsLog(applied); errors.Is(err, errOffLog) {
		p.stop(err)
		return nil
	} else if err != nil {
		return err
	}
	if p.heed(); p.stopped != nil {
		return nil
	}
	for _, r := range p.rooms {
		for _, o := range r.replica.Outbox() {
			p.publish(r, &o, "", nil)
		}
	}
	return nil
}

// load makes the room of a table row.
func (p *seqPartition) load(workspace string, row []byte) (*room, error) {
	st, err := topology.DecodeReplica(row)
	if err != nil {
		return nil, err
	}
	replica, err := sequencer.RestoreReplica(*st)
	if err != nil {
		return nil, err
	}
	r := &room{name: workspace, replica: replica, written: row, countAt: p.cfg.Clock.Now()}
	_, r.pending = replica.NextTick()
	p.rooms[workspace] = r
	return r, nil
}

// stop ends the work on this partition: until a newer binary takes it over, or until the replicas agree.
func (p *seqPartition) stop(err error) {
	p.stopped = err
	p.metrics.stopped.WithLabelValues(p.name).Inc()
	p.cfg.Health.set(p.partName(), err)
	switch _, said := err.(*difference); {
	case said:
	case errors.Is(err, errOffLog):
		p.cfg.Logger.Error("this partition is not processed", "partition", p.partition, "error", err)
	default:
		p.cfg.Logger.Error("this partition waits: run a binary that knows the record",
			slog.Int("partition", int(p.partition)), slog.Any("error", err))
	}
}

// part is the partition's name in a health.
func (p *seqPartition) partName() string { return fmt.Sprintf("partition %d", p.partition) }

// take applies one record. It returns false when the partition is stopped: the record then stays unfinished, so that
// its offset is never committed.
func (p *seqPartition) take(ctx *tracked, value []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heed(); p.stopped != nil {
		return false
	}
	p.drainAcks()
	in, reason := readIntent(ctx.Key(), p.partition, p.cfg.Partitions, value)
	if reason != "" {
		p.park(ctx, value, reason)
	}
	if reason == reasonKey || reason == reasonPartition {
		return true // no workspace of ours
	}
	if m := p.cfg.Faults.Misread; m != nil && in != nil {
		m(ctx.Key(), in)
	}
	r := p.rooms[ctx.Key()]
	if r == nil {
		r = &room{name: ctx.Key(), replica: sequencer.NewReplica(ctx.Key())}
		p.rooms[ctx.Key()] = r
	}
	return p.apply(r, ctx, in)
}

// apply steps a workspace; mu is held.
func (p *seqPartition) apply(r *room, ctx *tracked, in *sequencer.Intent) bool {
	trace, end := p.folding(traceIn(ctx.Headers()), r.name, in)
	defer end()
	next, had := r.replica.NextTick()
	before := r.replica.Fold().Seq()
	applied, err := r.replica.Apply(ctx.Offset(), in)
	if errors.Is(err, sequencer.ErrUnknownLogic) {
		p.stop(fmt.Errorf("%s/%d offset %d, workspace %q, waits for a newer binary: %w",
			ctx.Topic(), p.partition, ctx.Offset(), r.name, err))
		return false
	}
	if err != nil {
		panic(fmt.Sprintf("streams: %s/%d offset %d: %v", ctx.Topic(), p.partition, ctx.Offset(), err))
	}
	r.notes.see(in, trace, r.replica.Fold().Time())
	for i := range applied.Outcomes {
		o := &applied.Outcomes[i]
		p.publish(r, o, r.notes.traceOf(o, in, trace), ctx)
	}
	if applied.Replayed {
		p.metrics.replays.Inc()
		return true
	}
	now := p.cfg.Clock.Now()
	p.sayState(r, before, now)
	if in != nil && in.Tick != nil && had && in.Tick.N == next.N {
		r.countAt = now
	}
	if _, has := r.replica.NextTick(); has != r.pending {
		r.pending, r.countAt = has, now
	}
	ctx.ledger.hold(ctx.entry)
	r.held, r.ledger = append(r.held, ctx.entry), ctx.ledger
	if r.steps++; r.steps == 1 {
		r.since = now
	}
	if r.steps >= p.cfg.StateEvery || now.Sub(r.since) >= p.cfg.StateAfter {
		p.writeState(r)
	}
	return true
}

// publish gives an outcome to NATS at once, since it is determined, and to Kafka, whose acknowledgement lets it leave
// the outbox and ends its hold on the record that caused it, if that is known; mu is held.
func (p *seqPartition) publish(r *room, o *sequencer.Outcome, trace string, of *tracked) {
	at, intent := p.cfg.Clock.Now(), time.Time{}
	if of != nil {
		intent = of.Timestamp()
		of.ledger.hold(of.entry)
	}
	p.metrics.published.Inc()
	if o.StateHash != nil && p.cfg.OnStateHash != nil {
		p.cfg.OnStateHash(r.name, o.Seq, *o.StateHash)
	}
	p.nats.publish(o, at, intent, trace)
	value, err := topology.EncodeCloudEvent(o, at, trace)
	if err != nil {
		panic(fmt.Sprintf("streams: decision %s/%d cannot be written: %v", r.name, o.Seq, err))
	}
	rec := &kgo.Record{Topic: topology.TopicDecisions, Key: []byte(r.name), Value: value}
	for _, h := range topology.DecisionHeaders(o, at, trace) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: []byte(h.Value)})
	}
	seq := o.Seq
	p.out.send(rec, func(_ *kgo.Record, err error) {
		if !p.acknowledge(r.name, seq, err) {
			p.fail(fmt.Errorf("write decision %s/%d: %w", r.name, seq, err))
			return
		}
		if of != nil {
			of.ledger.release(of.entry)
		}
	})
}

// acknowledge notes that Kafka took a decision, and all before it; it returns false when that is not so.
func (p *seqPartition) acknowledge(workspace string, seq sequencer.Seq, err error) bool {
	p.acksMu.Lock()
	defer p.acksMu.Unlock()
	if p.broken = p.broken || err != nil; p.broken {
		return false
	}
	p.acks[workspace] = max(p.acks[workspace], seq)
	return true
}

// drainAcks lets acknowledged outcomes leave their outboxes; mu is held.
func (p *seqPartition) drainAcks() {
	p.acksMu.Lock()
	acks := p.acks
	if len(acks) == 0 {
		p.acksMu.Unlock()
		return
	}
	p.acks = make(map[string]sequencer.Seq)
	p.acksMu.Unlock()
	for name, seq := range acks {
		p.rooms[name].replica.Acknowledged(seq)
	}
}

// writeState writes a workspace's row; the records in it are finished once it is acknowledged. Decisions and states
// go through one producer, but not in one partition: a state may be durable before a decision that it counts as made.
// Its outbox has that decision then, and the offset under it stays uncommitted. mu is held.
func (p *seqPartition) writeState(r *room) {
	p.drainAcks()
	if had, _ := p.store.Get(r.name); len(had) != len(r.written) || len(had) > 0 && &had[0] != &r.written[0] {
		panic(fmt.Sprintf("streams: the row of workspace %q is not the one that this owner wrote", r.name))
	}
	st := r.replica.State()
	row, err := topology.EncodeReplica(&st)
	if err != nil {
		panic(fmt.Sprintf("streams: state of workspace %q cannot be written: %v", r.name, err))
	}
	if len(row) > maxStateBytes && len(st.Outbox) > 0 {
		return
	}
	if err := p.store.Set(r.name, row); err != nil {
		panic(fmt.Sprintf("streams: state of workspace %q: %v", r.name, err))
	}
	held, l := r.held, r.ledger
	r.written, r.held, r.steps = row, nil, 0
	p.metrics.states.Inc()
	rec := &kgo.Record{Topic: p.table, Key: []byte(r.name), Value: row, Headers: atHeader(st.Offset)}
	name := r.name
	p.out.send(rec, func(_ *kgo.Record, err error) {
		if err != nil {
			p.fail(fmt.Errorf("write state of workspace %q: %w", name, err))
			return
		}
		if l != nil {
			l.release(held...)
		}
	})
}

// flush writes every changed state: the partition is being given up.
func (p *seqPartition) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped != nil {
		return
	}
	for _, r := range p.rooms {
		if r.steps > 0 {
			p.writeState(r)
		}
	}
}

// leave ends all work on the partition.
func (p *seqPartition) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	if p.stopped != nil {
		p.metrics.stopped.WithLabelValues(p.name).Dec()
		p.cfg.Health.drop(p.partName())
	}
}

func atHeader(at int64) []kgo.RecordHeader {
	return []kgo.RecordHeader{{Key: headerAt, Value: binary.BigEndian.AppendUint64(nil, uint64(at))}}
}

func gokaAt(at int64) goka.Headers {
	return goka.Headers{headerAt: binary.BigEndian.AppendUint64(nil, uint64(at))}
}

// positionOf reads headerAt; -1 when a record has none.
func positionOf(h goka.Headers) int64 {
	if v := h[headerAt]; len(v) == 8 {
		return int64(binary.BigEndian.Uint64(v))
	}
	return -1
}
