package streams_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// stops waits until a partition says why it does not go on with the log.
func (w *world) stops(h *streams.Health, partition int32, why string) {
	w.t.Helper()
	w.until("the stop", func() bool {
		err := h.Ready()[fmt.Sprintf("partition %d", partition)]
		return err != nil && strings.Contains(err.Error(), why)
	})
}

// behead deletes the records of a partition of the log before an offset.
func (w *world) behead(partition int32, at int64) {
	w.t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topology.TopicIntents, Partition: partition, At: at})
	if _, err := kadm.NewClient(w.kafka()).DeleteRecords(w.context(), offsets); err != nil {
		w.t.Fatal(err)
	}
}

// made is a world in which one group has decided a few records of a workspace and has ended.
func made(t *testing.T) (w *world, partition int32) {
	t.Helper()
	w = newWorld(t, func(c *streams.Config) { c.StateEvery = 1 })
	w.cfg.Health = new(streams.Health)
	stop := w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	w.decided(v, a.write("x", "1"))
	w.decided(v, a.write("x", "2"))
	partition = topology.PartitionOf("shop", w.cfg.Partitions)
	w.until("offset committed", func() bool { return w.committed(partition) == 3 })
	stop()
	return w, partition
}

// again deletes a topic and makes it anew.
func (w *world) again(topic string) {
	w.t.Helper()
	if _, err := kadm.NewClient(w.kafka()).DeleteTopic(w.context(), topic); err != nil {
		w.t.Fatal(err)
	}
	if err := streams.EnsureTopics(w.context(), w.cfg); err != nil {
		w.t.Fatal(err)
	}
}

// States of a log that is gone take the first records of the next one for their own past: they are not used.
func TestPositionAfterTheLog(t *testing.T) {
	w, partition := made(t)
	w.again(topology.TopicIntents)
	c := w.dial(w.cfg)
	in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "bob", Join: &sequencer.Join{ID: "j"}}
	if _, err := c.Append(w.context(), "shop", in); err != nil {
		t.Fatal(err)
	}
	w.run(w.cfg)
	w.stops(w.cfg.Health, partition, "was made anew without hence-sequencer-table")
}

// Offsets without their table would have the group begin with nothing in the middle of the log.
func TestPositionWithoutTheTable(t *testing.T) {
	w, partition := made(t)
	w.again(topology.TableOf(topology.GroupSequencer))
	w.run(w.cfg)
	w.stops(w.cfg.Health, partition, "hence-sequencer-table is empty")
}

// A group that was away for longer than the log is kept does not pass over what it missed.
func TestPositionBeforeTheLog(t *testing.T) {
	w, a, b := replicas(t, func(c *streams.Config) { c.HashEvery = 4 })
	w.run(a)
	stopB := w.run(b)
	w.well(a.Health)
	w.well(b.Health)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	ann := w.join(c, v, "shop", "ann")
	w.decided(v, ann.write("x", "y"))
	w.until("both copies in Kafka", func() bool { _, copies := w.published("shop"); return copies == 2 })
	stopB()
	for range 20 {
		ann.renew()
		w.decided(v, ann.write("x", "y"))
	}
	partition := topology.PartitionOf("shop", w.cfg.Partitions)
	w.behead(partition, 9)
	b.Health = new(streams.Health)
	w.run(b)
	w.stops(b.Health, partition, "begins at offset 9 and they have read it up to 2")
	w.decided(v, ann.write("x", "z"))
	w.well(a.Health)
	if w.count("hence_replica_divergence") != 0 {
		t.Error("a group that was away raised the alarm")
	}
}

// A partition that has no state because all of its records were parked goes on, also when those are deleted.
func TestPositionOfParkedRecords(t *testing.T) {
	w := newWorld(t)
	w.cfg.Health = new(streams.Health)
	stop := w.run(w.cfg)
	w.well(w.cfg.Health)
	partition := topology.PartitionOf("No Workspace", w.cfg.Partitions)
	for range 3 {
		w.put(w.kafka(), topology.TopicIntents, "No Workspace", []byte("x"))
	}
	w.until("offset committed", func() bool { return w.committed(partition) == 3 })
	stop()
	w.behead(partition, 2)
	w.cfg.Health = new(streams.Health)
	w.run(w.cfg)
	w.well(w.cfg.Health)
	if n := w.count("hence_partitions_stopped"); n != 0 {
		t.Errorf("%v partitions stopped", n)
	}
}
