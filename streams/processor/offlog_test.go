package processor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// stops waits until a partition says why it does not go on with the log.
func stopsAt(w *teststreams.World, h *streams.Health, partition int32, why string) {
	w.T.Helper()
	w.Until("the stop", func() bool {
		err := h.Ready()[fmt.Sprintf("partition %d", partition)]
		return err != nil && strings.Contains(err.Error(), why)
	})
}

// behead deletes the records of a partition of the log before an offset.
func behead(w *teststreams.World, partition int32, at int64) {
	w.T.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topology.TopicIntents, Partition: partition, At: at})
	if _, err := kadm.NewClient(w.Kafka()).DeleteRecords(w.Context(), offsets); err != nil {
		w.T.Fatal(err)
	}
}

// made is a world in which one group has decided a few records of a workspace and has ended.
func made(t *testing.T) (w *teststreams.World, partition int32) {
	t.Helper()
	w = teststreams.New(t, func(c *streams.Config) { c.StateEvery = 1 })
	w.Cfg.Health = new(streams.Health)
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	w.Decided(v, a.Write("x", "1"))
	w.Decided(v, a.Write("x", "2"))
	partition = topology.PartitionOf("shop", w.Cfg.Partitions)
	w.Until("offset committed", func() bool { return w.Committed(partition) == 3 })
	stop()
	return w, partition
}

// States of a log that is gone take the first records of the next one for their own past: they are not used.
func TestPositionAfterTheLog(t *testing.T) {
	w, partition := made(t)
	w.Again(topology.TopicIntents)
	c := w.Dial(w.Cfg)
	in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "bob", Join: &sequencer.Join{ID: "j"}}
	if _, err := c.Append(w.Context(), "shop", in); err != nil {
		t.Fatal(err)
	}
	w.Run(w.Cfg)
	stopsAt(w, w.Cfg.Health, partition, "was recreated without hence-sequencer-table")
}

// Offsets without their table would have the group begin with nothing in the middle of the log.
func TestPositionWithoutTheTable(t *testing.T) {
	w, partition := made(t)
	w.Again(topology.TableOf(topology.GroupSequencer))
	w.Run(w.Cfg)
	stopsAt(w, w.Cfg.Health, partition, "hence-sequencer-table is empty")
}

// A group that was away for longer than the log is kept does not pass over what it missed.
func TestPositionBeforeTheLog(t *testing.T) {
	w, a, b := teststreams.Replicas(t, func(c *streams.Config) { c.HashEvery = 4 })
	w.Run(a)
	stopB := w.Run(b)
	w.Well(a.Health)
	w.Well(b.Health)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	w.Decided(v, ann.Write("x", "y"))
	w.Until("both copies in Kafka", func() bool { _, copies := w.Published("shop"); return copies == 2 })
	stopB()
	for range 20 {
		renew(ann)
		w.Decided(v, ann.Write("x", "y"))
	}
	partition := topology.PartitionOf("shop", w.Cfg.Partitions)
	behead(w, partition, 9)
	b.Health = new(streams.Health)
	w.Run(b)
	stopsAt(w, b.Health, partition, "begins at offset 9 and they have read it up to 2")
	w.Decided(v, ann.Write("x", "z"))
	w.Well(a.Health)
	if w.Count("hence_replica_divergence") != 0 {
		t.Error("a group that was away raised the alarm")
	}
}

// A partition that has no state because all of its records were parked goes on, also when those are deleted.
func TestPositionOfParkedRecords(t *testing.T) {
	w := teststreams.New(t)
	w.Cfg.Health = new(streams.Health)
	stop := w.Run(w.Cfg)
	w.Well(w.Cfg.Health)
	partition := topology.PartitionOf("No Workspace", w.Cfg.Partitions)
	for range 3 {
		w.Put(w.Kafka(), topology.TopicIntents, "No Workspace", []byte("x"))
	}
	w.Until("offset committed", func() bool { return w.Committed(partition) == 3 })
	stop()
	behead(w, partition, 2)
	w.Cfg.Health = new(streams.Health)
	w.Run(w.Cfg)
	w.Well(w.Cfg.Health)
	if n := w.Count("hence_partitions_stopped"); n != 0 {
		t.Errorf("%v partitions stopped", n)
	}
}
