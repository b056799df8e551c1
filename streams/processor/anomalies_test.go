package processor_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/streams/recorded"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/history"
)

// watching is a world in which anomalies are looked for.
func watching(t *testing.T) *teststreams.World {
	return teststreams.New(t, func(c *streams.Config) { c.Anomalies = 20 })
}

// stale seals a transaction that read a shard as of a seq and writes another one.
func stale(a *teststreams.Agent, shard string, view sequencer.Seq, observe bool) sequencer.Outcome {
	tx, in := a.Intent("made-of-"+shard, "made of what was read")
	in.Base, in.Begin.Observe = view, observe
	in.Seal.Reads = []sequencer.Read{{Scope: sequencer.Scope("shard:/" + shard), View: view, Version: view}}
	a.Append(in)
	return a.World.Decided(a.View, tx)
}

// pair are two agents of a workspace, the second of which reads what the first overwrites.
type pair struct{ ann, ben *teststreams.Agent }

func newPair(w *teststreams.World, c *streams.Client, workspace string) pair {
	v := w.Follow(c, workspace)
	return pair{w.Join(c, v, workspace, "ann"), w.Join(c, v, workspace, "ben")}
}

// overtake lets ben read what ann wrote, ann write it again, and ben commit.
func (p pair) overtake(shard string, observe bool) (ben, ann sequencer.Outcome) {
	first := p.ann.World.Decided(p.ann.View, p.ann.Write(shard, "one"))
	second := p.ann.World.Decided(p.ann.View, p.ann.Write(shard, "two"))
	return stale(p.ben, shard, first.Seq, observe), second
}

// anomalies are the findings of a workspace that are in the log, copies too.
func anomalies(w *teststreams.World, workspace string) (all []topology.Anomaly) {
	for _, r := range w.Records(topology.TopicAnomalies) {
		a, err := topology.DecodeAnomaly(r.Value)
		if err != nil {
			w.T.Fatal(err)
		}
		if a.Workspace == workspace && string(r.Key) == workspace {
			all = append(all, *a)
		}
	}
	return all
}

// judged waits until a workspace was judged up to a seq, and returns its level.
func judged(w *teststreams.World, c *streams.Client, workspace string, seq sequencer.Seq) (l *topology.AnomalyLevel) {
	w.T.Helper()
	w.Until("level of "+workspace, func() (is bool) {
		level, err := c.Level(w.Context(), workspace)
		if err == nil && level.Seq >= seq {
			l = level
		}
		return l != nil
	})
	return l
}

// TestAnomalies: a stale read that an observing transaction commits is published with its witness, and an enforcing
// workspace, which refuses it, has none.
func TestAnomalies(t *testing.T) {
	w := watching(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	observing, enforcing := newPair(w, c, "w"), newPair(w, c, "strict")
	ben, ann := observing.overtake("x", true)
	if ben.Kind != sequencer.OutcomeCommitted || ben.Would != sequencer.CodeStaleRead {
		t.Fatalf("it is not observed: %+v", ben)
	}
	var found []topology.Anomaly
	w.Until("an anomaly", func() bool { found = anomalies(w, "w"); return len(found) > 0 })
	got := found[0]
	ops := []topology.AnomalyOp{{Tx: ben.Tx, Agent: "ben", ReadTime: ann.Seq - 1, WriteTime: ben.Seq},
		{Tx: ann.Tx, Agent: "ann", ReadTime: got.Operations[1].ReadTime, WriteTime: ann.Seq}}
	if got.Kind != "A1" || !got.Certain || got.Seq != ben.Seq || got.Cell != "shard:/x" || got.Window != 20 ||
		got.Would != sequencer.CodeStaleRead || !slices.Equal(got.Operations, ops) || len(found) != 1 {
		t.Errorf("%d found:\n%+v\nwant the operations\n%+v", len(found), found, ops)
	}
	level := judged(w, c, "w", ben.Seq)
	if level.Most != 0 || level.PointMost != "{A2,A3,A6}" || level.Kinds[0].Certain != 1 || level.Operations != 3 ||
		level.Window != 20 || level.Spanning != 0 || level.Since != 0 {
		t.Errorf("level of the observing one: %+v", level)
	}
	refused, _ := enforcing.overtake("x", false)
	if refused.Kind != sequencer.OutcomeAborted {
		t.Fatalf("it is not refused: %+v", refused)
	}
	level = judged(w, c, "strict", refused.Seq)
	if level.Most != 4 || level.Operations != 3 || level.Aborted != 1 || len(anomalies(w, "strict")) != 0 {
		t.Errorf("level of the enforcing one: %+v", level)
	}
	if n := w.Count("hence_anomalies_total", "kind", "A1", "certain", "true"); n != 1 {
		t.Errorf("%v anomalies are counted", n)
	}
	if n := w.Count("hence_anomalies_operations_total"); n != 6 {
		t.Errorf("%v operations are counted", n)
	}
}

// TestAnomaliesOfARetraction: what is retracted with all of its cone is taken back at once, and what stands and rests
// on one of these is found. A copy of an older decision changes nothing.
func TestAnomaliesOfARetraction(t *testing.T) {
	w := watching(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	w.Join(c, w.Follow(c, "w"), "w", "ann")
	name := samePartition("w", w.Cfg.Partitions)
	decide := func(seq sequencer.Seq, kind sequencer.OutcomeKind, tx sequencer.TxID, on, cone []sequencer.TxID) {
		w.DecideAs(&sequencer.Outcome{Workspace: name, Seq: seq, Kind: kind, Tx: tx, Agent: "ben", RestsOn: on, Cone: cone,
			Writes: []sequencer.Write{{Scope: "mail:/" + sequencer.Scope(tx)}}})
	}
	decide(1, sequencer.OutcomeCommitted, "t1", nil, nil)
	decide(2, sequencer.OutcomeCommitted, "t2", []sequencer.TxID{"t1"}, nil)
	decide(3, sequencer.OutcomeCommitted, "t3", []sequencer.TxID{"t2"}, nil)
	decide(4, sequencer.OutcomeRetracting, "t1", nil, nil) // queued
	decide(5, sequencer.OutcomeRetracting, "t1", nil, []sequencer.TxID{"t2", "t1"})
	decide(2, sequencer.OutcomeCommitted, "t2", []sequencer.TxID{"t1"}, nil)
	decide(6, sequencer.OutcomeCommitted, "t4", nil, nil)
	level := judged(w, c, name, 6)
	if level.Seq != 6 || level.Aborted != 2 || level.Operations != 4 || level.PointMost != "{A1,A2,A6}" {
		t.Errorf("level: %+v", level)
	}
	var found []topology.Anomaly
	w.Until("an anomaly", func() bool { found = anomalies(w, name); return len(found) > 0 })
	if a := found[0]; len(found) != 1 || a.Kind != "A3" || a.Seq != 5 || a.Operations[0].Tx != "t3" ||
		a.Operations[1].Tx != "t2" {
		t.Errorf("found: %+v", found)
	}
}

// TestAnomaliesAgain: a process that ended after it published, and before its offsets were committed, publishes the
// same findings once more, with the same ids; one whose offsets are committed publishes nothing again, and finds what
// spans its restart. A second replica finds the same.
func TestAnomaliesAgain(t *testing.T) {
	w := watching(t)
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	p := newPair(w, c, "w")
	for _, shard := range []string{"x", "y", "z"} {
		p.overtake(shard, true)
	}
	kept := w.Decided(p.ann.View, p.ann.Write("kept", "one"))
	last := w.Decided(p.ann.View, p.ann.Write("kept", "two"))
	judged(w, c, "w", last.Seq)
	ids := func(wanted int) map[string]int {
		t.Helper()
		var all map[string]int
		w.Until("anomalies in the log", func() bool {
			all = map[string]int{}
			n := 0
			for _, a := range anomalies(w, "w") {
				all[a.ID()]++
				n++
			}
			return n >= wanted
		})
		return all
	}
	if got := ids(3); len(got) != 3 {
		t.Fatalf("%v", got)
	}
	stop()
	admin := kadm.NewClient(w.Kafka())
	w.Until("the end of the group", func() bool { // as if nothing had been committed
		r, err := admin.DeleteGroup(w.Context(), topology.GroupAnomalies)
		return err == nil && r.Err == nil
	})
	stop = w.Run(w.Cfg)
	for id, n := range ids(6) {
		if n != 2 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	judged(w, c, "w", last.Seq)
	stop()

	w.Run(w.Cfg)
	over := stale(p.ben, "kept", kept.Seq, true)
	level := judged(w, c, "w", over.Seq)
	if n := len(anomalies(w, "w")); n > 7 {
		t.Errorf("%d are in the log after the restart: what was committed is published again", n)
	}
	if got := ids(7); len(got) != 4 || level.Kinds[0].Certain != 4 || level.Operations != 12 || level.Since != 0 {
		t.Errorf("after a restart: %v, %+v", got, level)
	}

	second := w.Cfg
	second.Replica, second.Instance, second.Metrics = "b", "two", prometheus.NewRegistry()
	if err := streams.EnsureTopics(w.Context(), second); err != nil {
		t.Fatal(err)
	}
	w.Run(second)
	if got := ids(11); len(got) != 4 {
		t.Errorf("with a second replica: %v", got)
	}
}

// TestAnomaliesAreNotLost: while hence.anomalies takes nothing, the decisions in which something was found stay
// uncommitted, also for a process that ends meanwhile: the next one publishes what it could not.
func TestAnomaliesAreNotLost(t *testing.T) {
	w := watching(t)
	fault := w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topology.TopicAnomalies,
		Err: kerr.TopicAuthorizationFailed, Count: -1})
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	p := newPair(w, c, "w")
	p.overtake("x", true)
	for _, shard := range []string{"a", "b", "c"} { // behind it, and without a finding
		w.Decided(p.ann.View, p.ann.Write(shard, "one"))
	}
	w.Until("restarts", func() bool {
		return w.Count("hence_processor_restarts_total", "processor", "anomalies") >= 2
	})
	stop()
	if found := anomalies(w, "w"); len(found) != 0 {
		t.Fatalf("it was published: %+v", found)
	}
	fault.Remove()
	w.Run(w.Cfg)
	w.Until("the anomaly", func() bool { return len(anomalies(w, "w")) > 0 })
}

// TestAnomaliesEqualTheExport: what was found live, in a window that holds all of it, is what a check of the whole
// exported history finds.
func TestAnomaliesEqualTheExport(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Anomalies = 1000 })
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "w")
	r := rand.New(rand.NewPCG(17, 3))
	agents := []*teststreams.Agent{w.Join(c, v, "w", "ann"), w.Join(c, v, "w", "ben"), w.Join(c, v, "w", "cas")}
	var last sequencer.Outcome
	for range 60 {
		a := agents[r.IntN(len(agents))]
		shard := func() string { return string(rune('x' + r.IntN(3))) }
		tx, in := a.Intent(shard(), fmt.Sprint(r.IntN(3)))
		if in.Begin.Observe = r.IntN(4) > 0; last.Seq > 0 {
			in.Base = last.Seq - min(last.Seq-3, sequencer.Seq(r.IntN(8)))
		}
		for range r.IntN(3) { // some are stale; each shows what stood there
			in.Seal.Reads = append(in.Seal.Reads, sequencer.Read{Scope: sequencer.Scope("shard:/" + shard()), View: in.Base})
		}
		a.Append(in)
		last = w.Decided(v, tx)
	}
	level := judged(w, c, "w", last.Seq)
	key := func(kind anomaly.Kind, records []string, cell, other string) string {
		switch kind {
		case anomaly.Cycle: // which one of the shortest is named depends on when it was looked for
			return "cycle"
		case anomaly.A3, anomaly.Scar:
			return fmt.Sprint(kind, records[0])
		}
		return fmt.Sprint(kind, records, cell, other)
	}
	h := exported(w, "w")
	report, whole := h.Check(), map[string]bool{}
	for _, f := range report.Findings {
		var records []string
		for _, i := range f.Records {
			records = append(records, h.Who(i).Txn)
		}
		whole[key(f.Kind, records, f.Cell, f.Cell2)] = true
	}
	live := map[string]bool{}
	w.Until("as many findings", func() bool { // the level is told before the last of them is acknowledged
		for _, a := range anomalies(w, "w") {
			var records []string
			for _, op := range a.Operations {
				records = append(records, string(op.Tx))
			}
			named := func(k anomaly.Kind) bool { return k.String() == a.Kind }
			kind := anomaly.Kinds()[slices.IndexFunc(anomaly.Kinds(), named)]
			live[key(kind, records, a.Cell, a.OtherCell)] = true
		}
		return len(live) >= len(whole)
	})
	if !maps.Equal(live, whole) || len(whole) < 20 {
		t.Errorf("live:\n%q\nwhole:\n%q", slices.Sorted(maps.Keys(live)), slices.Sorted(maps.Keys(whole)))
	}
	least, most := report.Points()
	if level.PointLeast != least.String() || level.PointMost != most.String() || level.Operations != report.Ops ||
		level.OwnOverlaps != report.OwnOverlaps || level.Serializable != report.Serializable() {
		t.Errorf("level %+v, whole %s to %s, %d operations, %d own", level, least, most, report.Ops, report.OwnOverlaps)
	}
}

// exported is a workspace's history as hence export makes it.
func exported(w *teststreams.World, workspace string) *anomaly.History {
	w.T.Helper()
	log, err := recorded.Open(w.Context(), w.Cfg, workspace)
	if err != nil {
		w.T.Fatal(err)
	}
	b, h := history.New(0), anomaly.NewHistory(0)
	err = log.Intents(w.Context(), func(in recorded.Intent) error { b.ScanIntent(in.Intent); return nil })
	err = errors.Join(err, log.Decisions(w.Context(), 0, func(d recorded.Decision) error {
		b.ScanDecision(d.Outcome)
		return nil
	}))
	err = errors.Join(err, log.Together(w.Context(), 0, func(in recorded.Intent) error {
		b.Intent(in.In.Offset, in.Intent)
		return nil
	}, func(d recorded.Decision) (err error) {
		for _, r := range b.Decision(d.Outcome) {
			err = errors.Join(err, h.Add(r.Op(0)))
		}
		return err
	}))
	if err != nil {
		w.T.Fatal(err)
	}
	return h
}

// TestAnomaliesOff: where anomalies are not asked for nothing reads for them, there is no topic, and who asks is told.
func TestAnomaliesOff(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	newPair(w, c, "w").overtake("x", true)
	groups, err := kadm.NewClient(w.Kafka()).ListGroups(w.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(groups.Groups(), topology.GroupAnomalies) || len(groups.Groups()) != 3 {
		t.Errorf("groups: %v", groups.Groups())
	}
	if _, err := c.Level(w.Context(), "w"); !errors.Is(err, streams.ErrNoAnswer) {
		t.Errorf("level: %v", err)
	}
	err = c.FollowAnomalies(w.Context(), "w", -1, nil)
	if !errors.Is(err, streams.ErrAnomaliesOff) {
		t.Errorf("follow: %v", err)
	}
}
