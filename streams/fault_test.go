package streams_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// A partition of hence.decisions that refuses writes must hold back the offsets of what it refused, whatever the
// records behind them do, and nothing of it may be lost when the processor is built again.
func TestRefusedOutputHoldsOffsetsBack(t *testing.T) {
	w := newWorld(t, func(c *streams.Config) { c.StateEvery = 1 })
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	p := topology.PartitionOf("shop", w.cfg.Partitions)
	w.until("offset committed", func() bool { return w.committed(p) == 1 })

	fault := w.servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topology.TopicDecisions,
		Partitions: []int32{p}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	for i := range 20 {
		a.write(fmt.Sprint("orders/", i), "x")
	}
	w.until("restarts", func() bool {
		return w.count("hence_processor_restarts_total", "processor", "sequencer") >= 2
	})
	if at := w.committed(p); at != 1 {
		t.Fatalf("offset %d is committed although nothing after 1 was published", at)
	}
	fault.Remove()
	w.decided(v, "ann-20")
	w.complete(v, "shop")
	w.until("offsets follow", func() bool { return w.committed(p) >= 21 })
}

// One refused write among many that are taken: what is acknowledged behind it must neither commit its offset nor push
// its decision out of the outbox.
func TestOneRefusedWriteAmongMany(t *testing.T) {
	for _, topic := range []string{topology.TopicDecisions, topology.TopicScopes, topology.TopicTxs,
		topology.TableOf(topology.GroupSequencer), topology.TableOf(topology.GroupFrontier),
		topology.TableOf(topology.GroupClosure)} {
		t.Run(topic, func(t *testing.T) {
			w := newWorld(t, func(c *streams.Config) { c.StateEvery, c.Linger = 1, -1 })
			w.run(w.cfg)
			c := w.dial(w.cfg)
			v := w.follow(c, "shop")
			a := w.join(c, v, "shop", "ann")
			for i := range 60 {
				if i == 20 {
					w.decided(v, "ann-20")
					w.servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic,
						Err: kerr.TopicAuthorizationFailed, Count: 1})
				}
				a.write(fmt.Sprint("orders/", i%4), fmt.Sprint(i))
			}
			w.until("a restart", func() bool { return w.count("hence_processor_restarts_total") >= 1 })
			w.decided(v, "ann-60")
			w.complete(v, "shop")
			w.tablesEqual(v, "shop")
			w.until("offsets follow", func() bool {
				return w.committed(topology.PartitionOf("shop", 2)) >= 61
			})
		})
	}
}

// Offsets that were not committed, states that were not written: a new owner replays and comes to the same decisions.
func TestReplayDecidesTheSame(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"offsets", "states", "both"} {
		t.Run(lost, func(t *testing.T) {
			w := newWorld(t)
			var faults []kfake.Fault
			if lost != "states" {
				faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Count: -1,
					Err: kerr.CoordinatorLoadInProgress})
			}
			if lost != "offsets" {
				faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1,
					Topic: topology.TableOf(topology.GroupSequencer), Err: kerr.NotLeaderForPartition})
			}
			handle := w.servers.Kafka().Fault(faults...)
			stop := w.run(w.cfg)
			c := w.dial(w.cfg)
			v := w.follow(c, "shop")
			a := w.join(c, v, "shop", "ann")
			for i := range 30 {
				a.write(fmt.Sprint("orders/", i%5), "x")
			}
			w.decided(v, "ann-30")
			w.complete(v, "shop")
			stop()
			before, _ := w.published("shop")
			handle.Remove()

			w.run(w.cfg)
			a.write("orders/9", "x")
			w.decided(v, "ann-31")
			w.complete(v, "shop")
			after, copies := w.published("shop")
			if len(after) < len(before)+1 {
				t.Fatalf("%d decisions after the restart, %d before it", len(after), len(before))
			}
			t.Logf("%d decisions, %d of them a second time", len(after), copies)
			if lost == "both" && copies == 0 {
				t.Fatal("nothing was replayed: the fault did not land")
			}
		})
	}
}

// The outbox is all that a new owner has of a decision that Kafka had not taken (HOLES, row 10): it must publish it
// again although no record comes that could remind it.
func TestNewOwnerPublishesTheOutbox(t *testing.T) {
	w := newWorld(t)
	cl, p := w.kafka(), topology.PartitionOf("shop", w.cfg.Partitions)
	replica := sequencer.NewReplica("shop")
	var want []sequencer.Outcome
	for i := range 3 {
		in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: fmt.Sprint("a", i),
			Join: &sequencer.Join{ID: fmt.Sprint("j", i)}}
		value, err := topology.EncodeIntent(in)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := replica.Apply(w.put(cl, topology.TopicIntents, "shop", value).Offset, in)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, applied.Outcomes...)
	}
	st := replica.State()
	row, err := topology.EncodeReplica(&st)
	if err != nil {
		t.Fatal(err)
	}
	w.put(cl, topology.TableOf(topology.GroupSequencer), "shop", row)
	var read kadm.Offsets // all of it: no record is a replay
	read.Add(kadm.Offset{Topic: topology.TopicIntents, Partition: p, At: st.Offset + 1, LeaderEpoch: -1})
	if err := kadm.NewClient(cl).CommitAllOffsets(w.context(), topology.GroupSequencer, read); err != nil {
		t.Fatal(err)
	}
	w.run(w.cfg)
	v := w.follow(w.dial(w.cfg), "shop")
	w.until("the outbox", func() bool { return v.len() >= len(want) })
	w.complete(v, "shop")
}

// A run that is stopped while hence.decisions takes nothing leaves its decisions to the next one.
func TestDecisionsOutliveTheirProcessor(t *testing.T) {
	w := newWorld(t, func(c *streams.Config) { c.StateEvery = 1 })
	stop := w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	fault := w.servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topology.TopicDecisions,
		Err: kerr.NotLeaderForPartition, Count: -1})
	a.write("orders/1", "x")
	w.decided(v, "ann-1") // by NATS: it is determined
	stop()
	fault.Remove()
	if got, _ := w.published("shop"); len(got) >= v.len() {
		t.Fatal("the fault did not land: every decision is in Kafka")
	}
	w.run(w.cfg)
	w.complete(v, "shop")
}

func TestNATSStopsAndStarts(t *testing.T) {
	w := newWorld(t)
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	for range 20 {
		a.write("orders/1", "x")
	}
	w.decided(v, "ann-20")
	w.servers.StopNATS()
	for range 20 {
		a.write("orders/1", "x")
	}
	w.decided(v, "ann-40")
	if v.by(streams.WayKafka) == 0 {
		t.Error("NATS was stopped and nothing came by Kafka")
	}
	if err := w.servers.StartNATS(); err != nil {
		t.Fatal(err)
	}
	w.until("NATS again", func() bool { return c.Ready(w.context())["nats"] == nil })
	byNATS := v.by(streams.WayNATS)
	w.until("decisions by NATS again", func() bool {
		w.decided(v, a.write("orders/1", "x"))
		return v.by(streams.WayNATS) > byNATS
	})
	w.complete(v, "shop")
	late := w.follow(w.dial(w.cfg), "shop") // of a stream that lacks what came while NATS was away
	w.until("a late joiner", func() bool { return late.len() >= v.len() })
	t.Logf("ways %v, of the late joiner %v", v.ways, late.ways)
}

func TestDamagedDelivery(t *testing.T) {
	for name, faults := range map[string]streams.Faults{
		"drop": {DropEvery: 10}, "swap": {SwapEvery: 10}, "both": {DropEvery: 7, SwapEvery: 10},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(w.cfg)
			c := w.dial(w.cfg)
			v := w.follow(c, "shop")
			a := w.join(c, v, "shop", "ann")
			damaged := w.cfg
			damaged.Faults = faults
			bad := w.follow(w.dial(damaged), "shop")
			for range 150 {
				a.write("orders/1", "x")
			}
			w.decided(v, "ann-150")
			w.until("the damaged view", func() bool { return bad.len() >= v.len() })
			if v.all()[v.len()-1].Chain != bad.all()[v.len()-1].Chain {
				t.Error("the chains differ")
			}
			t.Logf("quiet %v, damaged %v", v.ways, bad.ways)
			if faults.DropEvery > 0 && bad.by(streams.WayNATS) >= 151 {
				t.Error("nothing was dropped")
			}
		})
	}
}

// Two groups compute and publish the same decisions, and a dead one is not missed.
func TestReplicaBPublishesTheSame(t *testing.T) {
	w := newWorld(t)
	b := w.cfg
	b.Replica, b.Instance = "b", "two"
	if err := streams.EnsureTopics(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	stop := w.run(w.cfg)
	w.run(b)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	for i := range 50 {
		a.write(fmt.Sprint("orders/", i%3), "x")
	}
	w.decided(v, "ann-50")
	w.until("both published", func() bool {
		got, copies := w.published("shop")
		return len(got) > 50 && copies > 50
	})
	stop()
	a.write("orders/1", "x")
	w.decided(v, "ann-51")
	w.complete(v, "shop")
}

// Members of one group that come and go hand partitions over without losing or repeating a seq.
func TestPartitionsChangeOwners(t *testing.T) {
	w := newWorld(t)
	w.run(w.cfg)
	c := w.dial(w.cfg)
	agents := make(map[string]*agent)
	views := make(map[string]*view)
	for _, name := range []string{"shop", "bank", "farm", "mill"} {
		views[name] = w.follow(c, name)
		agents[name] = w.join(c, views[name], name, "ann")
	}
	other := w.cfg
	other.Instance = "two"
	for range 2 {
		stop := w.run(other)
		for range 30 {
			for _, a := range agents {
				a.write("orders/1", "x")
			}
		}
		stop()
	}
	for _, name := range slices.Sorted(maps.Keys(views)) {
		w.decided(views[name], "ann-60")
		w.complete(views[name], name)
	}
}
