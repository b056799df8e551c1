package processor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// What decides nothing, renewals of leases and ticks, is written with a state only after 30 times the usual time, or
// once 4,096 records of the partition lie behind the first of it. An idle workspace would else write its whole past
// every second or two; and the next owner reads no more than that once more.
func TestStatesOfIdleWorkspacesRest(t *testing.T) {
	w := teststreams.New(t)
	clock := &handClock{now: time.Unix(1000, 0)}
	owner := w.Cfg
	owner.Clock = clock
	w.Run(owner)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	renew := func() {
		ann.Append(&sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: "ann", Incarnation: 1,
			Watermark: &sequencer.Watermark{Seq: 1}})
	}
	states := func() float64 { return w.Count("hence_states_written_total") }
	// written renews the lease every 2 s of the owner's clock until a state is written, and says how long that took.
	written := func() time.Duration {
		n, began, renewed := states(), clock.Now(), clock.Now()
		w.Until("a state", func() bool {
			if now := clock.Now(); now.Sub(renewed) >= 2*time.Second {
				renewed = now
				renew()
			}
			clock.advance(25 * time.Millisecond)
			return states() > n
		})
		return clock.Now().Sub(began)
	}
	if took := written(); took > 10*time.Second {
		t.Errorf("the state of a join was written after %v", took)
	}
	renew()
	if took := written(); took < 29*time.Second {
		t.Errorf("a state without a decision was written after %v", took)
	}
	renew()
	fillPartition(w, owner.Partitions, "shop", 1<<12)
	if took := written(); took > 10*time.Second {
		t.Errorf("a state without a decision was written after %v, with 4,096 records behind it", took)
	}
}

// fillPartition appends records that decide nothing to the partition of a workspace, for others: for so many that none
// has the steps after which a state is written in any case.
func fillPartition(w *teststreams.World, partitions int32, workspace string, n int) {
	partition := topology.PartitionOf(workspace, partitions)
	value, err := topology.EncodeIntent(&sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: "bob", Incarnation: 1,
		Watermark: &sequencer.Watermark{Seq: 1}})
	if err != nil {
		w.T.Fatal(err)
	}
	var records []*kgo.Record
	for i := 0; len(records) < n; i++ {
		if other := fmt.Sprint("other-", i%64); topology.PartitionOf(other, partitions) == partition {
			records = append(records, &kgo.Record{Topic: topology.TopicIntents, Partition: partition, Key: []byte(other),
				Value: value})
		}
	}
	if err := w.Kafka().ProduceSync(w.Context(), records...).FirstErr(); err != nil {
		w.T.Fatal(err)
	}
}
