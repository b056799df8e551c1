package processor_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// When the log is kept for less long than a workspace stands still, its records are gone, and this is said.
func TestStoppedWorkspaceBeyondRetention(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t, func(c *streams.Config) { c.StateAfter = 20 * time.Millisecond })
	w.Cfg.Health = new(streams.Health)
	stop := w.Run(poisoned(w.Cfg, "ann-1"))
	d := newDuo(w)
	d.bad.Write("x", "y")
	halts(w, 1)
	d.goesOn()
	stop()
	at := markOf(w, "shop", topology.GroupSequencer).From
	behead(w, d.partition, at+1)
	w.Run(w.Cfg)
	halts(w, 1)
	text := w.Cfg.Health.Notes()["workspace shop"]
	for _, want := range []string{"what came before is deleted", fmt.Sprintf("records from offset %d on", at),
		fmt.Sprintf("begins at offset %d now", at+1), "copy the other group's table", errPoison.Error()} {
		if !strings.Contains(text, want) {
			t.Errorf("it is not said %q: %s", want, text)
		}
	}
	d.bad.Write("x", "y")
	d.goesOn()
}

// A mark that a later state has made void, and whose deletion Kafka did not take, stops no workspace when the log is
// kept for less long: its state has what is gone.
func TestVoidMarkBeyondRetention(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t)
	stop := w.Run(w.Cfg)
	d := newDuo(w)
	for range 5 {
		w.Decided(d.bad.View, d.bad.Write("x", "y"))
	}
	stop()
	end, err := streams.EndOffset(w.Context(), w.Kafka(), topology.TopicIntents, d.partition)
	if err != nil {
		t.Fatal(err)
	}
	mark, err := topology.EncodeStopped(&topology.Stopped{Workspace: "shop", From: 1, At: 1, State: 0,
		Reason: "an older release could not pass it"})
	if err != nil {
		t.Fatal(err)
	}
	w.Put(w.Kafka(), topology.TableOf(topology.GroupSequencer), topology.StoppedKey("shop"), mark)
	behead(w, d.partition, end-1)
	w.Cfg.Health = new(streams.Health)
	w.Run(w.Cfg)
	w.Well(w.Cfg.Health)
	if notes := w.Cfg.Health.Notes(); len(notes) > 0 {
		t.Fatal(notes)
	}
	d.recovers(d.bad.Write("x", "z"))
}

// A record of unknown logic stops its workspace, not the others, and is never refused: a binary that knows it goes on
// with every record.
func TestUnknownLogicStopsTheWorkspace(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t, func(c *streams.Config) { c.StateAfter = 20 * time.Millisecond })
	w.Cfg.Health = new(streams.Health)
	old := w.Cfg
	old.Faults.KnownLogic = sequencer.Logic - 1
	stop := w.Run(old)
	d := newDuo(w)
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic = 1, sequencer.Logic
	d.bad.Append(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
	d.bad.Write("x", "y")
	halts(w, 1)
	d.goesOn()
	if text := w.Cfg.Health.Notes()["workspace shop"]; !strings.Contains(text, sequencer.ErrUnknownLogic.Error()) {
		t.Errorf("the note: %s", text)
	}
	stop()
	stop = w.Run(w.Cfg)
	w.Decided(d.bad.View, "ann-1")
	d.bad.Write("x", "y")
	w.Decided(d.bad.View, "ann-2")
	w.Until("a state of the new logic", func() bool { return markOf(w, "shop", topology.GroupSequencer) == nil })
	stop()

	// The older binary again: it cannot read the state, which stays as it is.
	stop = w.Run(old)
	halts(w, 1)
	d.bad.Write("x", "y")
	d.goesOn()
	if text := w.Cfg.Health.Notes()["workspace shop"]; !strings.Contains(text, "cannot be read") {
		t.Errorf("the note: %s", text)
	}
	if m := markOf(w, "shop", topology.GroupSequencer); m == nil || m.From != m.At {
		t.Errorf("the mark: %+v", m)
	}
	stop()
	w.Run(w.Cfg)
	d.recovers("ann-3")
}

// A mark that cannot be written keeps the offsets that it would let go.
func TestOffsetsWaitForTheMark(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t, func(c *streams.Config) { c.StateAfter = time.Millisecond })
	var armed atomic.Bool
	cfg := w.Cfg
	cfg.Faults.Encode = func(o *sequencer.Outcome) error {
		if armed.Load() && o.Workspace == "shop" {
			return errPoison
		}
		return nil
	}
	stop := w.Run(cfg)
	d := newDuo(w)
	w.Until("the joins are committed", func() bool { return w.Committed(d.partition) == 2 })
	fault := w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1,
		Topic: topology.TableOf(topology.GroupSequencer), Err: kerr.NotLeaderForPartition})
	armed.Store(true)
	d.bad.Write("x", "y")
	halts(w, 1)
	w.Decided(d.good.View, d.good.Write("x", "y"))
	w.Begun(d.partition, 0)
	if at := w.Committed(d.partition); at != 2 {
		t.Errorf("offset %d is committed, and no mark covers the record before it", at)
	}
	fault.Remove()
	d.goesOn()
	stop()
	w.Run(w.Cfg)
	d.recovers("ann-1")
}

// A state that cannot be read stops its workspace and stays as it is: who puts it right finds every record.
func TestUnreadableStateKeepsItsRecords(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t)
	w.Cfg.Health = new(streams.Health)
	w.Put(w.Kafka(), topology.TableOf(topology.GroupSequencer), "shop", []byte("broken"))
	c := w.Dial(w.Cfg)
	for _, id := range []string{"j1", "j2"} {
		in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann", Join: &sequencer.Join{ID: id}}
		if _, err := c.Append(w.Context(), "shop", in); err != nil {
			t.Fatal(err)
		}
	}
	fault := w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1,
		Topic: topology.TableOf(topology.GroupSequencer), Err: kerr.NotLeaderForPartition})
	stop := w.Run(w.Cfg)
	halts(w, 1)
	p := topology.PartitionOf("shop", w.Cfg.Partitions)
	w.Begun(p, 0)
	parked := &kgo.Record{Topic: topology.TopicIntents, Key: []byte("No Workspace"), Partition: 1 - p}
	if err := w.Kafka().ProduceSync(w.Context(), parked).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.Until("a commit", func() bool { return w.Committed(1-p) == 1 }) // of all partitions, when one has something
	if at := w.Committed(p); at != 0 {
		t.Errorf("offset %d is committed, and no mark covers what is before it", at)
	}
	fault.Remove()
	w.Until("the offsets", func() bool { return w.Committed(p) == 2 })
	text := w.Cfg.Health.Notes()["workspace shop"]
	for _, want := range []string{"its state in hence-sequencer-table cannot be read", "copy the other group's table",
		"kafka-topics.sh"} {
		if !strings.Contains(text, want) {
			t.Errorf("it is not said %q: %s", want, text)
		}
	}
	stop()
	for _, r := range w.Records(topology.TableOf(topology.GroupSequencer)) {
		if string(r.Key) == "shop" && string(r.Value) != "broken" {
			t.Errorf("the row was written over with %x", r.Value)
		}
	}
	st := sequencer.NewReplica("shop").State()
	row, err := topology.EncodeReplica(&st)
	if err != nil {
		t.Fatal(err)
	}
	w.Put(w.Kafka(), topology.TableOf(topology.GroupSequencer), "shop", row)
	w.Run(w.Cfg)
	v := w.Follow(c, "shop")
	w.Until("both joins", func() bool { return v.Len() >= 2 })
	w.Complete(v, "shop")
	unmarked(w, "shop")
}

// A broker may refuse a state and take the mark that was sent behind it. What that state had is not committed then,
// and is read again together with what the mark covers.
func TestMarkBehindALostState(t *testing.T) {
	w := teststreams.New(t)
	cl, p := w.Kafka(), topology.PartitionOf("shop", w.Cfg.Partitions)
	table := topology.TableOf(topology.GroupSequencer)
	replica := sequencer.NewReplica("shop")
	ann := &teststreams.Agent{Name: "ann", Incarnation: 1}
	ins := []*sequencer.Intent{{Kind: sequencer.IntentJoin, N: 1, Agent: "ann", Join: &sequencer.Join{ID: "j"}}}
	for range 3 {
		_, in := ann.Intent("x", "y")
		ins = append(ins, in)
	}
	for n, in := range ins {
		value, err := topology.EncodeIntent(in)
		if err != nil {
			t.Fatal(err)
		}
		if at := w.Put(cl, topology.TopicIntents, "shop", value).Offset; n > 0 {
			continue
		} else if _, err := replica.Apply(at, in); err != nil {
			t.Fatal(err)
		}
	}
	st := replica.State() // with the join
	row, err := topology.EncodeReplica(&st)
	if err != nil {
		t.Fatal(err)
	}
	w.Put(cl, table, "shop", row)
	mark, err := topology.EncodeStopped(&topology.Stopped{Workspace: "shop", From: 2, At: 2, State: 0, Reason: "it was"})
	if err != nil {
		t.Fatal(err)
	}
	w.Put(cl, table, topology.StoppedKey("shop"), mark) // behind a state with ann-1, at offset 1, that was refused
	var read kadm.Offsets
	read.Add(kadm.Offset{Topic: topology.TopicIntents, Partition: p, At: 1, LeaderEpoch: -1})
	if err := kadm.NewClient(cl).CommitAllOffsets(w.Context(), topology.GroupSequencer, read); err != nil {
		t.Fatal(err)
	}
	w.Run(w.Cfg)
	v := w.Follow(w.Dial(w.Cfg), "shop")
	for _, tx := range []sequencer.TxID{"ann-1", "ann-2", "ann-3"} {
		if o := w.Decided(v, tx); o.Kind != sequencer.OutcomeCommitted {
			t.Errorf("%s: %s", tx, o.Code)
		}
	}
	w.Complete(v, "shop")
	unmarked(w, "shop")
}

// A state that is gone is not started again in the middle of the log.
func TestLostStateOfAStoppedWorkspace(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t, func(c *streams.Config) { c.StateAfter = 20 * time.Millisecond })
	w.Cfg.Health = new(streams.Health)
	stop := w.Run(poisoned(w.Cfg, "ann-2"))
	d := newDuo(w)
	w.Decided(d.bad.View, d.bad.Write("x", "y"))
	d.goesOn()
	d.bad.Write("x", "y")
	halts(w, 1)
	d.goesOn()
	stop()
	gone := &kgo.Record{Topic: topology.TableOf(topology.GroupSequencer), Key: []byte("shop"), Partition: d.partition}
	if err := w.Kafka().ProduceSync(w.Context(), gone).FirstErr(); err != nil {
		t.Fatal(err)
	}
	before := d.bad.View.Len()
	w.Run(w.Cfg)
	halts(w, 1)
	d.goesOn()
	text := w.Cfg.Health.Notes()["workspace shop"]
	if !strings.Contains(text, "is gone from") || d.bad.View.Len() != before {
		t.Errorf("%d decisions, and the note: %s", d.bad.View.Len()-before, text)
	}
}

// A settlement within the size of an intent leads, in a log of an older logic, to a decision that no encoder takes, or
// to one that no decoder does.
func TestHostileSettlementStopsOneWorkspace(t *testing.T) {
	t.Parallel()
	for _, name := range []sequencer.TxID{"t", sequencer.TxID(strings.Repeat("t", 50))} {
		t.Run(fmt.Sprint(len(name)), func(t *testing.T) {
			w := teststreams.New(t)
			w.Run(w.Cfg)
			d := newDuo(w)
			a := d.bad
			effect := sequencer.Effect{Scopes: []sequencer.Scope{"res:/a"}, Class: sequencer.ClassIrreversible, Tool: "x",
				Known: true}
			a.Append(&sequencer.Intent{Kind: sequencer.IntentSeal, Tx: name, N: 1, Agent: "ann",
				Incarnation: a.Incarnation, Base: a.Incarnation, Begin: &sequencer.Begin{},
				Seal: &sequencer.Seal{Effects: []sequencer.Effect{effect}}})
			w.Decided(a.View, name)
			settle := &sequencer.Intent{Kind: sequencer.IntentSettle, Tx: name, N: 1, Agent: "ann",
				Incarnation: a.Incarnation, Base: a.Incarnation,
				Settle: &sequencer.Settle{Effects: []sequencer.Settled{{}}}}
			for i := range 40_000 {
				settle.Settle.Effects[0].Scopes = append(settle.Settle.Effects[0].Scopes,
					sequencer.Scope(fmt.Sprintf("r:/%d", i)))
			}
			a.Append(settle)
			a.Write("orders/1", "x")
			halts(w, 1)
			d.goesOn()
			if n := w.Count("hence_processor_restarts_total") + w.Count("hence_records_parked_total"); n != 0 {
				t.Errorf("%v restarts and parked records", n)
			}
		})
	}
}
