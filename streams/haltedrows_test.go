package streams_test

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
	"github.com/hence-dev/hence/topology"
)

// When the log is kept for less long than a workspace stands still, its records are gone, and this is said.
func TestStoppedWorkspaceBeyondRetention(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *streams.Config) { c.StateAfter = 20 * time.Millisecond })
	w.cfg.Health = new(streams.Health)
	stop := w.run(poisoned(w.cfg, "ann-1"))
	d := w.duo()
	d.bad.write("x", "y")
	w.halts(1)
	d.goesOn()
	stop()
	at := w.mark("shop", topology.GroupSequencer).From
	w.behead(d.partition, at+1)
	w.run(w.cfg)
	w.halts(1)
	text := w.cfg.Health.Notes()["workspace shop"]
	for _, want := range []string{"what came before is deleted", fmt.Sprintf("records from offset %d on", at),
		fmt.Sprintf("begins at offset %d now", at+1), "copy the other group's table", errPoison.Error()} {
		if !strings.Contains(text, want) {
			t.Errorf("it is not said %q: %s", want, text)
		}
	}
	d.bad.write("x", "y")
	d.goesOn()
}

// A record of unknown logic stops its workspace, not the others, and is never refused: a binary that knows it goes on
// with every record.
func TestUnknownLogicStopsTheWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *streams.Config) { c.StateAfter = 20 * time.Millisecond })
	w.cfg.Health = new(streams.Health)
	old := w.cfg
	old.Faults.KnownLogic = sequencer.Logic - 1
	stop := w.run(old)
	d := w.duo()
	rules := sequencer.DefaultRules()
	rules.Version, rules.Logic = 1, sequencer.Logic
	d.bad.append(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
	d.bad.write("x", "y")
	w.halts(1)
	d.goesOn()
	if text := w.cfg.Health.Notes()["workspace shop"]; !strings.Contains(text, sequencer.ErrUnknownLogic.Error()) {
		t.Errorf("the note: %s", text)
	}
	stop()
	stop = w.run(w.cfg)
	w.decided(d.bad.v, "ann-1")
	d.bad.write("x", "y")
	w.decided(d.bad.v, "ann-2")
	w.until("a state of the new logic", func() bool { return w.mark("shop", topology.GroupSequencer) == nil })
	stop()

	// The older binary again: it cannot read the state, which stays as it is.
	stop = w.run(old)
	w.halts(1)
	d.bad.write("x", "y")
	d.goesOn()
	if text := w.cfg.Health.Notes()["workspace shop"]; !strings.Contains(text, "cannot be read") {
		t.Errorf("the note: %s", text)
	}
	if m := w.mark("shop", topology.GroupSequencer); m == nil || m.From != m.At {
		t.Errorf("the mark: %+v", m)
	}
	stop()
	w.run(w.cfg)
	d.recovers("ann-3")
}

// A mark that cannot be written keeps the offsets that it would let go.
func TestOffsetsWaitForTheMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *streams.Config) { c.StateAfter = time.Millisecond })
	var armed atomic.Bool
	cfg := w.cfg
	cfg.Faults.Encode = func(o *sequencer.Outcome) error {
		if armed.Load() && o.Workspace == "shop" {
			return errPoison
		}
		return nil
	}
	stop := w.run(cfg)
	d := w.duo()
	w.until("the joins are committed", func() bool { return w.committed(d.partition) == 2 })
	fault := w.servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1,
		Topic: topology.TableOf(topology.GroupSequencer), Err: kerr.NotLeaderForPartition})
	armed.Store(true)
	d.bad.write("x", "y")
	w.halts(1)
	w.decided(d.good.v, d.good.write("x", "y"))
	w.begun(d.partition, 0)
	if at := w.committed(d.partition); at != 2 {
		t.Errorf("offset %d is committed, and no mark covers the record before it", at)
	}
	fault.Remove()
	d.goesOn()
	stop()
	w.run(w.cfg)
	d.recovers("ann-1")
}

// A state that cannot be read stops its workspace and stays as it is: who puts it right finds every record.
func TestUnreadableStateKeepsItsRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.Health = new(streams.Health)
	w.put(w.kafka(), topology.TableOf(topology.GroupSequencer), "shop", []byte("broken"))
	c := w.dial(w.cfg)
	for _, id := range []string{"j1", "j2"} {
		in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann", Join: &sequencer.Join{ID: id}}
		if _, err := c.Append(w.context(), "shop", in); err != nil {
			t.Fatal(err)
		}
	}
	fault := w.servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1,
		Topic: topology.TableOf(topology.GroupSequencer), Err: kerr.NotLeaderForPartition})
	stop := w.run(w.cfg)
	w.halts(1)
	p := topology.PartitionOf("shop", w.cfg.Partitions)
	w.begun(p, 0)
	parked := &kgo.Record{Topic: topology.TopicIntents, Key: []byte("No Workspace"), Partition: 1 - p}
	if err := w.kafka().ProduceSync(w.context(), parked).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.until("a commit", func() bool { return w.committed(1-p) == 1 }) // of all partitions, when one has something
	if at := w.committed(p); at != 0 {
		t.Errorf("offset %d is committed, and no mark covers what is before it", at)
	}
	fault.Remove()
	w.until("the offsets", func() bool { return w.committed(p) == 2 })
	text := w.cfg.Health.Notes()["workspace shop"]
	for _, want := range []string{"its state in hence-sequencer-table cannot be read", "copy the other group's table",
		"kafka-topics.sh"} {
		if !strings.Contains(text, want) {
			t.Errorf("it is not said %q: %s", want, text)
		}
	}
	stop()
	for _, r := range w.records(topology.TableOf(topology.GroupSequencer)) {
		if string(r.Key) == "shop" && string(r.Value) != "broken" {
			t.Errorf("the row was written over with %x", r.Value)
		}
	}
	st := sequencer.NewReplica("shop").State()
	row, err := topology.EncodeReplica(&st)
	if err != nil {
		t.Fatal(err)
	}
	w.put(w.kafka(), topology.TableOf(topology.GroupSequencer), "shop", row)
	w.run(w.cfg)
	v := w.follow(c, "shop")
	w.until("both joins", func() bool { return v.len() >= 2 })
	w.complete(v, "shop")
	w.unmarked("shop")
}

// A broker may refuse a state and take the mark that was sent behind it. What that state had is not committed then,
// and is read again together with what the mark covers.
func TestMarkBehindALostState(t *testing.T) {
	w := newWorld(t)
	cl, p := w.kafka(), topology.PartitionOf("shop", w.cfg.Partitions)
	table := topology.TableOf(topology.GroupSequencer)
	replica := sequencer.NewReplica("shop")
	ann := &agent{name: "ann", incarnation: 1}
	ins := []*sequencer.Intent{{Kind: sequencer.IntentJoin, N: 1, Agent: "ann", Join: &sequencer.Join{ID: "j"}}}
	for range 3 {
		_, in := ann.intent("x", "y")
		ins = append(ins, in)
	}
	for n, in := range ins {
		value, err := topology.EncodeIntent(in)
		if err != nil {
			t.Fatal(err)
		}
		if at := w.put(cl, topology.TopicIntents, "shop", value).Offset; n > 0 {
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
	w.put(cl, table, "shop", row)
	mark, err := topology.EncodeStopped(&topology.Stopped{Workspace: "shop", From: 2, At: 2, State: 0, Reason: "it was"})
	if err != nil {
		t.Fatal(err)
	}
	w.put(cl, table, topology.StoppedKey("shop"), mark) // behind a state with ann-1, at offset 1, that was refused
	var read kadm.Offsets
	read.Add(kadm.Offset{Topic: topology.TopicIntents, Partition: p, At: 1, LeaderEpoch: -1})
	if err := kadm.NewClient(cl).CommitAllOffsets(w.context(), topology.GroupSequencer, read); err != nil {
		t.Fatal(err)
	}
	w.run(w.cfg)
	v := w.follow(w.dial(w.cfg), "shop")
	for _, tx := range []sequencer.TxID{"ann-1", "ann-2", "ann-3"} {
		if o := w.decided(v, tx); o.Kind != sequencer.OutcomeCommitted {
			t.Errorf("%s: %s", tx, o.Code)
		}
	}
	w.complete(v, "shop")
	w.unmarked("shop")
}

// A state that is gone is not begun anew in the middle of the log.
func TestLostStateOfAStoppedWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *streams.Config) { c.StateAfter = 20 * time.Millisecond })
	w.cfg.Health = new(streams.Health)
	stop := w.run(poisoned(w.cfg, "ann-2"))
	d := w.duo()
	w.decided(d.bad.v, d.bad.write("x", "y"))
	d.goesOn()
	d.bad.write("x", "y")
	w.halts(1)
	d.goesOn()
	stop()
	gone := &kgo.Record{Topic: topology.TableOf(topology.GroupSequencer), Key: []byte("shop"), Partition: d.partition}
	if err := w.kafka().ProduceSync(w.context(), gone).FirstErr(); err != nil {
		t.Fatal(err)
	}
	before := d.bad.v.len()
	w.run(w.cfg)
	w.halts(1)
	d.goesOn()
	text := w.cfg.Health.Notes()["workspace shop"]
	if !strings.Contains(text, "is gone from") || d.bad.v.len() != before {
		t.Errorf("%d decisions, and the note: %s", d.bad.v.len()-before, text)
	}
}

// A settlement within the size of an intent leads, in a log of an older logic, to a decision that no encoder takes, or
// to one that no decoder does.
func TestHostileSettlementStopsOneWorkspace(t *testing.T) {
	t.Parallel()
	for _, name := range []sequencer.TxID{"t", sequencer.TxID(strings.Repeat("t", 50))} {
		t.Run(fmt.Sprint(len(name)), func(t *testing.T) {
			w := newWorld(t)
			w.run(w.cfg)
			d := w.duo()
			a := d.bad
			effect := sequencer.Effect{Scopes: []sequencer.Scope{"res:/a"}, Class: sequencer.ClassIrreversible, Tool: "x",
				Known: true}
			a.append(&sequencer.Intent{Kind: sequencer.IntentSeal, Tx: name, N: 1, Agent: "ann",
				Incarnation: a.incarnation, Base: a.incarnation, Begin: &sequencer.Begin{},
				Seal: &sequencer.Seal{Effects: []sequencer.Effect{effect}}})
			w.decided(a.v, name)
			settle := &sequencer.Intent{Kind: sequencer.IntentSettle, Tx: name, N: 1, Agent: "ann",
				Incarnation: a.incarnation, Base: a.incarnation,
				Settle: &sequencer.Settle{Effects: []sequencer.Settled{{}}}}
			for i := range 40_000 {
				settle.Settle.Effects[0].Scopes = append(settle.Settle.Effects[0].Scopes,
					sequencer.Scope(fmt.Sprintf("r:/%d", i)))
			}
			a.append(settle)
			a.write("orders/1", "x")
			w.halts(1)
			d.goesOn()
			if n := w.count("hence_processor_restarts_total") + w.count("hence_records_parked_total"); n != 0 {
				t.Errorf("%v restarts and parked records", n)
			}
		})
	}
}
