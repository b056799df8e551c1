package processor_test

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
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// A partition of hence.decisions that refuses writes must hold back the offsets of what it refused, whatever the
// records behind them do, and nothing of it may be lost when the processor is built again.
func TestRefusedOutputHoldsOffsetsBack(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.StateEvery = 1 })
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	p := topology.PartitionOf("shop", w.Cfg.Partitions)
	w.Until("offset committed", func() bool { return w.Committed(p) == 1 })

	fault := w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topology.TopicDecisions,
		Partitions: []int32{p}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	for i := range 20 {
		a.Write(fmt.Sprint("orders/", i), "x")
	}
	w.Until("restarts", func() bool {
		return w.Count("hence_processor_restarts_total", "processor", "sequencer") >= 2
	})
	if at := w.Committed(p); at != 1 {
		t.Fatalf("offset %d is committed although nothing after 1 was published", at)
	}
	fault.Remove()
	w.Decided(v, "ann-20")
	w.Complete(v, "shop")
	w.Until("offsets follow", func() bool { return w.Committed(p) >= 21 })
}

// One refused write among many that are taken: what is acknowledged behind it must neither commit its offset nor push
// its decision out of the outbox.
func TestOneRefusedWriteAmongMany(t *testing.T) {
	for _, topic := range []string{topology.TopicDecisions, topology.TableOf(topology.GroupSequencer),
		topology.TableOf(topology.GroupFrontier), topology.TableOf(topology.GroupClosure)} {
		t.Run(topic, func(t *testing.T) {
			w := teststreams.New(t, func(c *streams.Config) { c.StateEvery, c.Linger = 1, -1 })
			w.Run(w.Cfg)
			c := w.Dial(w.Cfg)
			v := w.Follow(c, "shop")
			a := w.Join(c, v, "shop", "ann")
			for i := range 60 {
				if i == 20 {
					w.Decided(v, "ann-20")
					w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic,
						Err: kerr.TopicAuthorizationFailed, Count: 1})
				}
				a.Write(fmt.Sprint("orders/", i%4), fmt.Sprint(i))
			}
			w.Until("a restart", func() bool { return w.Count("hence_processor_restarts_total") >= 1 })
			w.Decided(v, "ann-60")
			w.Complete(v, "shop")
			tablesEqual(w, v, "shop")
			w.Until("offsets follow", func() bool {
				return w.Committed(topology.PartitionOf("shop", 2)) >= 61
			})
		})
	}
}

// Offsets that were not committed, states that were not written: a new owner replays and comes to the same decisions.
func TestReplayDecidesTheSame(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"offsets", "states", "both"} {
		t.Run(lost, func(t *testing.T) {
			w := teststreams.New(t)
			var faults []kfake.Fault
			if lost != "states" {
				faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Count: -1,
					Err: kerr.CoordinatorLoadInProgress})
			}
			if lost != "offsets" {
				faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1,
					Topic: topology.TableOf(topology.GroupSequencer), Err: kerr.NotLeaderForPartition})
			}
			handle := w.Servers.Kafka().Fault(faults...)
			stop := w.Run(w.Cfg)
			c := w.Dial(w.Cfg)
			v := w.Follow(c, "shop")
			a := w.Join(c, v, "shop", "ann")
			for i := range 30 {
				a.Write(fmt.Sprint("orders/", i%5), "x")
			}
			w.Decided(v, "ann-30")
			w.Complete(v, "shop")
			stop()
			before, _ := w.Published("shop")
			handle.Remove()

			w.Run(w.Cfg)
			a.Write("orders/9", "x")
			w.Decided(v, "ann-31")
			w.Complete(v, "shop")
			after, copies := w.Published("shop")
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
	w := teststreams.New(t)
	cl, p := w.Kafka(), topology.PartitionOf("shop", w.Cfg.Partitions)
	replica := sequencer.NewReplica("shop")
	var want []sequencer.Outcome
	for i := range 3 {
		in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: fmt.Sprint("a", i),
			Join: &sequencer.Join{ID: fmt.Sprint("j", i)}}
		value, err := topology.EncodeIntent(in)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := replica.Apply(w.Put(cl, topology.TopicIntents, "shop", value).Offset, in)
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
	w.Put(cl, topology.TableOf(topology.GroupSequencer), "shop", row)
	var read kadm.Offsets // all of it: no record is a replay
	read.Add(kadm.Offset{Topic: topology.TopicIntents, Partition: p, At: st.Offset + 1, LeaderEpoch: -1})
	if err := kadm.NewClient(cl).CommitAllOffsets(w.Context(), topology.GroupSequencer, read); err != nil {
		t.Fatal(err)
	}
	w.Run(w.Cfg)
	v := w.Follow(w.Dial(w.Cfg), "shop")
	w.Until("the outbox", func() bool { return v.Len() >= len(want) })
	w.Complete(v, "shop")
}

// A run that is stopped while hence.decisions takes nothing leaves its decisions to the next one.
func TestDecisionsOutliveTheirProcessor(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.StateEvery = 1 })
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	fault := w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topology.TopicDecisions,
		Err: kerr.NotLeaderForPartition, Count: -1})
	a.Write("orders/1", "x")
	w.Decided(v, "ann-1") // by NATS: it is determined
	stop()
	fault.Remove()
	if got, _ := w.Published("shop"); len(got) >= v.Len() {
		t.Fatal("the fault did not land: every decision is in Kafka")
	}
	w.Run(w.Cfg)
	w.Complete(v, "shop")
}

func TestNATSStopsAndStarts(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	for range 20 {
		a.Write("orders/1", "x")
	}
	w.Decided(v, "ann-20")
	w.Servers.StopNATS()
	for range 20 {
		a.Write("orders/1", "x")
	}
	w.Decided(v, "ann-40")
	if v.By(streams.WayKafka) == 0 {
		t.Error("NATS was stopped and nothing came by Kafka")
	}
	if err := w.Servers.StartNATS(); err != nil {
		t.Fatal(err)
	}
	w.Until("NATS again", func() bool { return c.Ready(w.Context())["nats"] == nil })
	byNATS := v.By(streams.WayNATS)
	w.Until("decisions by NATS again", func() bool {
		w.Decided(v, a.Write("orders/1", "x"))
		return v.By(streams.WayNATS) > byNATS
	})
	w.Complete(v, "shop")
	late := w.Follow(w.Dial(w.Cfg), "shop") // of a stream that lacks what came while NATS was away
	w.Until("a late joiner", func() bool { return late.Len() >= v.Len() })
	t.Logf("ways %v, of the late joiner %v", v.Ways, late.Ways)
}

func TestDamagedDelivery(t *testing.T) {
	for name, faults := range map[string]streams.Faults{
		"drop": {DropEvery: 10}, "swap": {SwapEvery: 10}, "both": {DropEvery: 7, SwapEvery: 10},
	} {
		t.Run(name, func(t *testing.T) {
			w := teststreams.New(t)
			w.Run(w.Cfg)
			c := w.Dial(w.Cfg)
			v := w.Follow(c, "shop")
			a := w.Join(c, v, "shop", "ann")
			damaged := w.Cfg
			damaged.Faults = faults
			bad := w.Follow(w.Dial(damaged), "shop")
			for range 150 {
				a.Write("orders/1", "x")
			}
			w.Decided(v, "ann-150")
			w.Until("the damaged view", func() bool { return bad.Len() >= v.Len() })
			if v.All()[v.Len()-1].Chain != bad.All()[v.Len()-1].Chain {
				t.Error("the chains differ")
			}
			t.Logf("quiet %v, damaged %v", v.Ways, bad.Ways)
			if faults.DropEvery > 0 && bad.By(streams.WayNATS) >= 151 {
				t.Error("nothing was dropped")
			}
		})
	}
}

// Two groups compute and publish the same decisions, and a dead one is not missed.
func TestReplicaBPublishesTheSame(t *testing.T) {
	w := teststreams.New(t)
	b := w.Cfg
	b.Replica, b.Instance = "b", "two"
	if err := streams.EnsureTopics(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	stop := w.Run(w.Cfg)
	w.Run(b)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	for i := range 50 {
		a.Write(fmt.Sprint("orders/", i%3), "x")
	}
	w.Decided(v, "ann-50")
	w.Until("both published", func() bool {
		got, copies := w.Published("shop")
		return len(got) > 50 && copies > 50
	})
	stop()
	a.Write("orders/1", "x")
	w.Decided(v, "ann-51")
	w.Complete(v, "shop")
}

// Members of one group that come and go hand partitions over without losing or repeating a seq.
func TestPartitionsChangeOwners(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	agents := make(map[string]*teststreams.Agent)
	views := make(map[string]*teststreams.View)
	for _, name := range []string{"shop", "bank", "farm", "mill"} {
		views[name] = w.Follow(c, name)
		agents[name] = w.Join(c, views[name], name, "ann")
	}
	other := w.Cfg
	other.Instance = "two"
	for range 2 {
		stop := w.Run(other)
		for range 30 {
			for _, a := range agents {
				a.Write("orders/1", "x")
			}
		}
		stop()
	}
	for _, name := range slices.Sorted(maps.Keys(views)) {
		w.Decided(views[name], "ann-60")
		w.Complete(views[name], name)
	}
}
