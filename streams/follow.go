package streams

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Way is how a decision reached a follower.
type Way uint8

// The ways, in the order in which they are tried.
const (
	WayNATS      Way = iota + 1 // pushed on the subject
	WayJetStream                // caught up from the stream
	WayKafka                    // read from hence.decisions
)

// String is the way's name in metrics.
func (w Way) String() string {
	switch w {
	case WayNATS:
		return "nats"
	case WayJetStream:
		return "jetstream"
	case WayKafka:
		return "kafka"
	}
	return "unknown"
}

// ErrGone is returned by Follow when decisions after the given seq are in none of the three places any more: start
// again from a snapshot. It is returned by Effects when events of the transaction may have been deleted.
var ErrGone = errors.New("records are gone")

// Bounds of a follower.
const (
	liveBuffer  = 8192                 // messages; a longer queue is dropped by NATS and shows as a gap
	maxAhead    = 4096                 // decisions that wait for one before them
	gapGrace    = 3 * time.Millisecond // how long a decision may be late before it is looked for
	silenceMin  = 250 * time.Millisecond
	silenceMax  = 4 * time.Second
	catchUpIn   = 2 * time.Second
	fetchBatch  = 256
	kafkaMargin = 30 * time.Second // by how much the clocks of two publishers may differ
)

// follower delivers one workspace's decisions in order.
type follower struct {
	c         *Client
	workspace string
	log       string // its id; messages of another one are passed over
	partition int32
	apply     func(*sequencer.Outcome, Way, time.Time) error
	woken     chan bool // true: NATS came or went
	live      chan *nats.Msg

	next   sequencer.Seq           // Invariant: every decision before it was applied, once and in order
	at     atomic.Uint64           // the last one applied; others read it
	ahead  map[sequencer.Seq]early // Invariant: all of them are after next, and at most maxAhead
	faults faultCounter

	tail     *kafkaTail    // runs while NATS cannot be relied on
	offset   int64         // in hence.decisions. Invariant: everything before it is applied, or it is -1: not known
	oldest   bool          // the next tail begins with the oldest record: only from there on a hole is certain
	before   sequencer.Seq // so long before the next decision bisection aims: late copies of a replica lead it astray
	atMs     int64         // what comes after the last decision that NATS brought is not older in Kafka; zero: not known
	seenEnd  int64         // the end of hence.decisions when nothing was missing
	silences int           // looks in a row that found nothing, since what the next pause is for
	looks    int           // the same since the last decision; our own appends do not begin it again
	due      time.Time     // when it looks by itself
}

type early struct {
	o   *sequencer.Outcome
	way Way
	at  time.Time
}

// Follow calls apply for each decision of a workspace after a seq: in order, without gaps, each once. It blocks until
// ctx ends, apply fails or the decisions are gone. NATS is tried first; a gap, silence or a reconnect is answered from
// JetStream, and what that does not have from Kafka.
func (c *Client) Follow(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, Way) error,
) error {
	return c.FollowAt(ctx, workspace, after, func(o *sequencer.Outcome, way Way, _ time.Time) error {
		return apply(o, way)
	})
}

// FollowAt is Follow with the time at which the record that a decision answers was appended to the log, as the log has
// it. Zero: the log, or the message on NATS, does not say, as where a processor has published a decision again.
func (c *Client) FollowAt(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, Way, time.Time) error,
) error {
	if err := topology.ValidWorkspace(workspace); err != nil {
		return err
	}
	id, err := c.firstID(ctx)
	if err != nil {
		return ctx.Err() // nothing else ends the asking
	}
	f := &follower{c: c, workspace: workspace, log: id, partition: topology.PartitionOf(workspace, c.cfg.Partitions),
		apply: apply, woken: make(chan bool, 1), next: after + 1, offset: -1, seenEnd: -1,
		ahead: make(map[sequencer.Seq]early), faults: faultCounter{Faults: c.cfg.Faults}}
	f.live = make(chan *nats.Msg, liveBuffer)
	if c.nats != nil {
		sub, err := c.nats.ChanSubscribe(topology.DecisionSubject(workspace), f.live)
		if err != nil {
			return fmt.Errorf("follow %s: %w", workspace, err)
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	}
	// Append and NATS wake the followers from other goroutines.
	c.mu.Lock()
	c.followers[f] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.followers, f)
		c.mu.Unlock()
		f.stopTail()
	}()
	err = f.run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ctx.Err()
	}
	if errors.Is(err, ErrGone) {
		err = fmt.Errorf("%w; %s", err, c.pastGone(ctx, workspace, f.next))
	}
	return fmt.Errorf("follow %s: %w", workspace, err)
}

// run is the follower's loop; everything it knows is touched here only. Without news it looks after 0.25, 0.5, 1, 2,
// 4, 4 ... s; an own Append begins that row again, and from the second look since the last decision on Kafka is asked
// too. While NATS is away Kafka is read, and left when NATS is first again.
func (f *follower) run(ctx context.Context) error {
	clock := f.c.cfg.Clock
	f.due = clock.Now().Add(silenceMin)
	// Subscribed first, then caught up: what is published in between waits in the subscription, so nothing falls through.
	if err := f.catchUp(ctx); err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-f.live:
			err = f.pushed(m)
		case t := <-f.tailed():
			err = f.fromTail(t)
		case changed := <-f.woken:
			f.silences = 0
			f.lookWithin(silenceMin)
			if changed {
				err = f.catchUp(ctx)
			}
		// NATS promises nothing: a lost last message would otherwise never be missed.
		case <-clock.After(f.due.Sub(clock.Now())):
			f.silences++
			f.looks++
			f.due = clock.Now().Add(min(silenceMin<<min(f.silences, 8), silenceMax))
			err = f.catchUp(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// lookWithin brings the next look forward; it never puts it off.
func (f *follower) lookWithin(d time.Duration) {
	if at := f.c.cfg.Clock.Now().Add(d); at.Before(f.due) {
		f.due = at
	}
}

// pushed takes a message of the subscription, as the test's faults leave it.
func (f *follower) pushed(m *nats.Msg) error {
	for _, m := range f.faults.pass(m) {
		if err := f.message(m); err != nil {
			return err
		}
	}
	return nil
}

// takePushed takes what the subscription has already.
func (f *follower) takePushed() error {
	for {
		select {
		case m := <-f.live:
			if err := f.pushed(m); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// message takes a decision from NATS.
func (f *follower) message(m *nats.Msg) error {
	o := f.decision(m.Header, m.Data)
	if o == nil {
		return nil // the true one comes another way
	}
	next := f.next
	if err := f.take(o, m.Header, WayNATS); err != nil {
		return err
	}
	if f.next > next && f.tail != nil && f.tail.whole && len(f.ahead) == 0 {
		f.stopTail() // NATS was first again
	}
	return nil
}

// take offers a decision of NATS and keeps when it was published, if it is applied.
func (f *follower) take(o *sequencer.Outcome, h nats.Header, way Way) error {
	applied, err := f.offer(o, way, intentTime(h))
	if applied {
		f.noteTime(h)
	}
	return err
}

// noteTime keeps when an applied decision was published: what comes after it is not much further back in Kafka. A
// replica that is far behind publishes what the other one went on from long ago, so the time of the intent counts
// where it is earlier. Where that is not said the former time stays.
func (f *follower) noteTime(h nats.Header) {
	at, err := strconv.ParseInt(h.Get(topology.HeaderAtMs), 10, 64)
	if intent := intentTime(h); err == nil && !intent.IsZero() {
		// The earlier of the two: started too late, the tail would have to be repeated from the oldest record.
		f.atMs = min(at, intent.UnixMilli())
	}
}

// intentTime is when a decision's intent was appended, as its message on NATS says.
func intentTime(h nats.Header) (at time.Time) {
	if ms, err := strconv.ParseInt(h.Get(topology.HeaderIntentMs), 10, 64); err == nil {
		at = time.UnixMilli(ms).UTC()
	}
	return at
}

// decision reads a message of NATS; nil: it is not one of this workspace and this log.
func (f *follower) decision(h nats.Header, data []byte) *sequencer.Outcome {
	if h.Get(topology.HeaderLog) != f.log {
		// Another log's decisions, from a former cluster or another one on this NATS, have the same subjects and seqs.
		return nil
	}
	o, err := topology.DecodeOutcome(data)
	if err != nil || o.Workspace != f.workspace {
		return nil
	}
	return o
}

// offer applies a decision if it is the next one, and then what waited for it.
func (f *follower) offer(o *sequencer.Outcome, way Way, at time.Time) (applied bool, err error) {
	switch {
	case o.Seq < f.next:
		// The other replica's copy, or one from another way: the first one counts.
		return false, nil
	case o.Seq > f.next:
		if len(f.ahead) < maxAhead {
			f.ahead[o.Seq] = early{o, way, at}
		}
		// Two connections may deliver out of order; only after the grace is it a gap.
		f.lookWithin(gapGrace)
		return false, nil
	}
	f.silences, f.looks, f.due = 0, 0, f.c.cfg.Clock.Now().Add(silenceMin)
	for {
		// The view refuses it, since its chain does not fit: to go on would build on a view that differs from the log.
		if err := f.apply(o, way, at); err != nil {
			return true, err
		}
		f.c.metrics.Decisions.WithLabelValues(way.String()).Inc()
		delete(f.ahead, f.next)
		f.at.Store(uint64(f.next))
		f.next++
		waiting, ok := f.ahead[f.next]
		if !ok {
			return true, nil
		}
		o, way, at = waiting.o, waiting.way, waiting.at
	}
}

// catchUp looks for decisions that NATS did not bring: in JetStream, and in Kafka when that has a hole, cannot be
// reached, or nothing came for a while.
func (f *follower) catchUp(ctx context.Context) error {
	if f.tail != nil {
		return nil // Kafka is being read already
	}
	err := f.fromStream(ctx)
	if err != nil && !errors.Is(err, errStream) {
		return err
	}
	// JetStream has nothing newer: the first quiet look is most often just quiet, so Kafka is not asked yet.
	if err == nil && len(f.ahead) == 0 && f.looks < 2 {
		return nil
	}
	// One cheap question before a consumer is started, since most workspaces are idle.
	if err == nil && len(f.ahead) == 0 && !f.kafkaHasMore(ctx) {
		return nil
	}
	f.startTail()
	return nil
}

// kafkaHasMore asks whether hence.decisions has grown since nothing was missing.
func (f *follower) kafkaHasMore(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, catchUpIn)
	defer cancel()
	end, err := EndOffset(ctx, f.c.log, topology.TopicDecisions, f.partition)
	return err == nil && end > f.seenEnd
}

// faultCounter damages every n-th message.
type faultCounter struct {
	Faults
	n    int
	held *nats.Msg
}

// pass returns the messages to deliver in the place of one.
func (c *faultCounter) pass(m *nats.Msg) []*nats.Msg {
	if c.DropEvery == 0 && c.SwapEvery == 0 {
		return []*nats.Msg{m}
	}
	c.n++
	if c.held != nil {
		first := c.held
		c.held = nil
		return []*nats.Msg{m, first}
	}
	if c.DropEvery > 0 && c.n%c.DropEvery == 0 {
		return nil
	}
	if c.SwapEvery > 0 && c.n%c.SwapEvery == 0 {
		c.held = m
		return nil
	}
	return []*nats.Msg{m}
}
