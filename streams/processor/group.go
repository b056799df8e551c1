package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/lovoo/goka"
)

// group is the consumer group that a goka processor is given: sarama's own, with offsets that pass through a ledger
// and with sessions that follow each other without goka's pause of five seconds between two calls of Consume.
type group struct {
	sarama.ConsumerGroup
	work  *processorWork
	pause func() <-chan time.Time
}

// processorWork is what one goka processor and the consumer group under it share.
type processorWork struct {
	session  atomic.Pointer[session]
	released func(graceful bool) // called when a session's partitions have stopped, before its last commit
	ready    func(error)         // told nil when a session's partitions are recovered, and what else keeps them

	mu     sync.Mutex
	claims map[place]sarama.ConsumerGroupClaim
}

// session is one generation's claim on its partitions.
type session struct {
	sarama.ConsumerGroupSession
	ledger *ledger

	mu      sync.Mutex
	markers map[place]string // what stands beside the committed offsets; see marker.go
}

// MarkOffset is goka's mark that a record's own emits are acknowledged.
func (s *session) MarkOffset(topic string, partition int32, next int64, _ string) {
	s.ledger.done(topic, partition, next-1)
}

// MarkMessage does what MarkOffset does.
func (s *session) MarkMessage(m *sarama.ConsumerMessage, metadata string) {
	s.MarkOffset(m.Topic, m.Partition, m.Offset+1, metadata)
}

// Consume runs session after session until one fails or ctx ends.
func (g *group) Consume(ctx context.Context, topics []string, h sarama.ConsumerGroupHandler) error {
	for {
		err := g.ConsumerGroup.Consume(ctx, topics, &handler{inner: h, work: g.work})
		if err != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			// Consume returns its end at the top of the loop.
		case <-g.pause(): // so that sessions that end at once do not spin
		}
	}
}

// handler puts our session in the place of sarama's.
type handler struct {
	inner sarama.ConsumerGroupHandler
	work  *processorWork
}

// Setup begins a session.
func (h *handler) Setup(s sarama.ConsumerGroupSession) error {
	ours := &session{ConsumerGroupSession: s, markers: make(map[place]string)}
	ours.ledger = newLedger(func(topic string, partition int32, next int64) {
		s.MarkOffset(topic, partition, next, ours.marker(place{topic, partition}))
	})
	h.work.session.Store(ours)
	h.work.ready(errRecovers)
	// Not ready before: a probe that said so early would send questions to folds that are still being read.
	err := h.inner.Setup(ours) // returns when all is recovered
	h.work.ready(err)
	return err
}

// Cleanup ends a session: the partitions stop, then what they hold back is written, then sarama commits. A session
// that was lost, or may have been, may have a successor already, and writes nothing more.
func (h *handler) Cleanup(s sarama.ConsumerGroupSession) error {
	h.work.ready(errRecovers)
	err := h.inner.Cleanup(h.work.session.Load())
	// After goka's callbacks have ended: a state that is written while one of them steps would be let go half.
	h.work.released(stillOurs(context.Cause(s.Context())))
	return err
}

// stillOurs reports whether a session that ended for a cause had its partitions to the end.
func stillOurs(cause error) bool {
	return errors.Is(cause, context.Canceled) || errors.Is(cause, sarama.ErrRebalanceInProgress) ||
		errors.Is(cause, sarama.ErrSessionPartitionCountChanged) || errors.Is(cause, sarama.ErrSessionConsumeClaimExited)
}

// ConsumeClaim hands goka one partition of one topic.
func (h *handler) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	at := place{claim.Topic(), claim.Partition()}
	// Partitions are claimed in parallel, and the lag is counted meanwhile.
	h.work.mu.Lock()
	h.work.claims[at] = claim
	h.work.mu.Unlock()
	defer func() {
		h.work.mu.Lock()
		delete(h.work.claims, at)
		h.work.mu.Unlock()
	}()
	return h.inner.ConsumeClaim(h.work.session.Load(), claim)
}

// lags are the records of each claimed partition that were not begun yet.
func (w *processorWork) lags() map[place]int64 {
	s := w.session.Load()
	if s == nil {
		return nil
	}
	// See ConsumeClaim.
	w.mu.Lock()
	defer w.mu.Unlock()
	lags := make(map[place]int64, len(w.claims))
	for at, claim := range w.claims {
		lags[at] = max(0, claim.HighWaterMarkOffset()-max(s.ledger.next(at), claim.InitialOffset()))
	}
	return lags
}

// gokaContext lets the interface be embedded although it has a method of its own name.
type gokaContext = goka.Context

// tracked is the context of one record with its place in the ledger.
type tracked struct {
	gokaContext
	ledger *ledger
	entry  *entry
}

// track enters every record into the ledger before its callback runs.
func (w *processorWork) track(ctx goka.Context) goka.Context {
	s := w.session.Load()
	return &tracked{gokaContext: ctx, ledger: s.ledger,
		entry: s.ledger.begin(string(ctx.Topic()), ctx.Partition(), ctx.Offset())}
}

// recordOf is the tracked context behind a callback's.
func recordOf(ctx goka.Context) *tracked {
	t, ok := ctx.(*tracked)
	if !ok {
		// Without an entry its offset would be committed at once, whatever is still to be written of it.
		panic(fmt.Sprintf("streams: a callback of %s without its ledger entry", ctx.Topic()))
	}
	return t
}

// errRecovers is a processor's health until it has recovered what it was given.
var errRecovers = errors.New("it joins its group and recovers its partitions")
