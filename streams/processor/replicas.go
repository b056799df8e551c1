package processor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/meters"
	"github.com/hence-dev/hence/streams/internal/states"
	"github.com/hence-dev/hence/topology"
)

// Two replicas of the processors compute the same decisions from the same log, and every process compares what both
// say of their states (package states). Where they differ, the processes of both publish nothing more of that
// workspace's partition. Once they agree again both go on.

// statesIn is how long an owner waits at its start for what both have said so far: it is read while the table is.
const statesIn = 10 * time.Second

// partEvery is the name of a note in a health.
const partEvery = "hash_every"

// comparison is what a process knows of both replicas' states.
type comparison struct {
	cfg     streams.Config
	metrics *meters.Meters
	known   chan struct{} // closed: what was said before this process began is read, or reading has ended

	mu     sync.Mutex // the watch takes states while owners ask
	said   *states.Comparison
	uneven bool // the replicas say their states at different seqs, which was told
}

func newComparison(cfg streams.Config, m *meters.Meters, log string) *comparison {
	c := &comparison{cfg: cfg, metrics: m, known: make(chan struct{}), said: states.New(cfg, log)}
	replica := topology.ReplicaA
	if cfg.Replica == topology.ReplicaB {
		replica = topology.ReplicaB
	}
	// What the former self of this process has said is past.
	c.said.Every(replica, uint32(cfg.HashEvery), cfg.Clock.Now().UnixMilli())
	return c
}

// watch reads hence.hashes from its start until ctx ends.
func (c *comparison) watch(ctx context.Context) {
	known := sync.OnceFunc(func() { close(c.known) })
	defer known()
	if c.cfg.Faults.BeforeStates != nil {
		c.cfg.Faults.BeforeStates()
	}
	opts := append(c.cfg.BaseOptions(), kgo.ConsumeTopics(topology.TopicHashes), kgo.FetchMaxWait(streams.FetchMaxWait),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		c.cfg.Logger.Error("failed to read the state hashes of the other replica", "error", err)
		return
	}
	defer cl.Close()
	unread, err := c.unreadStates(ctx, cl)
	for ; err != nil && ctx.Err() == nil; unread, err = c.unreadStates(ctx, cl) {
		c.cfg.Logger.Debug("states of the replicas", "error", err)
		select {
		case <-ctx.Done():
		// The ends of the partitions are needed to say when the past is read, and an owner waits for that.
		case <-c.cfg.Clock.After(healthIn):
		}
	}
	for ctx.Err() == nil {
		if len(unread) == 0 {
			known()
		}
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if ctx.Err() == nil {
				c.cfg.Logger.Debug("states of the replicas", "error", e.Err)
			}
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if h, err := topology.DecodeStateHash(r.Value); err == nil {
				c.take(h)
			}
			if last, ok := unread[r.Partition]; ok && r.Offset >= last {
				delete(unread, r.Partition)
			}
		}
	}
}

// unreadStates are the partitions of hence.hashes that hold something, with their last offsets.
func (c *comparison) unreadStates(ctx context.Context, cl *kgo.Client) (map[int32]int64, error) {
	unread := make(map[int32]int64)
	for p := range c.cfg.Partitions {
		start, err := streams.StartOffset(ctx, cl, topology.TopicHashes, p)
		if err != nil {
			return nil, err
		}
		end, err := streams.EndOffset(ctx, cl, topology.TopicHashes, p)
		if err != nil {
			return nil, err
		}
		if start < end {
			unread[p] = end - 1
		}
	}
	return unread, nil
}

// await returns when a difference that was there before this process is known: else its owners would publish until
// they read of it.
func (c *comparison) await() {
	select {
	case <-c.known:
	// Bounded: the comparison is a second look, and must not keep a workspace from being decided.
	case <-c.cfg.Clock.After(statesIn):
		c.cfg.Logger.Warn("the partition starts before the state hashes are read: an earlier difference is found later",
			"topic", topology.TopicHashes, "waited", statesIn)
	}
}

// take compares one state with what the other replica has said about it, and tells what that changes.
func (c *comparison) take(h *topology.StateHash) {
	// Owners ask stops before each record, from their own goroutines.
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.said.Take(h)
	c.judgeEvery()
	if j.Compared {
		c.metrics.Compared.Inc()
	}
	switch {
	case j.Found != nil && j.First:
		c.cfg.Logger.Error(j.Found.Error())
	case j.Ended != nil:
		c.cfg.Logger.Warn("the replicas agree again", "workspace", j.Ended.Workspace, "seq", j.Ended.Seq)
	case j.Found == nil:
		return // nothing has changed
	}
	for _, d := range c.said.Differences() {
		c.metrics.Divergence.Set(1)
		c.cfg.Health.Set(streams.PartReplicas, d)
		return
	}
	c.metrics.Divergence.Set(0)
	c.cfg.Health.Set(streams.PartReplicas, nil)
}

// judgeEvery tells once that the replicas say their states at different seqs, and forgets it when they do not; mu is
// held. It is a note and stops nothing: both compute what they computed.
func (c *comparison) judgeEvery() {
	text := c.said.Uneven()
	switch {
	case text != "" && !c.uneven:
		c.cfg.Logger.Error(text)
		c.cfg.Health.Note(partEvery, text)
	case text == "" && c.uneven:
		c.cfg.Health.Unnote(partEvery)
	}
	c.uneven = text != ""
}

// stops is the difference that a workspace's state at a seq comes after, or nil: what was computed before it, also by
// a replica that recomputes, is not in doubt.
func (c *comparison) stops(workspace string, seq sequencer.Seq) error {
	// See take.
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.said.Differences()[workspace]; d != nil && seq >= d.Seq {
		return d
	}
	return nil
}

// any says whether there is a difference at all: it is asked often, and there is none.
func (c *comparison) any() bool {
	// See take.
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.said.Differences()) > 0
}

// sayState publishes which state a workspace has come to, when a step has passed a multiple of HashEvery. A hash that
// is lost is no harm: the next one says as much. mu is held.
func (p *seqPartition) sayState(r *workspaceState, before sequencer.Seq, now time.Time) {
	fold, every := r.replica.Fold(), sequencer.Seq(p.cfg.HashEvery)
	if before/every == fold.Seq()/every {
		return
	}
	h := topology.StateHash{Workspace: r.name, Seq: fold.Seq(), Replica: p.replica(), Log: p.nats.log,
		Offset: r.replica.Offset(), Hash: fold.StateHash(), AtMs: now.UnixMilli(), Instance: p.cfg.Instance,
		Every: uint32(p.cfg.HashEvery)}
	value, err := topology.EncodeStateHash(&h)
	if err != nil { // no record of the log leads here: an instance may have an odd name
		p.cfg.Logger.Error("failed to write a state hash: the replicas are not compared at this seq", "error", err)
		return
	}
	rec := &kgo.Record{Topic: topology.TopicHashes, Key: []byte(r.name), Value: value}
	p.out.send(rec, func(*kgo.Record, error) {})
}

// checkReplicas stops the partition while the replicas differ in a state of it, and has the processor rebuilt
// afterwards; mu is held.
func (p *seqPartition) checkReplicas() {
	_, stopped := p.stopped.(*states.Difference)
	if !stopped && (p.stopped != nil || !p.states.any()) {
		return
	}
	for name, r := range p.workspaces {
		if err := p.states.stops(name, r.replica.Fold().Seq()); err != nil {
			if !stopped {
				// Fail closed: which replica is right cannot be known here, and each wrong decision that goes out is believed by
				// views.
				p.stop(err)
			}
			return
		}
	}
	if stopped {
		// What was held since is folded again from the last written state, which is the simplest way back that is surely
		// right.
		p.fail(fmt.Errorf("the replicas agree again on partition %d", p.partition))
	}
}
