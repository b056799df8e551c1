package streams_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

var errPoison = errors.New("it is poison")

// samePartition is another workspace in the same partition.
func samePartition(workspace string, partitions int32) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("n%d", i)
		if topology.PartitionOf(name, partitions) == topology.PartitionOf(workspace, partitions) {
			return name
		}
	}
}

// poisoned is a release that cannot write the commit of a transaction.
func poisoned(cfg streams.Config, tx sequencer.TxID) streams.Config {
	cfg.Faults.Encode = func(o *sequencer.Outcome) error {
		if o.Tx == tx && o.Kind == sequencer.OutcomeCommitted {
			return errPoison
		}
		return nil
	}
	return cfg
}

// halts waits until so many workspaces have stopped.
func (w *world) halts(n float64) {
	w.t.Helper()
	w.until(fmt.Sprintf("%v stopped workspaces", n), func() bool { return w.count("hence_workspaces_stopped") == n })
}

// unmarked waits until the sequencer's table has no mark of a workspace.
func (w *world) unmarked(workspace string) {
	w.t.Helper()
	w.until("the mark's end", func() bool { return w.mark(workspace, topology.GroupSequencer) == nil })
}

// mark is where a group's table says that a workspace has stopped; nil: it does not.
func (w *world) mark(workspace, group string) (s *topology.Stopped) {
	w.t.Helper()
	for _, r := range w.records(topology.TableOf(group)) {
		if string(r.Key) != topology.StoppedKey(workspace) {
			continue
		}
		var err error
		if s = nil; r.Value != nil {
			if s, err = topology.DecodeStopped(r.Value); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return s
}

// duo is two workspaces in one partition, with an agent in each.
type duo struct {
	w         *world
	c         *streams.Client
	partition int32
	bad, good *agent
}

func (w *world) duo() *duo {
	w.t.Helper()
	d := &duo{w: w, c: w.dial(w.cfg), partition: topology.PartitionOf("shop", w.cfg.Partitions)}
	d.bad = w.join(d.c, w.follow(d.c, "shop"), "shop", "ann")
	name := samePartition("shop", w.cfg.Partitions)
	d.good = w.join(d.c, w.follow(d.c, name), name, "bob")
	return d
}

// goesOn holds that the other workspace commits, and that the offsets of all records are let go.
func (d *duo) goesOn() {
	d.w.t.Helper()
	d.good.renew()
	d.w.decided(d.good.v, d.good.write("x", "y"))
	end := int64(0)
	for _, r := range d.w.records(topology.TopicIntents) {
		if r.Partition == d.partition {
			end = r.Offset + 1
		}
	}
	d.w.until("offsets of all records", func() bool { return d.w.committed(d.partition) >= end })
}

// recovers holds that all of the stopped workspace is decided, once and in order, and that nothing says any more that
// it had stopped.
func (d *duo) recovers(last sequencer.TxID) {
	d.w.t.Helper()
	d.w.decided(d.bad.v, last)
	d.w.decided(d.bad.v, d.bad.write("x", "and on"))
	d.w.complete(d.bad.v, d.bad.workspace)
	d.w.complete(d.good.v, d.good.workspace)
	d.w.unmarked(d.bad.workspace)
	d.w.halts(0)
	for tx := range d.bad.n {
		if o := d.w.decided(d.bad.v, sequencer.TxID(fmt.Sprintf("ann-%d", tx+1))); o.Kind != sequencer.OutcomeCommitted {
			d.w.t.Errorf("%s: %s", o.Tx, o.Code)
		}
	}
	for _, metric := range []string{"hence_frontier_gaps_total", "hence_scars_total", "hence_replica_divergence"} {
		if n := d.w.count(metric); n != 0 {
			d.w.t.Errorf("%s is %v", metric, n)
		}
	}
}

// A decision or a state that cannot be written stops its workspace. The others of its partition go on, with their
// offsets; a release that can write it finds every record.
func TestEncodingErrorStopsOneWorkspace(t *testing.T) {
	t.Parallel()
	state := func(cfg streams.Config) streams.Config {
		cfg.Faults.EncodeState = func(workspace string, st *sequencer.ReplicaState) error {
			if workspace == "shop" && st.State.Seq >= 3 {
				return errPoison
			}
			return nil
		}
		return cfg
	}
	for name, broken := range map[string]func(streams.Config) streams.Config{
		"decision": func(cfg streams.Config) streams.Config { return poisoned(cfg, "ann-3") },
		"state":    state,
		"outbox": func(cfg streams.Config) streams.Config { // it shrinks: this is a wait
			cfg.Faults.EncodeState = func(_ string, st *sequencer.ReplicaState) error {
				if len(st.Outbox) > 0 {
					return errPoison
				}
				return nil
			}
			return poisoned(cfg, "ann-3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *streams.Config) { c.StateAfter = 20 * time.Millisecond })
			w.cfg.Health = new(streams.Health)
			stop := w.run(broken(w.cfg))
			d := w.duo()
			for range 5 {
				d.bad.write("x", "y")
			}
			w.halts(1)
			d.bad.write("x", "later")
			before := d.bad.v.len()
			d.goesOn()
			if d.bad.v.len() != before {
				t.Errorf("the stopped workspace decided: %+v", d.bad.v.all()[before:])
			}
			d.told()
			if n := w.count("hence_processor_restarts_total") + w.count("hence_partitions_stopped"); n != 0 {
				t.Errorf("%v restarts and stopped partitions", n)
			}
			stop()
			if n := w.count("hence_workspaces_stopped"); n != 0 {
				t.Errorf("%v workspaces have stopped in a process that ended", n)
			}
			stop = w.run(broken(w.cfg)) // the same release again: it stops where it did
			w.halts(1)
			d.goesOn()
			stop()
			w.run(w.cfg)
			d.recovers("ann-6")
			if notes := w.cfg.Health.Notes(); len(notes) != 0 {
				t.Errorf("it is still noted: %v", notes)
			}
		})
	}
}

// told holds what people are told of the stopped workspace.
func (d *duo) told() {
	d.w.t.Helper()
	m := d.w.mark("shop", topology.GroupSequencer)
	if m == nil || m.From > m.At || m.From <= m.State || !strings.Contains(m.Reason, errPoison.Error()) {
		d.w.t.Fatalf("the mark is %+v", m)
	}
	where := fmt.Sprintf("offset %d of hence.intents/%d", m.At, d.partition)
	from := fmt.Sprintf("from offset %d on again", m.From)
	note := d.w.cfg.Health.Notes()["workspace shop"]
	_, _, asked := d.c.Unsettled(d.w.context(), "shop", "", 10)
	_, doctor := d.w.inspect(d.w.cfg)
	for who, text := range map[string]string{"health": note, "question": fmt.Sprint(asked), "doctor": doctor} {
		for _, want := range []string{`workspace "shop" has stopped`, where, errPoison.Error(), "newer release", from} {
			if !strings.Contains(text, want) {
				d.w.t.Errorf("the %s does not say %q: %s", who, want, text)
			}
		}
	}
	for part, err := range d.w.cfg.Health.Ready() {
		if err != nil {
			d.w.t.Errorf("%s is not ready: %v", part, err)
		}
	}
	if _, _, err := d.c.Unsettled(d.w.context(), d.good.workspace, "", 10); err != nil {
		d.w.t.Errorf("a question about the other workspace: %v", err)
	}
}

// A workspace that stops before it has a state begins with its first record.
func TestWorkspaceStopsAtItsFirstRecord(t *testing.T) {
	w := newWorld(t)
	cfg := w.cfg
	cfg.Faults.Encode = func(*sequencer.Outcome) error { return errPoison }
	stop := w.run(cfg)
	c := w.dial(w.cfg)
	in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann", Join: &sequencer.Join{ID: "j1"}}
	if _, err := c.Append(w.context(), "shop", in); err != nil {
		t.Fatal(err)
	}
	w.halts(1)
	p := topology.PartitionOf("shop", w.cfg.Partitions)
	w.until("the offset", func() bool { return w.committed(p) == 1 })
	if m := w.mark("shop", topology.GroupSequencer); m == nil || m.From != 0 || m.At != 0 || m.State != -1 {
		t.Errorf("the mark: %+v", m)
	}
	stop()
	w.run(w.cfg)
	v := w.follow(c, "shop")
	w.until("the join", func() bool { return v.len() == 1 })
	w.unmarked("shop")
}

// What a processor leaves when it is killed at any time between a record and the acknowledgement of what it wrote
// about it: offsets, states and marks that are lost, or not. Nothing of a workspace that stops and goes on is lost,
// decided twice or out of order, whoever takes over.
func TestStoppedWorkspaceOutlivesKills(t *testing.T) {
	t.Parallel()
	table := topology.TableOf(topology.GroupSequencer)
	w := newWorld(t, func(c *streams.Config) { c.StateAfter = 10 * time.Millisecond })
	d := (*duo)(nil)
	random := rand.New(rand.NewPCG(11, 3))
	stopped := 0
	for round := range 8 {
		cfg := w.cfg
		poison := ""
		if d == nil || random.IntN(3) > 0 {
			n := 1
			if d != nil {
				n = max(1, d.bad.n-random.IntN(8)) // it may be decided, and published, already
			}
			poison = fmt.Sprintf("ann-%d", n)
			cfg = poisoned(cfg, sequencer.TxID(poison))
		}
		if random.IntN(2) > 0 {
			cfg.Instance = "two"
		}
		stop := w.run(cfg)
		if d == nil {
			d = w.duo()
		}
		write := func(n int) {
			for range n {
				d.bad.renew()
				d.bad.write("x", fmt.Sprint(round))
				d.good.renew()
				d.good.write("x", fmt.Sprint(round))
			}
		}
		write(random.IntN(4))
		lost := round * 3 % 8
		var faults []kfake.Fault
		if lost&1 != 0 {
			faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Count: -1,
				Err: kerr.CoordinatorLoadInProgress})
		}
		if lost&2 != 0 {
			faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Topic: table,
				Err: kerr.NotLeaderForPartition})
		}
		if lost == 4 { // one batch of the table is refused, and the next one is taken
			faults = append(faults, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: 1, Topic: table,
				Err: kerr.TopicAuthorizationFailed})
		}
		handle := w.servers.Kafka().Fault(faults...)
		write(1 + random.IntN(4))
		w.decided(d.good.v, sequencer.TxID(fmt.Sprintf("bob-%d", d.good.n)))
		if w.count("hence_workspaces_stopped") > 0 {
			stopped++
		}
		stop()
		handle.Remove()
		t.Logf("round %d: poison %q, lost %03b, stopped %d so far, mark %+v", round, poison, lost, stopped,
			w.mark("shop", topology.GroupSequencer))
	}
	if stopped == 0 {
		t.Error("nothing stopped")
	}
	w.run(w.cfg)
	d.recovers(sequencer.TxID(fmt.Sprintf("ann-%d", d.bad.n)))
}

// Both groups stop by themselves, and go on by themselves: the first that can publishes, and the states agree.
func TestBothGroupsStopAndGoOn(t *testing.T) {
	t.Parallel()
	w, a, b := replicas(t, func(c *streams.Config) { c.HashEvery, c.StateAfter = 4, 20*time.Millisecond })
	stopA, stopB := w.run(poisoned(a, "ann-3")), w.run(poisoned(b, "ann-3"))
	w.well(a.Health)
	w.well(b.Health)
	d := w.duo()
	for range 6 {
		d.bad.renew()
		d.bad.write("x", "y")
	}
	for name, h := range map[string]*streams.Health{"a": a.Health, "b": b.Health} {
		w.until("the stop of "+name, func() bool {
			return strings.Contains(h.Notes()["workspace shop"], "in replica "+name)
		})
	}
	d.goesOn()
	stopB()
	w.run(b)
	w.decided(d.bad.v, "ann-6")
	for range 8 { // while a stands still
		d.bad.renew()
		w.decided(d.bad.v, d.bad.write("x", "y"))
	}
	if _, _, err := d.c.Unsettled(w.context(), "shop", "", 10); err != nil {
		t.Errorf("a question that one group can answer: %v", err)
	}
	stopA()
	w.run(a)
	last := d.bad.write("x", "y")
	w.decided(d.bad.v, last)
	w.until("both copies of everything", func() bool {
		decisions, copies := w.published("shop")
		return copies >= len(decisions) && len(decisions) >= d.bad.v.len()
	})
	w.well(a.Health)
	w.well(b.Health)
	for name, h := range map[string]*streams.Health{"a": a.Health, "b": b.Health} {
		if len(h.Notes()) != 0 {
			t.Errorf("%s: %v", name, h.Notes())
		}
	}
	if w.count("hence_replica_divergence") != 0 || w.count("hence_replica_states_compared_total") == 0 {
		t.Error("the states differ, or were not compared")
	}
	w.complete(d.bad.v, "shop")
}
