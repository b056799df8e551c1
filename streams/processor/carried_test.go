package processor_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// What a former release carried over and did not read is in the rows, once and before what comes: the release had
// committed the decisions, and has made no rows of them. Then the group no longer reads the former topics.
func TestRowsOfWhatWasCarriedOver(t *testing.T) {
	w := teststreams.New(t)
	cl := w.Kafka()
	admin := kadm.NewClient(cl)
	_, err := admin.CreateTopics(w.Context(), w.Cfg.Partitions, 1, nil, topology.TopicScopes, topology.TopicTxs)
	if err != nil {
		t.Fatal(err)
	}
	moves, txs := int64(0), int64(0)
	carry := func(o *sequencer.Outcome) {
		for _, m := range topology.SplitByScope(o) {
			b, err := topology.EncodeScopeMove(&m)
			if err != nil {
				t.Fatal(err)
			}
			w.Put(cl, topology.TopicScopes, m.Key(), b)
			moves++
		}
		b, err := topology.EncodeOutcome(o)
		if err != nil {
			t.Fatal(err)
		}
		w.Put(cl, topology.TopicTxs, topology.EventKey(o.Workspace, o.Tx), b)
		txs++
	}
	decided := func(seq sequencer.Seq, tx sequencer.TxID, scope sequencer.Scope) *sequencer.Outcome {
		return &sequencer.Outcome{Workspace: "shop", Seq: seq, Kind: sequencer.OutcomeCommitted, Tx: tx, Agent: "ann",
			Shards: []sequencer.ShardWrite{{Scope: scope, Content: []byte(tx)}}}
	}
	carry(decided(1, "read", "shard:/read")) // and swept since: who reads it once more brings it back
	readMoves, readTxs := moves, txs
	for seq := sequencer.Seq(1); seq <= 3; seq++ {
		o := decided(seq, "t", "shard:/a")
		w.DecideAs(o)
		carry(o)
	}
	p := topology.PartitionOf("shop", w.Cfg.Partitions)
	commit := func(group, topic string, carried int64) {
		var at kadm.Offsets
		at.AddOffset(topology.TopicDecisions, p, 3, -1)
		at.AddOffset(topic, p, carried, -1)
		if err := admin.CommitAllOffsets(w.Context(), group, at); err != nil {
			t.Fatal(err)
		}
	}
	commit(topology.GroupFrontier, topology.TopicScopes, readMoves)
	commit(topology.GroupClosure, topology.TopicTxs, readTxs)
	stop := w.Run(w.Cfg)
	w.DecideAs(decided(4, "u", "shard:/b"))
	frontiers := func() map[string]topology.FrontierRow {
		return table(w, topology.TableOf(topology.GroupFrontier), "shop", topology.DecodeFrontierRow)
	}
	closures := func() map[string]topology.ClosureRow {
		return table(w, topology.TableOf(topology.GroupClosure), "shop", topology.DecodeClosureRow)
	}
	w.Until("all rows", func() bool { return frontiers()[""].Seq == 4 && closures()["u"].Seq == 4 })
	rows := frontiers()
	if a := rows["shard:/a"]; len(rows) != 3 || a.Seq != 3 || a.Shard == nil || len(a.Former) != 2 {
		t.Errorf("the rows are %+v", rows)
	}
	if rows := closures(); len(rows) != 2 || rows["t"].Seq != 3 || rows["t"].Status != "committed" {
		t.Errorf("the rows are %+v", rows)
	}
	if n := w.Count("hence_frontier_gaps_total"); n != 0 {
		t.Errorf("%v gaps", n)
	}
	w.Until("the former topics' offsets at their ends", func() bool {
		return offsetOf(w, topology.GroupFrontier, topology.TopicScopes, p) == moves &&
			offsetOf(w, topology.GroupClosure, topology.TopicTxs, p) == txs
	})
	if _, err := admin.DeleteTopics(w.Context(), topology.TopicScopes, topology.TopicTxs); err != nil {
		t.Fatal(err)
	}
	w.DecideAs(decided(5, "v", "shard:/b"))
	w.Until("rows while these go", func() bool { return frontiers()[""].Seq == 5 && closures()["v"].Seq == 5 })
	stop()
	w.Run(w.Cfg) // as on a new installation
	w.DecideAs(decided(6, "w", "shard:/b"))
	w.Until("rows without them", func() bool { return frontiers()[""].Seq == 6 && closures()["w"].Seq == 6 })
}

// offsetOf is where a group reads a partition on.
func offsetOf(w *teststreams.World, group, topic string, partition int32) int64 {
	w.T.Helper()
	offsets, err := kadm.NewClient(w.Kafka()).FetchOffsets(w.T.Context(), group)
	if err != nil {
		w.T.Fatal(err)
	}
	o, _ := offsets.Lookup(topic, partition)
	return o.At
}
