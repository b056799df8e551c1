package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// errStream says that JetStream cannot help: it is away, or has not got what is missing.
var errStream = errors.New("the decision stream does not have the decision")

// fromStream applies what JetStream has from the next seq on.
func (f *follower) fromStream(ctx context.Context) error {
	if f.c.nats == nil || !f.c.connected.Load() {
		// Away, so Kafka is read at once and not after a time-out.
		return errStream
	}
	tryCtx, cancel := context.WithTimeout(ctx, catchUpIn)
	defer cancel()
	stream, err := f.c.js.Stream(tryCtx, topology.DecisionStream)
	if err != nil {
		return f.streamFailed(ctx, err)
	}
	subject := topology.DecisionSubject(f.workspace)
	last, err := stream.GetLastMsgForSubject(tryCtx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		// No message: fine unless something is known to be missing.
		return f.unless(len(f.ahead) == 0)
	}
	if err != nil {
		return f.streamFailed(ctx, err)
	}
	o := f.decision(last.Header, last.Data)
	if o == nil {
		return errStream
	}
	// What was pushed before this answer lies in the subscription by now: it came by the same connection.
	if err := f.takePushed(); err != nil {
		return err
	}
	if o.Seq < f.next {
		if f.atMs == 0 {
			f.noteTime(last.Header)
		}
		return f.unless(len(f.ahead) == 0)
	}
	if o.Seq == f.next {
		return f.take(o, last.Header, WayJetStream)
	}
	first, err := findFirst(tryCtx, stream, subject, f.next, last.Sequence)
	if err != nil {
		return f.streamFailed(ctx, err)
	}
	if err := f.readStream(ctx, tryCtx, stream, subject, first); err != nil {
		return err
	}
	return f.unless(f.next > o.Seq && len(f.ahead) == 0)
}

func (f *follower) unless(whole bool) error {
	if whole {
		return nil
	}
	return errStream
}

// streamFailed keeps the end of the caller's ctx apart from trouble with JetStream.
func (f *follower) streamFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.c.cfg.Logger.Debug("JetStream", "workspace", f.workspace, "error", err)
	return errStream
}

// findFirst finds by bisection the first message of a subject whose decision is not before a seq. Decisions of a
// workspace lie in the stream in the order of their seqs, but for second copies that came after the duplicate window:
// a wrong find shows as a gap, which Kafka fills.
func findFirst(ctx context.Context, s jetstream.Stream, subject string, seq sequencer.Seq, last uint64,
) (uint64, error) {
	lo, hi := uint64(1), last
	for lo < hi {
		mid := lo + (hi-lo)/2
		m, err := s.GetMsg(ctx, mid, jetstream.WithGetMsgSubject(subject))
		if err != nil {
			// The stream was cut or replaced meanwhile; Kafka has it.
			return 0, fmt.Errorf("find decision %d: %w", seq, err)
		}
		o, err := topology.DecodeOutcome(m.Data)
		if err != nil {
			return 0, fmt.Errorf("find decision %d: %w", seq, err)
		}
		if o.Seq >= seq {
			hi = mid
		} else {
			lo = m.Sequence + 1
		}
	}
	return lo, nil
}

// readStream offers every message of the subject from a stream sequence on.
func (f *follower) readStream(ctx, tryCtx context.Context, s jetstream.Stream, subject string, from uint64) error {
	consumer, err := s.CreateConsumer(tryCtx, jetstream.ConsumerConfig{
		FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(from, 1),
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: 2 * catchUpIn,
	})
	if err != nil {
		return f.streamFailed(ctx, err)
	}
	defer func() {
		_ = s.DeleteConsumer(context.WithoutCancel(tryCtx), consumer.CachedInfo().Name) // else it ages away by itself
	}()
	for {
		batch, err := consumer.FetchNoWait(fetchBatch)
		if err != nil {
			return f.streamFailed(ctx, err)
		}
		n := 0
		for m := range batch.Messages() {
			n++
			o := f.decision(m.Headers(), m.Data())
			if o == nil {
				// Not of this log: it is passed over as on the subject.
				continue
			}
			if err := f.take(o, m.Headers(), WayJetStream); err != nil {
				return err
			}
		}
		if n == 0 || batch.Error() != nil {
			return nil
		}
	}
}

// kafkaTail reads hence.decisions beside the follower's loop.
type kafkaTail struct {
	found  chan tailed
	cancel context.CancelFunc
	done   sync.WaitGroup
	start  startAt
	back   int64 // where the follower was when it began; -1: not known
	whole  bool  // it has been at the end once
	proven bool  // it began early enough: it saw a decision that is applied
	useful bool  // it brought something

	// gap is the last decision it saw behind one that is missing, although it is proven: what proved it was a second,
	// late copy, or hence.decisions has a hole. It is filled when the next decision is a later one.
	gap       sequencer.Seq
	holeNext  sequencer.Seq // the missing one when the hole was looked at last, at the end
	holeUntil time.Time     // how long that may still come
}

// holeIn is how long a hole in hence.decisions is waited for: a replica that lags may bring what is missing.
const holeIn = 30 * time.Second

type startAt uint8

const (
	fromOffset startAt = iota // where we were
	fromTime                  // a little before the last decision that we have, not before where we were
	fromSeq                   // where bisection finds the next one: the log may be long, and it was followed nowhere yet
	fromOldest
)

// tailed is one thing that the tail found.
type tailed struct {
	o      *sequencer.Outcome // nil: the end was reached, or err is set
	at     time.Time          // of the record that it answers
	offset int64
	err    error
}

func (f *follower) tailed() <-chan tailed {
	if f.tail == nil {
		return nil
	}
	return f.tail.found
}

// startTail begins where the next decision can first be: kafkaMargin before the publisher's time on the last message,
// or before the time of its intent if that is earlier (a replica that lags publishes long after the other one), but
// not before where it was. Too late a start shows as a gap: it is repeated from where it was, then from where its seq
// is found, then from the oldest.
func (f *follower) startTail() {
	start := fromOldest
	switch {
	case f.oldest:
		f.oldest = false
	case f.atMs > 0: // not before the offset, which may be hours old: NATS brought what came since
		start = fromTime
	case f.offset >= 0:
		start = fromOffset
	case f.next > 1:
		start = fromSeq
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &kafkaTail{found: make(chan tailed, fetchBatch), cancel: cancel, start: start, back: f.offset}
	f.tail = t
	r := decisionReader{c: f.c, workspace: f.workspace, partition: f.partition, aim: f.next - min(f.before, f.next-1),
		out: t.found}
	from, ms := f.offset, max(0, f.atMs-kafkaMargin.Milliseconds()) // below zero it would be no time
	t.done.Go(func() { r.run(ctx, start, from, ms) })
}

// stopTail ends the tail and waits for it.
func (f *follower) stopTail() {
	if f.tail == nil {
		return
	}
	f.tail.cancel()
	// It must not send into a follower that has begun another one.
	f.tail.done.Wait()
	f.tail = nil
}

// fromTail takes what the tail found.
func (f *follower) fromTail(t tailed) error {
	if t.err != nil {
		f.c.cfg.Logger.Debug("hence.decisions cannot be read", "error", t.err)
		f.stopTail() // the next silence starts it again
		f.looks = max(f.looks, 1)
		return nil
	}
	if t.o == nil {
		return f.atEnd(t.offset)
	}
	if t.o.Seq > f.next && !f.tail.proven {
		// Something later came first and nothing shows that it began early enough: what is missing may lie before its start.
		return f.tailTooLate(t.o.Seq)
	}
	f.tail.proven = true
	if t.o.Seq > f.next {
		f.tail.gap = max(f.tail.gap, t.o.Seq)
	}
	applied, err := f.offer(t.o, WayKafka, t.at)
	f.tail.useful = f.tail.useful || applied
	if f.tail.gap < f.next {
		// Never past a gap: a tail that starts again there would not meet what is missing.
		f.offset = t.offset + 1
	}
	return err
}

// tailTooLate starts the tail again further back: decisions are in order, so the next one lies before what was found.
func (f *follower) tailTooLate(found sequencer.Seq) error {
	was := f.tail
	f.stopTail()
	f.offset, f.atMs = -1, 0
	switch was.start {
	case fromOldest:
		// There is nothing before: the decision is deleted, and only a snapshot leads past it.
		return fmt.Errorf("%w: decision %d is wanted, and hence.decisions begins with %d", ErrGone, f.next, found)
	case fromTime:
		f.offset = was.back
	case fromSeq: // late copies led astray, of as many decisions as a replica may be behind
		f.oldest = f.oldest || f.before >= f.next
		f.before = max(seekBefore, 8*f.before)
	case fromOffset:
	}
	f.startTail()
	return nil
}

// atEnd notes that everything up to an offset is applied. The tail goes on while NATS is away or was slower than it.
func (f *follower) atEnd(end int64) error {
	again := f.tail.whole && end <= f.seenEnd
	f.tail.whole = true
	if f.tail.gap >= f.next {
		// Behind the end there is nothing more to wait for but a replica that lags.
		return f.hole()
	}
	if again {
		return nil
	}
	f.offset, f.seenEnd = max(f.offset, end), max(f.seenEnd, end)
	if len(f.ahead) > 0 {
		return nil // what is missing is not in Kafka yet
	}
	if f.c.connected.Load() && !f.tail.useful {
		f.stopTail()
	}
	return nil
}

// hole deals with decisions that Kafka lacks between others: they are looked for from the oldest record on, waited
// for and asked of JetStream before they are gone.
func (f *follower) hole() error {
	t, now := f.tail, f.c.cfg.Clock.Now()
	if t.start != fromOldest {
		// What proved the start may have been a second, late copy: only from the oldest record on is the hole certain.
		f.oldest = true
		return f.tailTooLate(f.next)
	}
	if t.holeNext != f.next {
		t.holeNext, t.holeUntil = f.next, now.Add(holeIn)
	}
	if now.Before(t.holeUntil) {
		// A replica that lags may still bring it: to end the follower now would restart every sidecar of the workspace.
		return nil
	}
	gap := t.gap
	if err := f.fromStream(context.Background()); err != nil && !errors.Is(err, errStream) {
		return err
	}
	if f.next > t.holeNext {
		return nil
	}
	f.c.cfg.Logger.Error("hence.decisions has a hole", "workspace", f.workspace, "partition", f.partition,
		"missing", f.next, "found", gap)
	return fmt.Errorf("%w: decision %d did not come for %v; hence.decisions has %d behind it, and NATS does not have it "+
		"either", ErrGone, f.next, holeIn, gap)
}

// decisionReader sends a workspace's decisions from hence.decisions, and a mark whenever it stands at the end, where
// it sends it again and again: what is missing may only be waited for so long.
type decisionReader struct {
	c         *Client
	workspace string
	partition int32
	aim       sequencer.Seq // of which seek looks for the place
	out       chan<- tailed
}

func (r decisionReader) run(ctx context.Context, start startAt, offset, ms int64) {
	if err := r.read(ctx, start, offset, ms); err != nil {
		r.send(ctx, tailed{err: err})
	}
}

func (r decisionReader) send(ctx context.Context, t tailed) bool {
	select {
	case r.out <- t:
		return true
	case <-ctx.Done():
		// The follower waits for this reader's end, and must not be waited for in turn.
		return false
	}
}

func (r decisionReader) read(ctx context.Context, start startAt, offset, ms int64) error {
	at, err := r.begin(ctx, start, offset, ms)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(r.c.cfg.consumerOptions(topology.TopicDecisions, r.partition, kgo.NewOffset().At(at))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		end, err := EndOffset(ctx, cl, topology.TopicDecisions, r.partition)
		if err != nil {
			return err
		}
		if at >= end {
			r.send(ctx, tailed{offset: end})
		}
		pollCtx, cancel := context.WithTimeout(ctx, 2*FetchMaxWait)
		fetches := cl.PollFetches(pollCtx)
		cancel()
		if err := fetches.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !kerr.IsRetriable(err) {
			return err
		}
		for it := fetches.RecordIter(); !it.Done(); {
			rec := it.Next()
			at = rec.Offset + 1
			if string(rec.Key) != r.workspace {
				// Another workspace of the partition.
				continue
			}
			e, err := topology.ReadCloudEvent(rec.Value)
			if err != nil || e.Outcome.Workspace != r.workspace {
				continue // parked by the processors
			}
			if !r.send(ctx, tailed{o: e.Outcome, at: e.At, offset: rec.Offset}) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// begin finds the offset to start from.
func (r decisionReader) begin(ctx context.Context, start startAt, offset, ms int64) (int64, error) {
	switch start {
	case fromOffset:
		return offset, nil
	case fromSeq:
		return r.seek(ctx)
	case fromOldest:
		return StartOffset(ctx, r.c.log, topology.TopicDecisions, r.partition)
	case fromTime:
	}
	at, err := offsetAfter(ctx, ms, r.c.log, topology.TopicDecisions, r.partition)
	return max(at, offset), err
}

// seekWithin is how many records may lie before the one that is looked for: to read them costs less than a further
// step.
const seekWithin = 512

// seekBefore is how long before the decision that is looked for seek aims, once late copies have led it astray.
const seekBefore = 1024

// seek finds by bisection where a decision of the workspace can first be. They lie in the order of their seqs, but for
// second, late copies: those of a replica that was away lie among later ones. A place that is too late shows as a gap.
func (r decisionReader) seek(ctx context.Context) (int64, error) {
	lo, err := StartOffset(ctx, r.c.log, topology.TopicDecisions, r.partition)
	if err != nil {
		return 0, err
	}
	hi, err := EndOffset(ctx, r.c.log, topology.TopicDecisions, r.partition)
	if err != nil {
		return 0, err
	}
	for hi-lo > seekWithin {
		mid := lo + (hi-lo)/2
		seq, at, err := r.firstFrom(ctx, mid, hi)
		switch {
		case err != nil:
			return 0, err
		case seq == 0 || seq >= r.aim: // none of the workspace, or a later one
			hi = mid
		default:
			lo = at + 1
		}
	}
	return lo, nil
}

// firstFrom is the first decision of the workspace between two offsets; zero: there is none.
func (r decisionReader) firstFrom(ctx context.Context, from, to int64) (seq sequencer.Seq, at int64, err error) {
	err = r.c.cfg.ReadRange(ctx, topology.TopicDecisions, r.partition, from, to, func(rec *kgo.Record) error {
		if string(rec.Key) != r.workspace {
			return nil
		}
		e, err := topology.ReadCloudEvent(rec.Value)
		if err != nil || e.Outcome.Workspace != r.workspace {
			return nil // parked by the processors
		}
		seq, at = e.Outcome.Seq, rec.Offset
		return ErrStop
	})
	return seq, at, err
}
