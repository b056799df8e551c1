package outages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// Sizes and bounds of the cluster test.
const (
	clusterCopies = 3
	clusterDown   = 2 * time.Second // that a killed part stays away; longer than it takes to elect another leader
	clusterWhole  = 2 * time.Minute // until every partition has all of its replicas in sync again
	barePause     = 5 * time.Millisecond
)

// bare is a producer with acks of all in-sync replicas and nothing else: its longest wait is what the brokers
// themselves cost.
type bare struct {
	mu   sync.Mutex
	all  []time.Duration
	errs []error
}

// produceBare appends one record after the other to the partition of a workspace until the returned function is
// called. What it appends are ticks of a workspace that has nothing pending: they mean nothing.
func produceBare(t *testing.T, l *gapLab) (b *bare, end func()) {
	t.Helper()
	parts := int32(len(harness.Ends(t, l.Brokers, topology.TopicIntents)))
	name := ""
	for i := 0; name == ""; i++ {
		if w := fmt.Sprint("bare-", i); topology.PartitionOf(w, parts) == topology.PartitionOf(l.Workspace, parts) {
			name = w
		}
	}
	tick := sequencer.TickMark{N: 1 << 40, Weight: 1}
	value, err := topology.EncodeIntent(&sequencer.Intent{Kind: sequencer.IntentTick, Tick: &tick})
	if err != nil {
		t.Fatal(err)
	}
	cl := harness.RawClient(t, l.Brokers, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(
		kgo.ManualPartitioner()), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	ctx, cancel := context.WithCancel(t.Context())
	b = &bare{}
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			start := time.Now()
			r := &kgo.Record{Topic: topology.TopicIntents, Partition: topology.PartitionOf(name, parts), Key: []byte(name),
				Value: value}
			err := cl.ProduceSync(context.WithoutCancel(ctx), r).FirstErr()
			b.mu.Lock()
			if b.all = append(b.all, time.Since(start)); err != nil {
				b.errs = append(b.errs, err)
			}
			b.mu.Unlock()
			_ = pause.Sleep(ctx, barePause) // its end is the loop's
		}
	})
	return b, func() {
		cancel()
		working.Wait()
	}
}

// take returns the waits since the last take.
func (b *bare) take() waited {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := waited(b.all)
	b.all = nil
	slices.Sort(s)
	return s
}

// victim is a part of the cluster that is killed and brought back.
type victim struct {
	kind, name string
	kill, up   func() error
}

// cluster is three brokers, three NATS servers and two groups of two processors, under load.
type cluster struct {
	*gapLab
	fleet   *harness.Fleet
	members []*harness.Member
	victims map[string][]victim // by kind
}

func openCluster(t *testing.T) *cluster {
	t.Helper()
	harness.NeedContainers(t)
	fleet := harness.OpenFleet(t, clusterCopies, clusterCopies)
	t.Logf("servers: %s, kafka %v, nats %s", fleet.Kind, fleet.Brokers, fleet.Servers.NATS)
	c := &cluster{fleet: fleet, gapLab: &gapLab{t: t, Deployment: harness.Over(t, fleet.Servers), waits: newWaits()},
		victims: map[string][]victim{}}
	c.Config.Replication = clusterCopies
	for _, replica := range []string{"a", "b"} {
		cfg := c.Config
		cfg.Replica = replica
		ctx, cancel := context.WithTimeout(t.Context(), clusterWhole)
		err := streams.EnsureTopics(ctx, cfg)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			m := c.StartMember(t, harness.Binary(t), replica, fmt.Sprint("streams-", replica, i+1), "--replication", "3",
				"--nats-replicas", "3")
			c.members = append(c.members, m)
			c.victims["processor"] = append(c.victims["processor"], victim{"processor", fmt.Sprint(replica, i+1), m.Kill,
				func() error { m.Restart(t); return nil }})
		}
	}
	for _, b := range c.leaderFirst(fleet.Kafka) {
		c.victims["broker"] = append(c.victims["broker"], boxVictim("broker", b))
	}
	for _, b := range fleet.NATS {
		c.victims["NATS"] = append(c.victims["NATS"], boxVictim("NATS", b))
	}
	c.sidecars = c.Sidecars(t, gapAgents)
	return c
}

func boxVictim(kind string, b *harness.Box) victim {
	return victim{kind, b.Alias, b.Kill, func() error { return errors.Join(b.Start(), b.Serving()) }}
}

// partition is where the workspace's intents are, as the brokers see it.
func (c *cluster) partition(ctx context.Context) (kadm.PartitionDetail, error) {
	var p kadm.PartitionDetail
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...))
	if err != nil {
		return p, err
	}
	defer cl.Close()
	topics, err := kadm.NewClient(cl).ListTopics(ctx, topology.TopicIntents)
	if err != nil {
		return p, err
	}
	all := topics[topology.TopicIntents].Partitions
	p = all[topology.PartitionOf(c.Workspace, int32(len(all)))]
	return p, p.Err
}

// leaderFirst puts the broker first that leads the workspace's partition.
func (c *cluster) leaderFirst(boxes []*harness.Box) []*harness.Box {
	c.t.Helper()
	p, err := c.partition(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	i := int(p.Leader) - 1
	return append([]*harness.Box{boxes[i]}, slices.Delete(slices.Clone(boxes), i, i+1)...)
}

// whole waits until no partition lacks a replica: another broker may be killed then.
func (c *cluster) whole() {
	c.t.Helper()
	cl := harness.RawClient(c.t, c.Brokers)
	defer cl.Close()
	harness.Eventually(c.t, clusterWhole, func() error {
		ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
		defer cancel()
		topics, err := kadm.NewClient(cl).ListTopicsWithInternal(ctx)
		if err != nil {
			return err
		}
		for _, topic := range topics {
			for _, p := range topic.Partitions {
				if len(p.ISR) < clusterCopies {
					return fmt.Errorf("%s/%d has %d replicas in sync", topic.Topic, p.Partition, len(p.ISR))
				}
			}
		}
		return nil
	})
}

// TestCluster kills each broker, each NATS server and each processor in turn under load. Nothing that anybody was told
// is lost; the longest wait of a decision is printed beside the longest one of a bare producer to the same partition.
func TestCluster(t *testing.T) {
	most := harness.Number(t, "HENCE_IT_CLUSTER_KILLS", 1) // of each kind; 4 are all
	c := openCluster(t)
	harness.SomePublishing(t, c.members[:2])
	harness.SomePublishing(t, c.members[2:])
	producer, end := produceBare(t, c.gapLab)
	defer end()
	c.under(func(ctx context.Context) error {
		c.waits.take()
		return c.waits.more(ctx, 2*gapLead)
	})
	t.Logf("calm: %s; bare producer: %s", c.waits.take(), producer.take())
	var longest, gap time.Duration
	killed := 0
	for _, kind := range []string{"broker", "NATS", "processor"} {
		for _, v := range c.victims[kind][:min(most, len(c.victims[kind]))] {
			c.whole()
			c.under(func(ctx context.Context) error {
				producer.take()
				c.waits.take()
				if err := v.kill(); err != nil {
					return fmt.Errorf("kill %s %s: %w", v.kind, v.name, err)
				}
				if err := errors.Join(pause.Sleep(ctx, clusterDown), c.waits.more(ctx, gapLead)); err != nil {
					return fmt.Errorf("without %s %s: %w", v.kind, v.name, err)
				}
				if err := v.up(); err != nil {
					return fmt.Errorf("bring %s %s back: %w", v.kind, v.name, err)
				}
				return c.waits.more(ctx, gapLead)
			})
			found, alone := c.waits.take(), producer.take()
			t.Logf("%s %s killed: %s; bare producer: %s", v.kind, v.name, found, alone)
			longest, gap = max(longest, found.longest()), max(gap, alone.longest())
			killed++
		}
	}
	end()
	t.Logf("%d kills: the longest wait of a decision is %v, the longest of a bare producer to the same partition %v",
		killed, longest.Round(time.Millisecond), gap.Round(time.Millisecond))
	if err := errors.Join(producer.errs...); err != nil {
		t.Errorf("the bare producer: %v", err)
	}
	attempts := c.waits.attempts
	outcomes := harness.DecisionsOf(t, c.Servers, c.Workspace, attempts)
	harness.Holds(t, attempts, outcomes)
	t.Logf("%d commits were acknowledged, none is lost; the log has %d decisions", len(attempts), len(outcomes))
}
