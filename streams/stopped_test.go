package streams_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// begun waits until a partition's owner has taken all of its records but some.
func (w *world) begun(partition int32, left float64) {
	w.t.Helper()
	w.until("records before the owner", func() bool {
		return w.count("hence_input_lag_records", "topic", topology.TopicIntents,
			"partition", strconv.Itoa(int(partition))) == left
	})
}

// A partition that cannot read a state commits nothing, also when its run ends: who mends the row finds every record.
func TestStoppedPartitionCommitsNothing(t *testing.T) {
	w := newWorld(t)
	w.put(w.kafka(), topology.TableOf(topology.GroupSequencer), "shop", []byte("broken"))
	c := w.dial(w.cfg)
	for _, id := range []string{"j1", "j2"} {
		in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann", Join: &sequencer.Join{ID: id}}
		if _, err := c.Append(w.context(), "shop", in); err != nil {
			t.Fatal(err)
		}
	}
	stop := w.run(w.cfg)
	p := topology.PartitionOf("shop", w.cfg.Partitions)
	w.until("stopped", func() bool { return w.count("hence_partitions_stopped") == 1 })
	w.begun(p, 1)
	stop()
	if at := w.committed(p); at != 0 {
		t.Errorf("offset %d is committed, and nothing was decided", at)
	}
}

// The record that a partition stopped before is there for the next owner, when all before it is committed already.
func TestRecordOfUnknownLogicStaysUncommitted(t *testing.T) {
	w := newWorld(t, func(c *streams.Config) { c.StateAfter = time.Millisecond })
	stop := w.run(w.cfg)
	c := w.dial(w.cfg)
	a := w.join(c, w.follow(c, "shop"), "shop", "ann")
	p := topology.PartitionOf("shop", w.cfg.Partitions)
	w.until("the join is committed", func() bool { return w.committed(p) == 1 })
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic = 1, sequencer.Logic+1
	a.append(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
	w.until("stopped", func() bool { return w.count("hence_partitions_stopped") == 1 })
	stop()
	if at := w.committed(p); at != 1 {
		t.Errorf("offset %d is committed past the record", at)
	}
}
