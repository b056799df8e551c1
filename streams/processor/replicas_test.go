package processor_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// renew keeps the agent's lease, which is ten seconds of the log's time: a busy machine may take longer.
func renew(a *teststreams.Agent) {
	a.World.T.Helper()
	a.Append(&sequencer.Intent{Kind: sequencer.IntentWatermark, N: 1, Agent: a.Name, Incarnation: a.Incarnation,
		Watermark: &sequencer.Watermark{Seq: a.Incarnation}})
}

// Two groups publish everything twice; each follower and each table has it once, and the states agree.
func TestReplicasAgree(t *testing.T) {
	w, a, b := teststreams.Replicas(t, func(c *streams.Config) { c.HashEvery = 8 })
	w.Run(a)
	w.Run(b)
	w.Well(a.Health)
	w.Well(b.Health)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	const n = 100
	for i := range n {
		renew(ann)
		w.Decided(v, ann.Write(fmt.Sprintf("s%d", i%7), fmt.Sprint(i)))
	}
	w.Until("both copies in Kafka", func() bool { _, copies := w.Published("shop"); return copies >= n+1 })
	if decisions, _ := w.Published("shop"); len(decisions) < n+1 || v.Len() < n+1 {
		// more there may be: a lease may end meanwhile, which is a decision too
		t.Errorf("%d decisions in Kafka, %d in the view", len(decisions), v.Len())
	}
	w.Until("the states", func() bool { return w.Count("hence_replica_states_compared_total") >= n/8 })
	if w.Count("hence_replica_divergence") != 0 {
		t.Error("the replicas differ")
	}
	if w.Count("hence_frontier_gaps_total") != 0 || w.Count("hence_scars_total") != 0 {
		t.Error("a second copy left a trace in the tables")
	}
	w.Until("the snapshot", func() bool {
		s, err := c.Snapshot(w.Context(), "shop")
		return err == nil && s.Seq >= n+1 && len(s.Shards) == 7
	})
}

// A replica that computes something else is found out: both stop on that partition, and say so; others go on. Begun
// again and right, both go on.
func TestReplicasDiffer(t *testing.T) {
	w, a, b := teststreams.Replicas(t, func(c *streams.Config) { c.HashEvery = 4 })
	here, there := "shop", otherPartition("shop", w.Cfg.Partitions)
	wrong := b
	wrong.Faults.Misread = func(workspace string, in *sequencer.Intent) {
		if workspace == here && in.Tx == "ann-3" && in.Seal != nil {
			in.Seal.Shards[0].Content = []byte("seeded")
		}
	}
	w.Run(a)
	stopB := w.Run(wrong)
	w.Well(a.Health)
	w.Well(b.Health)
	c := w.Dial(w.Cfg)
	seen := &teststreams.View{}
	w.FollowWith(c, here, func(o *sequencer.Outcome, _ streams.Way) error { seen.Note(o); return nil })
	v := w.Follow(c, there)
	ann, bob := w.Join(c, seen, here, "ann"), w.Join(c, v, there, "bob")
	ann.Write("x", "1")
	ann.Write("x", "2")
	ann.Write("x", "3")
	w.Until("the alarm", func() bool {
		ann.Write("y", "more")
		return w.Count("hence_replica_divergence") == 1 && b.Health.Ready()["replicas"] != nil
	})
	partition := fmt.Sprintf("partition %d", topology.PartitionOf(here, w.Cfg.Partitions))
	for name, h := range map[string]*streams.Health{"a": a.Health, "b": b.Health} {
		w.Until("the stop of "+name, func() bool { return h.Ready()[partition] != nil })
		text, brokers := h.Ready()[partition].Error(), strings.Join(w.Cfg.Brokers, ",")
		for _, want := range []string{
			`workspace "shop" at seq`, "hence doctor --brokers " + brokers,
			"`kafka-topics.sh --bootstrap-server " + brokers + " --delete --topic hence-sequencer-b-table && " +
				"kafka-consumer-groups.sh --bootstrap-server " + brokers + " --delete --group hence-sequencer-b && " +
				"hence topics create --brokers " + brokers + " --partitions 2 --replication 1 --replica b`",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q: %s", name, want, text)
			}
		}
	}
	last := ann.Write("z", "this has no answer")
	w.Decided(v, bob.Write("x", "another partition goes on"))
	w.Decided(v, bob.Write("x", "and on"))
	if n := decisionsOf(w, last); n > 0 { // others may still have been under way at the stop
		t.Errorf("%d decisions of an intent after the stop were published", n)
	}
	stopB()
	w.ForgetGroup(topology.GroupSequencer, topology.ReplicaB)
	if err := streams.EnsureTopics(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.Run(b)
	w.Decided(seen, last)
	w.Well(a.Health)
	w.Well(b.Health)
	w.Until("the end of the alarm", func() bool { // who starts again reads the old hashes first
		return w.Count("hence_replica_divergence") == 0 && w.Count("hence_partitions_stopped") == 0
	})
}

// copies counts a workspace's records in hence.decisions.
func copies(w *teststreams.World, workspace string) (n int) {
	w.T.Helper()
	for _, r := range w.Records(topology.TopicDecisions) {
		if string(r.Key) == workspace {
			n++
		}
	}
	return n
}

// decisionsOf counts the decisions of a transaction.
func decisionsOf(w *teststreams.World, tx sequencer.TxID) (n int) {
	w.T.Helper()
	for _, r := range w.Records(topology.TopicDecisions) {
		o, err := topology.DecodeCloudEvent(r.Value)
		if err != nil {
			w.T.Fatal(err)
		}
		if o.Tx == tx {
			n++
		}
	}
	return n
}

// otherPartition is a workspace in another partition.
func otherPartition(workspace string, partitions int32) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("w%d", i)
		if topology.PartitionOf(name, partitions) != topology.PartitionOf(workspace, partitions) {
			return name
		}
	}
}

// One of two groups hangs for good in the middle of a load, and later one is stopped: no decision waits for it.
func TestNothingWaitsForOneReplica(t *testing.T) {
	w, a, b := teststreams.Replicas(t)
	hang, hung := make(chan struct{}), make(chan struct{})
	var once sync.Once
	stuck := a
	stuck.Faults.Misread = func(_ string, in *sequencer.Intent) {
		if in.Tx == "ann-50" {
			once.Do(func() { close(hung) })
			<-hang
		}
	}
	stopA := w.Run(stuck)
	t.Cleanup(stopA)
	t.Cleanup(func() { close(hang) }) // before what waits for the group
	w.Run(b)
	w.Well(a.Health)
	w.Well(b.Health)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	worst := func(n int) (worst time.Duration) {
		for range n {
			renew(ann)
			began := time.Now()
			tx := ann.Write("x", "y")
			w.Decided(v, tx)
			worst = max(worst, time.Since(began))
		}
		return worst
	}
	both := worst(49)
	alone := worst(51)
	select {
	case <-hung:
	default:
		t.Fatal("the first group did not hang")
	}
	for _, r := range v.All() {
		if r.Kind == sequencer.OutcomeAborted {
			t.Errorf("%s was aborted: %s", r.Tx, r.Code)
		}
	}
	live, err := c.Live(w.Context(), "shop")
	if err != nil || live.Seq != sequencer.Seq(v.Len()) {
		t.Errorf("a question while one group hangs: at %d of %d, %v", live.Seq, v.Len(), err)
	}
	t.Logf("longest wait for a decision: %v with both groups, %v while one hangs", both, alone)
}

// A group that begins where the log's beginning is deleted computes nothing, and disturbs no other group.
func TestNewReplicaOfAShortenedLog(t *testing.T) {
	w, a, b := teststreams.Replicas(t, func(c *streams.Config) { c.HashEvery = 4 })
	stopA := w.Run(a)
	w.Well(a.Health)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	for range 20 {
		renew(ann)
		w.Decided(v, ann.Write("x", "y"))
	}
	partition := topology.PartitionOf("shop", w.Cfg.Partitions)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topology.TopicIntents, Partition: partition, At: 5})
	if _, err := kadm.NewClient(w.Kafka()).DeleteRecords(w.Context(), offsets); err != nil {
		t.Fatal(err)
	}
	w.Run(b)
	w.Until("the stop", func() bool {
		err := b.Health.Ready()[fmt.Sprintf("partition %d", partition)]
		return err != nil && strings.Contains(err.Error(), "begins at offset 5")
	})
	for range 20 {
		renew(ann)
		w.Decided(v, ann.Write("x", "y"))
	}
	w.Well(a.Health)
	if w.Count("hence_replica_divergence") != 0 {
		t.Error("a group that knows nothing raised the alarm")
	}
	for range 50 { // the stopped one hears the question too
		if _, err := c.Live(w.Context(), "shop"); err != nil {
			t.Fatalf("a question while one group has stopped: %v", err)
		}
	}
	stopA()
	if _, err := c.Live(w.Context(), "shop"); err == nil || !strings.Contains(err.Error(), "begins at offset 5") {
		t.Errorf("a question when the only group has stopped: %v", err)
	}
}

// Replicas that say their states at different seqs are hardly compared: this is told, and stops nothing.
func TestReplicasSayTheirStatesUnevenly(t *testing.T) {
	w, a, b := teststreams.Replicas(t)
	a.HashEvery, b.HashEvery = 4, 8
	w.Run(a)
	stopB := w.Run(b)
	w.Well(a.Health)
	w.Well(b.Health)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	say := func() {
		for range 16 {
			renew(ann)
			w.Decided(v, ann.Write("x", "y"))
		}
	}
	say()
	for name, h := range map[string]*streams.Health{"a": a.Health, "b": b.Health} {
		w.Until("the note of "+name, func() bool {
			return strings.Contains(h.Notes()["hash_every"], "replica a says its state every 4 seqs and replica b every 8")
		})
	}
	w.Well(a.Health)
	if _, said := w.Inspect(w.Cfg); !strings.Contains(said, "every 4 seqs and replica b every 8") {
		t.Errorf("the doctor says: %s", said)
	}
	stopB()
	b.HashEvery, b.Health = 4, new(streams.Health)
	w.Run(b)
	w.Well(b.Health)
	say()
	for name, h := range map[string]*streams.Health{"a": a.Health, "b": b.Health} {
		w.Until("the end of the note of "+name, func() bool { return len(h.Notes()) == 0 })
	}
}
