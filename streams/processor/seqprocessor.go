package processor

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/lovoo/goka"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// seqProcessor turns hence.intents into decisions: one input topic, so that what it decides is a function of it.
type seqProcessor struct {
	*base
	nats   *natsOut
	states *comparison
	groups liveGroups

	parts map[int32]*seqPartition // guarded by base.mu
	more  chan struct{}           // a partition has more to seal than one seal takes
}

func newSeqProcessor(b *base, out *natsOut, states *comparison) *seqProcessor {
	b.name, b.group = "sequencer", topology.GroupOf(topology.GroupSequencer, b.cfg.Replica)
	b.table, b.position = topology.TableOf(b.group), statePosition
	return &seqProcessor{base: b, nats: out, states: states, groups: liveGroups{clock: b.cfg.Clock},
		parts: make(map[int32]*seqPartition), more: make(chan struct{}, 1)}
}

func (s *seqProcessor) common() *base { return s.base }

// graph names the topics. Decisions and states are not emitted through goka's context: both are also written outside
// of callbacks (an outbox at take-over, a state that is due while nothing comes), and one way for each is enough.
func (s *seqProcessor) graph() *goka.GroupGraph {
	return goka.DefineGroup(goka.Group(s.group),
		goka.Input(goka.Stream(topology.TopicIntents), rawCodec{}, s.intent),
		goka.Output(goka.Stream(topology.TopicDecisions), rawCodec{}),
		goka.Output(goka.Stream(topology.TopicParked), rawCodec{}),
		goka.Persist(rawCodec{}))
}

// intent is the callback. A stopped partition waits here, and with it only this partition. It holds the record for
// good: goka takes the end of the wait for the end of the work, and marks it.
func (s *seqProcessor) intent(ctx goka.Context, msg any) {
	r := recordOf(ctx)
	if p := s.part(ctx.Partition()); !p.take(r, bytesOf(msg)) {
		r.ledger.hold(r.entry)
		// To return would mark the record as done; nothing behind it may be folded before it, so the partition waits as a
		// whole.
		<-ctx.Context().Done()
	}
}

func (s *seqProcessor) part(partition int32) *seqPartition {
	// parts changes when goka gives and takes partitions, on another goroutine than the callbacks'.
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[partition]
}

// owned are the partitions in memory, in order.
func (s *seqProcessor) owned() []*seqPartition {
	// A copy: what is done with a partition takes its own lock, which must not be taken under this one.
	s.mu.Lock()
	defer s.mu.Unlock()
	owned := make([]*seqPartition, 0, len(s.parts))
	for _, id := range slices.Sorted(maps.Keys(s.parts)) {
		owned = append(owned, s.parts[id])
	}
	return owned
}

func (s *seqProcessor) gained(partition int32, store *tableStore) error {
	p := &seqPartition{seqProcessor: s, partition: partition, store: store,
		workspaces: make(map[string]*workspaceState), halted: make(map[string]*halted), acks: make(map[string]sequencer.Seq)}
	if s.cfg.SealKey != nil {
		p.seals = newPartitionSeals(s, partition)
	}
	// Recovered before it is entered: no question and no tick may meet a fold that lacks its stopped workspaces' records.
	if err := p.recover(); err != nil {
		return err
	}
	s.mu.Lock()
	current := s.stores[partition] == store
	if current {
		// Else goka has not waited for this recovery: its session is over, and a later one may have the partition.
		s.parts[partition] = p
	}
	s.mu.Unlock()
	if current {
		p.tell()
	}
	return nil
}

func (s *seqProcessor) merge(key string, value []byte, at int64, into *tableStore) {
	into.newer(key, value, at)
}

func (s *seqProcessor) dropped(graceful bool) {
	// First: a recovery that ends from here on enters nothing.
	s.forgetStores()
	for _, p := range s.owned() {
		if graceful {
			// Only in a graceful end: a lost session's rows could be written over its heir's.
			p.flush()
			p.seals.writeLast()
		}
		p.leave()
	}
	s.mu.Lock()
	clear(s.parts)
	s.mu.Unlock()
}

func (s *seqProcessor) keep(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.keepHouse(ctx) })
	if s.cfg.SealKey != nil {
		wg.Go(func() { s.keepSeals(ctx) })
	}
	s.answerFold(ctx)
}
