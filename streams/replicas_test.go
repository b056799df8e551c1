package streams_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// replicas is a world with the configurations of two groups.
func replicas(t *testing.T, change ...func(*streams.Config)) (w *world, a, b streams.Config) {
	t.Helper()
	w = newWorld(t, change...)
	a, b = w.cfg, w.cfg
	a.Replica, a.Health = "a", new(streams.Health)
	b.Replica, b.Instance, b.Metrics, b.Health = "b", "two", prometheus.NewRegistry(), new(streams.Health)
	if err := streams.EnsureTopics(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return w, a, b
}

// renew keeps the agent's lease, which is ten seconds of the log's time: a busy machine may take longer.
func (a *agent) renew() {
	a.w.t.Helper()
	a.append(&sequencer.Intent{Kind: sequencer.IntentWatermark, N: 1, Agent: a.name, Incarnation: a.incarnation,
		Watermark: &sequencer.Watermark{Seq: a.incarnation}})
}

// well waits until a health names nothing.
func (w *world) well(h *streams.Health) {
	w.t.Helper()
	w.until("health", func() bool {
		for _, err := range h.Ready() {
			if err != nil {
				return false
			}
		}
		return true
	})
}

// Two groups publish everything twice; each follower and each table has it once, and the states agree.
func TestReplicasAgree(t *testing.T) {
	w, a, b := replicas(t, func(c *streams.Config) { c.HashEvery = 8 })
	w.run(a)
	w.run(b)
	w.well(a.Health)
	w.well(b.Health)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	ann := w.join(c, v, "shop", "ann")
	const n = 100
	for i := range n {
		ann.renew()
		w.decided(v, ann.write(fmt.Sprintf("s%d", i%7), fmt.Sprint(i)))
	}
	w.until("both copies in Kafka", func() bool { _, copies := w.published("shop"); return copies >= n+1 })
	if decisions, _ := w.published("shop"); len(decisions) < n+1 || v.len() < n+1 {
		// more there may be: a lease may end meanwhile, which is a decision too
		t.Errorf("%d decisions in Kafka, %d in the view", len(decisions), v.len())
	}
	w.until("the states", func() bool { return w.count("hence_replica_states_compared_total") >= n/8 })
	if w.count("hence_replica_divergence") != 0 {
		t.Error("the replicas differ")
	}
	if w.count("hence_frontier_gaps_total") != 0 || w.count("hence_scars_total") != 0 {
		t.Error("a second copy left a trace in the tables")
	}
	w.until("the snapshot", func() bool {
		s, err := c.Snapshot(w.context(), "shop")
		return err == nil && s.Seq >= n+1 && len(s.Shards) == 7
	})
}

// A replica that computes something else is found out: both stop on that partition, and say so; others go on. Begun
// anew and right, both go on.
func TestReplicasDiffer(t *testing.T) {
	w, a, b := replicas(t, func(c *streams.Config) { c.HashEvery = 4 })
	here, there := "shop", otherPartition("shop", w.cfg.Partitions)
	wrong := b
	wrong.Faults.Misread = func(workspace string, in *sequencer.Intent) {
		if workspace == here && in.Tx == "ann-3" && in.Seal != nil {
			in.Seal.Shards[0].Content = []byte("seeded")
		}
	}
	w.run(a)
	stopB := w.run(wrong)
	w.well(a.Health)
	w.well(b.Health)
	c := w.dial(w.cfg)
	seen := &view{}
	w.followWith(c, here, func(o *sequencer.Outcome, _ streams.Way) error { seen.note(o); return nil })
	v := w.follow(c, there)
	ann, bob := w.join(c, seen, here, "ann"), w.join(c, v, there, "bob")
	ann.write("x", "1")
	ann.write("x", "2")
	ann.write("x", "3")
	w.until("the alarm", func() bool {
		ann.write("y", "more")
		return w.count("hence_replica_divergence") == 1 && b.Health.Ready()["replicas"] != nil
	})
	partition := fmt.Sprintf("partition %d", topology.PartitionOf(here, w.cfg.Partitions))
	for name, h := range map[string]*streams.Health{"a": a.Health, "b": b.Health} {
		w.until("the stop of "+name, func() bool { return h.Ready()[partition] != nil })
		text, brokers := h.Ready()[partition].Error(), strings.Join(w.cfg.Brokers, ",")
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
	before := w.copies(here)
	last := ann.write("z", "nobody answers this")
	w.decided(v, bob.write("x", "another partition goes on"))
	w.decided(v, bob.write("x", "and on"))
	if after := w.copies(here); after != before {
		t.Errorf("%d decisions were published after the stop", after-before)
	}
	stopB()
	w.forgetGroup(topology.GroupSequencer, topology.ReplicaB)
	if err := streams.EnsureTopics(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.run(b)
	w.decided(seen, last)
	w.well(a.Health)
	w.well(b.Health)
	w.until("the end of the alarm", func() bool { // who starts again reads the old hashes first
		return w.count("hence_replica_divergence") == 0 && w.count("hence_partitions_stopped") == 0
	})
}

// copies counts a workspace's records in hence.decisions.
func (w *world) copies(workspace string) (n int) {
	w.t.Helper()
	for _, r := range w.records(topology.TopicDecisions) {
		if string(r.Key) == workspace {
			n++
		}
	}
	return n
}

// forgetGroup deletes a group's table and offsets, as the alarm says.
func (w *world) forgetGroup(group, replica string) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cfg.Brokers...))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	admin, name := kadm.NewClient(cl), topology.GroupOf(group, replica)
	if _, err := admin.DeleteTopic(w.context(), topology.TableOf(name)); err != nil {
		w.t.Fatal(err)
	}
	w.until("the end of the group", func() bool {
		r, err := admin.DeleteGroup(w.context(), name)
		return err == nil && r.Err == nil
	})
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
	w, a, b := replicas(t)
	hang, hung := make(chan struct{}), make(chan struct{})
	var once sync.Once
	stuck := a
	stuck.Faults.Misread = func(_ string, in *sequencer.Intent) {
		if in.Tx == "ann-50" {
			once.Do(func() { close(hung) })
			<-hang
		}
	}
	stopA := w.run(stuck)
	t.Cleanup(stopA)
	t.Cleanup(func() { close(hang) }) // before what waits for the group
	w.run(b)
	w.well(a.Health)
	w.well(b.Health)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	ann := w.join(c, v, "shop", "ann")
	worst := func(n int) (worst time.Duration) {
		for range n {
			ann.renew()
			began := time.Now()
			tx := ann.write("x", "y")
			w.decided(v, tx)
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
	for _, r := range v.all() {
		if r.Kind == sequencer.OutcomeAborted {
			t.Errorf("%s was aborted: %s", r.Tx, r.Code)
		}
	}
	live, err := c.Live(w.context(), "shop")
	if err != nil || live.Seq != sequencer.Seq(v.len()) {
		t.Errorf("a question while one group hangs: at %d of %d, %v", live.Seq, v.len(), err)
	}
	t.Logf("longest wait for a decision: %v with both groups, %v while one hangs", both, alone)
}

// A group that begins where the log's beginning is deleted computes nothing, and disturbs nobody.
func TestNewReplicaOfAShortenedLog(t *testing.T) {
	w, a, b := replicas(t, func(c *streams.Config) { c.HashEvery = 4 })
	stopA := w.run(a)
	w.well(a.Health)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	ann := w.join(c, v, "shop", "ann")
	for range 20 {
		ann.renew()
		w.decided(v, ann.write("x", "y"))
	}
	partition := topology.PartitionOf("shop", w.cfg.Partitions)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topology.TopicIntents, Partition: partition, At: 5})
	if _, err := kadm.NewClient(w.kafka()).DeleteRecords(w.context(), offsets); err != nil {
		t.Fatal(err)
	}
	w.run(b)
	w.until("the stop", func() bool {
		err := b.Health.Ready()[fmt.Sprintf("partition %d", partition)]
		return err != nil && strings.Contains(err.Error(), "begins at offset 5")
	})
	for range 20 {
		ann.renew()
		w.decided(v, ann.write("x", "y"))
	}
	w.well(a.Health)
	if w.count("hence_replica_divergence") != 0 {
		t.Error("a group that knows nothing raised the alarm")
	}
	for range 50 { // the stopped one hears the question too
		if _, err := c.Live(w.context(), "shop"); err != nil {
			t.Fatalf("a question while one group has stopped: %v", err)
		}
	}
	stopA()
	if _, err := c.Live(w.context(), "shop"); err == nil || !strings.Contains(err.Error(), "begins at offset 5") {
		t.Errorf("a question when the only group has stopped: %v", err)
	}
}

// Replicas that say their states at different seqs are hardly compared: this is told, and stops nothing.
func TestReplicasSayTheirStatesUnevenly(t *testing.T) {
	w, a, b := replicas(t)
	a.HashEvery, b.HashEvery = 4, 8
	w.run(a)
	stopB := w.run(b)
	w.well(a.Health)
	w.well(b.Health)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	ann := w.join(c, v, "shop", "ann")
	say := func() {
		for range 16 {
			ann.renew()
			w.decided(v, ann.write("x", "y"))
		}
	}
	say()
	for name, h := range map[string]*streams.Health{"a": a.Health, "b": b.Health} {
		w.until("the note of "+name, func() bool {
			return strings.Contains(h.Notes()["hash_every"], "replica a says its state every 4 seqs and replica b every 8")
		})
	}
	w.well(a.Health)
	if _, said := w.inspect(w.cfg); !strings.Contains(said, "every 4 seqs and replica b every 8") {
		t.Errorf("the doctor says: %s", said)
	}
	stopB()
	b.HashEvery, b.Health = 4, new(streams.Health)
	w.run(b)
	w.well(b.Health)
	say()
	for name, h := range map[string]*streams.Health{"a": a.Health, "b": b.Health} {
		w.until("the end of the note of "+name, func() bool { return len(h.Notes()) == 0 })
	}
}
