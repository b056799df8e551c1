package streams

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Two replicas of the processors compute the same decisions from the same log. Each says in hence.hashes which state
// it has come to, every so many seqs, and every process reads what both say. Where they differ, one of them computes
// wrongly and nobody here can know which: the processes of both publish nothing more of that workspace's partition.
//
// What a replica says later about the same seq counts. So the one that was wrong can be started anew, without its
// table and its offsets, with a binary that is right: it folds the log again, says what is right at that seq, and both
// go on.

// maxStates is how many (workspace, seq) are remembered to be compared.
const maxStates = 1 << 16

// statesIn is how long an owner waits at its start for what both have said so far: it is read while the table is.
const statesIn = 10 * time.Second

// comparison is what a process knows of both replicas' states.
type comparison struct {
	cfg     Config
	metrics *metrics
	log     string        // hashes of another log have nothing to do with ours
	known   chan struct{} // closed: what was said before this process began is read, or reading has ended

	mu     sync.Mutex
	states map[stateAt]*[2]*topology.StateHash // of replicas a and b
	order  []stateAt                           // the order in which they came; a ring once it is full
	oldest int
	differ map[string]*difference // by workspace: the first one that is not mended
	every  [2]saidEvery           // of replicas a and b
	uneven bool                   // they say their states at different seqs, which was told
}

// saidEvery is how many seqs a replica goes on between two states that it says.
type saidEvery struct {
	seqs uint32 // zero: it has not said
	atMs int64  // when it said so, by its own clock
}

type stateAt struct {
	workspace string
	seq       sequencer.Seq
}

// difference is an error that stops the owners of a workspace's partition.
type difference struct {
	at   stateAt
	a, b topology.StateHash
	mend string // what to do
}

// Error says what to do.
func (d *difference) Error() string {
	return fmt.Sprintf("replicas a and b differ in workspace %q at seq %d (a, %s: %x; b, %s: %x): nothing more of its "+
		"partition is published. %s", d.at.workspace, d.at.seq, d.a.Instance, d.a.Hash[:6], d.b.Instance, d.b.Hash[:6],
		d.mend)
}

// mendDifference has the commands that let one replica or the other compute the log anew.
func (c Config) mendDifference() string {
	return fmt.Sprintf("One of them is wrong: compare `hence version` of both. Stop all members of that group and let "+
		"it forget what it computed, if it is a: `%s`; if it is b: `%s`. Start it with the right binary: it computes "+
		"the log anew, and both go on once they agree, as `hence doctor --brokers %s` then says",
		c.forgetCommand(topology.ReplicaA), c.forgetCommand(topology.ReplicaB), strings.Join(c.Brokers, ","))
}

// forgetCommand deletes what the sequencers of a replica have computed. None of them may run.
func (c Config) forgetCommand(replica string) string {
	c.Replica = replica
	group := topology.GroupOf(topology.GroupSequencer, replica)
	return fmt.Sprintf("%s --delete --topic %s && %s --delete --group %s && %s", c.tool("kafka-topics"),
		topology.TableOf(group), c.tool("kafka-consumer-groups"), group, c.createCommand())
}

func newComparison(cfg Config, m *metrics, log string) *comparison {
	return &comparison{cfg: cfg, metrics: m, log: log, known: make(chan struct{}),
		states: make(map[stateAt]*[2]*topology.StateHash), differ: make(map[string]*difference)}
}

// watch reads hence.hashes from its start until ctx ends.
func (c *comparison) watch(ctx context.Context) {
	known := sync.OnceFunc(func() { close(c.known) })
	defer known()
	c.sayOwn()
	if c.cfg.Faults.BeforeStates != nil {
		c.cfg.Faults.BeforeStates()
	}
	opts := append(c.cfg.baseOptions(), kgo.ConsumeTopics(topology.TopicHashes), kgo.FetchMaxWait(fetchMaxWait),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		c.cfg.Logger.Error("the other replica's states cannot be read", "error", err)
		return
	}
	defer cl.Close()
	unread, err := c.unreadStates(ctx, cl)
	for ; err != nil && ctx.Err() == nil; unread, err = c.unreadStates(ctx, cl) {
		c.cfg.Logger.Debug("states of the replicas", "error", err)
		select {
		case <-ctx.Done():
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
		start, err := startOffset(ctx, cl, topology.TopicHashes, p)
		if err != nil {
			return nil, err
		}
		end, err := endOffset(ctx, cl, topology.TopicHashes, p)
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
	case <-c.cfg.Clock.After(statesIn):
		c.cfg.Logger.Warn("an owner begins before it knows whether the replicas differed: reading what they said takes long",
			"topic", topology.TopicHashes, "waited", statesIn)
	}
}

// take compares one state with what the other replica has said about it.
func (c *comparison) take(h *topology.StateHash) {
	of := 0
	switch h.Replica {
	case topology.ReplicaA:
	case topology.ReplicaB:
		of = 1
	default:
		return
	}
	if h.Log != c.log {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.Every != 0 && h.AtMs >= c.every[of].atMs {
		c.every[of] = saidEvery{h.Every, h.AtMs}
		c.judgeEvery()
	}
	at := stateAt{h.Workspace, h.Seq}
	both := c.remember(at)
	if d := c.differ[h.Workspace]; d != nil && d.at == at { // others may have taken its place since
		*both = [2]*topology.StateHash{&d.a, &d.b}
	}
	both[of] = h
	if both[0] == nil || both[1] == nil {
		return
	}
	c.metrics.compared.Inc()
	c.judge(both)
}

// partEvery is the name of a note in a health.
const partEvery = "hash_every"

// judgeEvery tells once that the replicas say their states at different seqs, and forgets it when they do not; mu is
// held. It is a note and stops nothing: both compute what they computed.
func (c *comparison) judgeEvery() {
	text := c.unevenText()
	switch {
	case text != "" && !c.uneven:
		c.cfg.Logger.Error(text)
		c.cfg.Health.note(partEvery, text)
	case text == "" && c.uneven:
		c.cfg.Health.unnote(partEvery)
	}
	c.uneven = text != ""
}

// sayOwn notes how often this process says its states: what its former self has said is past.
func (c *comparison) sayOwn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := 0
	if c.cfg.Replica == topology.ReplicaB {
		of = 1
	}
	c.every[of] = saidEvery{uint32(c.cfg.HashEvery), c.cfg.Clock.Now().UnixMilli()}
}

// unevenText says that the replicas say their states at different seqs; empty: they do not. mu is held.
func (c *comparison) unevenText() string {
	a, b := c.every[0].seqs, c.every[1].seqs
	if a == 0 || b == 0 || a == b {
		return ""
	}
	return fmt.Sprintf("replica a says its state every %d seqs and replica b every %d: only states at the same seq are "+
		"compared, so a difference is found late or never. Run both with the same setting (HashEvery), that is, with the "+
		"same release of hence streams", a, b)
}

// judge notes or forgets a difference; mu is held.
func (c *comparison) judge(both *[2]*topology.StateHash) {
	at := stateAt{both[0].Workspace, both[0].Seq}
	was := c.differ[at.workspace]
	switch same := both[0].Hash == both[1].Hash; {
	case !same && (was == nil || at.seq <= was.at.seq):
		d := &difference{at: at, a: *both[0], b: *both[1], mend: c.cfg.mendDifference()}
		c.differ[at.workspace] = d
		if was == nil {
			c.cfg.Logger.Error(d.Error())
		}
	case same && was != nil && was.at == at:
		delete(c.differ, at.workspace)
		c.cfg.Logger.Warn("the replicas agree again", "workspace", at.workspace, "seq", at.seq)
	default:
		return
	}
	for _, d := range c.differ {
		c.metrics.divergence.Set(1)
		c.cfg.Health.set(partReplicas, d)
		return
	}
	c.metrics.divergence.Set(0)
	c.cfg.Health.set(partReplicas, nil)
}

// remember finds the entry of a state or makes it, in the place of the oldest one when there are too many.
func (c *comparison) remember(at stateAt) *[2]*topology.StateHash {
	if both := c.states[at]; both != nil {
		return both
	}
	if len(c.order) < maxStates {
		c.order = append(c.order, at)
	} else {
		delete(c.states, c.order[c.oldest])
		c.order[c.oldest] = at
		c.oldest = (c.oldest + 1) % maxStates
	}
	both := new([2]*topology.StateHash)
	c.states[at] = both
	return both
}

// stops is the difference that a workspace's state at a seq comes after, or nil: what was computed before it, also by
// a replica that computes anew, is not in doubt.
func (c *comparison) stops(workspace string, seq sequencer.Seq) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.differ[workspace]; d != nil && seq >= d.at.seq {
		return d
	}
	return nil
}

// any says whether there is a difference at all: it is asked often, and there is none.
func (c *comparison) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.differ) > 0
}

// sayState publishes which state a workspace has come to, when a step has passed a multiple of HashEvery. A hash that
// is lost is no harm: the next one says as much. mu is held.
func (p *seqPartition) sayState(r *room, before sequencer.Seq, now time.Time) {
	fold, every := r.replica.Fold(), sequencer.Seq(p.cfg.HashEvery)
	if before/every == fold.Seq()/every {
		return
	}
	h := topology.StateHash{Workspace: r.name, Seq: fold.Seq(), Replica: p.replica(), Log: p.nats.log,
		Offset: r.replica.Offset(), Hash: fold.StateHash(), AtMs: now.UnixMilli(), Instance: p.cfg.Instance,
		Every: uint32(p.cfg.HashEvery)}
	value, err := topology.EncodeStateHash(&h)
	if err != nil { // no record of the log leads here: an instance may have an odd name
		p.cfg.Logger.Error("a state hash cannot be written: the replicas are not compared", "error", err)
		return
	}
	rec := &kgo.Record{Topic: topology.TopicHashes, Key: []byte(r.name), Value: value}
	p.out.send(rec, func(*kgo.Record, error) {})
}

// heed stops the partition when a state in it is in doubt, and has the processor built anew when that is over; mu is
// held.
func (p *seqPartition) heed() {
	_, stopped := p.stopped.(*difference)
	if !stopped && (p.stopped != nil || !p.states.any()) {
		return
	}
	for name, r := range p.rooms {
		if err := p.states.stops(name, r.replica.Fold().Seq()); err != nil {
			if !stopped {
				p.stop(err)
			}
			return
		}
	}
	if stopped {
		p.fail(fmt.Errorf("the replicas agree again on partition %d", p.partition))
	}
}
