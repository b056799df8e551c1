package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// A replica far behind the other one is no hole; where there is one, no fix deletes what cannot be made
// again.
func TestInspectRuns(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t)
	w.Decide("lag", 40001, 1, 40002, 2, 40003, 3)
	w.Decide("late", 1, 40001, 2, 40002, 3)
	if _, said := w.Inspect(w.Cfg); strings.Contains(said, "lacks the decisions") {
		t.Errorf("a replica that lags: %s", said)
	}
	w.Decide("shop", 1, 2, 5, 1)
	if _, said := w.Inspect(w.Cfg); !strings.Contains(said, "shop lacks the decisions between 2 and 5") ||
		!strings.Contains(said, "recompute and publish the log") {
		t.Errorf("a hole: %s", said)
	}
	cl := w.Kafka()
	p := topology.PartitionOf("shop", w.Cfg.Partitions)
	for n := range 3 {
		w.Put(cl, topology.TopicIntents, "shop", fmt.Append(nil, n))
	}
	cut := kadm.Offsets{}
	cut.AddOffset(topology.TopicIntents, p, 2, -1)
	if _, err := kadm.NewClient(cl).DeleteRecords(w.Context(), cut); err != nil {
		t.Fatal(err)
	}
	_, said := w.Inspect(w.Cfg)
	if !strings.Contains(said, "shop lacks the decisions between 2 and 5") || strings.Contains(said, "delete their") ||
		!strings.Contains(said, fmt.Sprintf("hence.intents/%d begins at offset 2", p)) {
		t.Errorf("a hole in a log without its beginning: %s", said)
	}
}

// A hole between the last decision of one process and the first of the next is found, also where there are two
// replicas and it is the one that lies beyond the newest records.
func TestInspectHoleAtRestart(t *testing.T) {
	w, _, b := teststreams.Replicas(t)
	for _, group := range []string{topology.GroupSequencer, topology.GroupOf(topology.GroupSequencer, b.Replica)} {
		var at kadm.Offsets
		at.AddOffset(topology.TopicIntents, 0, 0, -1)
		if _, err := kadm.NewClient(w.Kafka()).CommitOffsets(w.Context(), group, at); err != nil {
			t.Fatal(err)
		}
	}
	old := make([]sequencer.Seq, 2100)
	for n := range old {
		old[n] = sequencer.Seq(n + 1)
	}
	w.Decide("shop", old...)
	w.Decide("shop", 2103, 2104)
	if _, said := w.Inspect(w.Cfg); !strings.Contains(said, "shop lacks the decisions between 2100 and 2103") {
		t.Errorf("a hole at a restart: %s", said)
	}
}

// A hole far behind the newest decisions is found by what it does: snapshots stand still before it.
func TestInspectOldHole(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t)
	w.Run(w.Cfg)
	seqs := []sequencer.Seq{1}
	for seq := sequencer.Seq(3); seq < 2200; seq++ {
		seqs = append(seqs, seq)
	}
	w.Decide("shop", seqs...)
	w.Decide("bank", 1, 2, 3)
	said := ""
	w.Until("the hole", func() bool {
		_, said = w.Inspect(w.Cfg)
		return strings.Contains(said, "snapshots of workspace shop end at 1, ")
	})
	if !strings.Contains(said, "decision 2 is missing") || strings.Contains(said, "bank") {
		t.Error(said)
	}
}
