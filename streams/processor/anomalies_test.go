package processor_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
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
