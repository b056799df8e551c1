package processor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/hostile"
	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// stillClock stands, so that nothing but what a test writes is in the log: no tick is ever due.
type stillClock struct{ now time.Time }

func (c stillClock) Now() time.Time                         { return c.now }
func (c stillClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// hostileLog is the records of one workspace, as they stand in the log, and the seq of its last decision.
type hostileLog struct {
	workspace string
	records   [][]byte
	seq       sequencer.Seq
	fits      bool // all that is decided can be written
}

// add appends a record and returns what is decided about it. One of an unknown logic is left out.
func (l *hostileLog) add(f *sequencer.Fold, b []byte) []sequencer.Outcome {
	in, err := topology.DecodeIntent(b)
	if err != nil || len(b) > hostile.RecordBytes {
		in = nil // it is parked
	}
	step, err := f.Step(int64(len(l.records)), in)
	if err != nil {
		return nil
	}
	l.records = append(l.records, b)
	l.seq = f.Seq()
	for i := range step.Outcomes {
		_, err := topology.EncodeCloudEvent(&step.Outcomes[i], time.Time{}, "")
		l.fits = l.fits && err == nil
	}
	if l.fits && f.State().Rules.Logic < sequencer.Logic { // a newer one has rows that fit, which is for the test to find
		_, err := topology.EncodeReplica(&sequencer.ReplicaState{State: f.State()})
		l.fits = err == nil
	}
	return step.Outcomes
}

// largestLog leads up to the largest record of a kind.
func largestLog(t *testing.T, workspace string, c hostile.Case) *hostileLog {
	t.Helper()
	before, last, err := c.Make(sequencer.Logic, false, hostile.Full)
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	l, f := &hostileLog{workspace: workspace, fits: true}, sequencer.New(workspace)
	for _, in := range append(before, last) {
		b, err := topology.EncodeIntent(in)
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		l.add(f, b)
	}
	return l
}

// mutatedLog is mutated records of every kind, between others that make sense.
func mutatedLog(workspace string, seed uint64, logic uint32, records int) *hostileLog {
	l, f := &hostileLog{workspace: workspace, fits: true}, sequencer.New(workspace)
	w, kinds := hostile.NewWorld(seed, logic), hostile.Kinds()
	send := func(in *sequencer.Intent, garble bool) {
		b, err := topology.EncodeIntent(in)
		if err != nil {
			return
		}
		if garble {
			b = w.Garble(b, b)
		}
		out := l.add(f, b)
		for i := range out {
			w.See(&out[i])
		}
		if next, has := f.NextTick(); has {
			w.Ticks(next)
		}
	}
	for _, in := range w.Founding() {
		send(in, false)
	}
	for i := range records {
		send(w.Any(), false)
		send(w.Twist(w.Draw(kinds[i%len(kinds)])), !w.Whole())
	}
	return l
}

// maxHostileLog is how many records may lead up to one that is sent through the processors.
const maxHostileLog = 600

// hostileLogs are logs of workspaces in the partition of another one.
func hostileLogs(t *testing.T, beside string, partitions int32, logic uint32) (logs []*hostileLog) {
	t.Helper()
	n, partition := 0, topology.PartitionOf(beside, partitions)
	next := func() string {
		for n++; topology.PartitionOf(fmt.Sprintf("h%d", n), partitions) != partition; n++ {
		}
		return fmt.Sprintf("h%d", n)
	}
	for seed := range uint64(4) {
		logs = append(logs, mutatedLog(next(), seed, logic, 150))
	}
	if logic < sequencer.Logic {
		return logs
	}
	for i, c := range hostile.Largest() {
		if testsize.Small() && i%8 != 0 {
			continue // a sample
		}
		if l := largestLog(t, next(), c); len(l.records) <= maxHostileLog {
			logs = append(logs, l)
		}
	}
	return logs
}

// send writes the logs' records, and between them transactions of an agent that commits all the time.
func sendAll(w *teststreams.World, logs []*hostileLog, a *teststreams.Agent) (committed []sequencer.TxID) {
	w.T.Helper()
	cl := w.Kafka()
	for _, l := range logs {
		var batch []*kgo.Record
		for _, b := range l.records {
			batch = append(batch, &kgo.Record{Topic: topology.TopicIntents, Key: []byte(l.workspace), Value: b,
				Partition: topology.PartitionOf(l.workspace, w.Cfg.Partitions)})
		}
		if err := cl.ProduceSync(w.Context(), batch...).FirstErr(); err != nil {
			w.T.Fatal(err)
		}
		committed = append(committed, a.Write(fmt.Sprintf("orders/%d", len(committed)), "x"))
	}
	return committed
}

// nothingOfOurs holds that no record that the processors wrote themselves was put aside.
func nothingOfOurs(w *teststreams.World) {
	w.T.Helper()
	for _, r := range w.Records(topology.TopicParked) {
		for _, h := range r.Headers {
			if h.Key == topology.HeaderParkedTopic && string(h.Value) != topology.TopicIntents {
				w.T.Errorf("a record of %s is parked: %.80q", h.Value, r.Key)
			}
		}
	}
}

func hostileWorld(t *testing.T) *teststreams.World {
	t.Helper()
	return teststreams.New(t, func(c *streams.Config) {
		c.Clock, c.StateEvery = stillClock{time.Unix(1_000_000, 0)}, 32
	})
}

// Hostile records in workspaces of one partition: no processor stops or restarts, nothing of ours is parked, and
// a reader that has only Kafka reads every decision; snapshots and other workspaces go on.
func TestHostileRecordsHurtNoOther(t *testing.T) {
	t.Parallel()
	w := hostileWorld(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	logs := hostileLogs(t, "shop", w.Cfg.Partitions, sequencer.Logic)
	for _, tx := range sendAll(w, logs, a) {
		if o := w.Decided(v, tx); o.Kind != sequencer.OutcomeCommitted {
			t.Errorf("%s is %s, %s", tx, o.Kind, o.Code)
		}
	}
	w.Servers.StopNATS()
	late, records, decisions := w.Dial(w.Cfg), 0, sequencer.Seq(0)
	for _, l := range logs {
		records, decisions = records+len(l.records), decisions+l.seq
		if !l.fits {
			t.Errorf("%s: not all that is decided can be written", l.workspace)
		}
		from := w.Follow(late, l.workspace)
		w.Until(fmt.Sprintf("%d decisions of %s on Kafka", l.seq, l.workspace), func() bool {
			return sequencer.Seq(from.Len()) >= l.seq
		})
		w.Until("snapshot of "+l.workspace, func() bool {
			s, err := c.Snapshot(w.Context(), l.workspace)
			return err == nil && s.Seq == l.seq
		})
	}
	t.Logf("%d records of %d workspaces, %d decisions", records, len(logs), decisions)
	if n := w.Count("hence_processor_restarts_total"); n != 0 {
		t.Errorf("%v restarts", n)
	}
	if n := w.Count("hence_partitions_stopped"); n != 0 {
		t.Errorf("%v partitions stopped", n)
	}
	nothingOfOurs(w)
}

// Under an older logic a workspace may decide what cannot be written. It stops, and no other one does.
func TestHostileRecordsOfOlderLogicHurtNoOther(t *testing.T) {
	t.Parallel()
	w := hostileWorld(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	logs := hostileLogs(t, "shop", w.Cfg.Partitions, sequencer.Logic-1)
	logs = append(logs, unwritable("h0", w.Cfg.Partitions, "shop"))
	for _, tx := range sendAll(w, logs, a) {
		if o := w.Decided(v, tx); o.Kind != sequencer.OutcomeCommitted {
			t.Errorf("%s is %s, %s", tx, o.Kind, o.Code)
		}
	}
	for _, l := range logs {
		if !l.fits {
			continue
		}
		w.Until("snapshot of "+l.workspace, func() bool {
			s, err := c.Snapshot(w.Context(), l.workspace)
			return err == nil && s.Seq == l.seq
		})
	}
	if n := w.Count("hence_processor_restarts_total"); n != 0 {
		t.Errorf("%v restarts", n)
	}
	nothingOfOurs(w)
}

// unwritable is a workspace of logic 2 whose last decision no record can hold.
func unwritable(prefix string, partitions int32, beside string) *hostileLog {
	name := prefix
	for topology.PartitionOf(name, partitions) != topology.PartitionOf(beside, partitions) {
		name += "x"
	}
	l, f := &hostileLog{workspace: name, fits: true}, sequencer.New(name)
	tx := sequencer.TxID(strings.Repeat("\x01", 4<<10))
	effect := sequencer.Effect{Class: sequencer.ClassIrreversible, Tool: "t"}
	for i := range 255 {
		effect.Scopes = append(effect.Scopes, sequencer.Scope(fmt.Sprintf("doc:/%d", i)))
	}
	for _, in := range []*sequencer.Intent{
		{Kind: sequencer.IntentJoin, Agent: "ann", Join: &sequencer.Join{ID: "j", Logic: sequencer.Logic - 1}},
		{Kind: sequencer.IntentSeal, Tx: tx, N: 1, Agent: "ann", Incarnation: 1, Base: 1,
			Seal: &sequencer.Seal{Effects: []sequencer.Effect{effect}}},
	} {
		if b, err := topology.EncodeIntent(in); err == nil {
			l.add(f, b)
		}
	}
	return l
}
