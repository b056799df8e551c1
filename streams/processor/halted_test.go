package processor_test

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
	"github.com/hence-dev/hence/streams/internal/teststreams"
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
func halts(w *teststreams.World, n float64) {
	w.T.Helper()
	w.Until(fmt.Sprintf("%v stopped workspaces", n), func() bool { return w.Count("hence_workspaces_stopped") == n })
}

// unmarked waits until the sequencer's table has no mark of a workspace.
func unmarked(w *teststreams.World, workspace string) {
	w.T.Helper()
	w.Until("the mark's end", func() bool { return markOf(w, workspace, topology.GroupSequencer) == nil })
}

// mark is where a group's table says that a workspace has stopped; nil: it does not.
func markOf(w *teststreams.World, workspace, group string) (s *topology.Stopped) {
	w.T.Helper()
	for _, r := range w.Records(topology.TableOf(group)) {
		if string(r.Key) != topology.StoppedKey(workspace) {
			continue
		}
		var err error
		if s = nil; r.Value != nil {
			if s, err = topology.DecodeStopped(r.Value); err != nil {
				w.T.Fatal(err)
			}
		}
	}
	return s
}

// duo is two workspaces in one partition, with an agent in each.
type duo struct {
	w         *teststreams.World
	c         *streams.Client
	partition int32
	bad, good *teststreams.Agent
}

func newDuo(w *teststreams.World) *duo {
	w.T.Helper()
	d := &duo{w: w, c: w.Dial(w.Cfg), partition: topology.PartitionOf("shop", w.Cfg.Partitions)}
	d.bad = w.Join(d.c, w.Follow(d.c, "shop"), "shop", "ann")
	name := samePartition("shop", w.Cfg.Partitions)
	d.good = w.Join(d.c, w.Follow(d.c, name), name, "bob")
	return d
}

// goesOn holds that the other workspace commits, and that the offsets of all records are let go.
func (d *duo) goesOn() {
	d.w.T.Helper()
	renew(d.good)
	d.w.Decided(d.good.View, d.good.Write("x", "y"))
	end := int64(0)
	for _, r := range d.w.Records(topology.TopicIntents) {
		if r.Partition == d.partition {
			end = r.Offset + 1
		}
	}
	d.w.Until("offsets of all records", func() bool { return d.w.Committed(d.partition) >= end })
}

// recovers holds that all of the stopped workspace is decided, once and in order, and that nothing says any more that
// it had stopped.
func (d *duo) recovers(last sequencer.TxID) {
	d.w.T.Helper()
	d.w.Decided(d.bad.View, last)
	d.w.Decided(d.bad.View, d.bad.Write("x", "and on"))
	d.w.Complete(d.bad.View, d.bad.Workspace)
	d.w.Complete(d.good.View, d.good.Workspace)
	unmarked(d.w, d.bad.Workspace)
	halts(d.w, 0)
	for tx := range d.bad.N {
		if o := d.w.Decided(d.bad.View, sequencer.TxID(fmt.Sprintf("ann-%d", tx+1))); o.Kind != sequencer.OutcomeCommitted {
			d.w.T.Errorf("%s: %s", o.Tx, o.Code)
		}
	}
	for _, metric := range []string{"hence_frontier_gaps_total", "hence_scars_total", "hence_replica_divergence"} {
		if n := d.w.Count(metric); n != 0 {
			d.w.T.Errorf("%s is %v", metric, n)
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
			w := teststreams.New(t, func(c *streams.Config) { c.StateAfter = 20 * time.Millisecond })
			w.Cfg.Health = new(streams.Health)
			stop := w.Run(broken(w.Cfg))
			d := newDuo(w)
			for range 5 {
				d.bad.Write("x", "y")
			}
			halts(w, 1)
			later := d.bad.Write("x", "later")
			d.goesOn()
			for _, o := range d.bad.View.All() {
				if o.Tx == later {
					t.Errorf("the stopped workspace decided: %+v", o)
				}
			}
			d.told()
			if n := w.Count("hence_processor_restarts_total") + w.Count("hence_partitions_stopped"); n != 0 {
				t.Errorf("%v restarts and stopped partitions", n)
			}
			stop()
			if n := w.Count("hence_workspaces_stopped"); n != 0 {
				t.Errorf("%v workspaces have stopped in a process that ended", n)
			}
			stop = w.Run(broken(w.Cfg)) // the same release again: it stops where it did
			halts(w, 1)
			d.goesOn()
			stop()
			w.Run(w.Cfg)
			d.recovers("ann-6")
			if notes := w.Cfg.Health.Notes(); len(notes) != 0 {
				t.Errorf("it is still noted: %v", notes)
			}
		})
	}
}

// told holds what people are told of the stopped workspace.
func (d *duo) told() {
	d.w.T.Helper()
	m := markOf(d.w, "shop", topology.GroupSequencer)
	if m == nil || m.From > m.At || m.From <= m.State || !strings.Contains(m.Reason, errPoison.Error()) {
		d.w.T.Fatalf("the mark is %+v", m)
	}
	where := fmt.Sprintf("offset %d of hence.intents/%d", m.At, d.partition)
	from := fmt.Sprintf("from offset %d on again", m.From)
	note := d.w.Cfg.Health.Notes()["workspace shop"]
	_, _, asked := d.c.Unsettled(d.w.Context(), "shop", "", 10)
	_, doctor := d.w.Inspect(d.w.Cfg)
	for who, text := range map[string]string{"health": note, "question": fmt.Sprint(asked), "doctor": doctor} {
		for _, want := range []string{`workspace "shop" has stopped`, where, errPoison.Error(), "newer release", from} {
			if !strings.Contains(text, want) {
				d.w.T.Errorf("the %s does not say %q: %s", who, want, text)
			}
		}
	}
	for part, err := range d.w.Cfg.Health.Ready() {
		if err != nil {
			d.w.T.Errorf("%s is not ready: %v", part, err)
		}
	}
	if _, _, err := d.c.Unsettled(d.w.Context(), d.good.Workspace, "", 10); err != nil {
		d.w.T.Errorf("a question about the other workspace: %v", err)
	}
}

// A workspace that stops before it has a state begins with its first record.
func TestWorkspaceStopsAtItsFirstRecord(t *testing.T) {
	w := teststreams.New(t)
	cfg := w.Cfg
	cfg.Faults.Encode = func(*sequencer.Outcome) error { return errPoison }
	stop := w.Run(cfg)
	c := w.Dial(w.Cfg)
	in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "ann", Join: &sequencer.Join{ID: "j1"}}
	if _, err := c.Append(w.Context(), "shop", in); err != nil {
		t.Fatal(err)
	}
	halts(w, 1)
	p := topology.PartitionOf("shop", w.Cfg.Partitions)
	w.Until("the offset", func() bool { return w.Committed(p) == 1 })
	if m := markOf(w, "shop", topology.GroupSequencer); m == nil || m.From != 0 || m.At != 0 || m.State != -1 {
		t.Errorf("the mark: %+v", m)
	}
	stop()
	w.Run(w.Cfg)
	v := w.Follow(c, "shop")
	w.Until("the join", func() bool { return v.Len() == 1 })
	unmarked(w, "shop")
}

// What a processor leaves when it is killed at any time between a record and the acknowledgement of what it wrote
// about it: offsets, states and marks that are lost, or not. Nothing of a workspace that stops and goes on is lost,
// decided twice or out of order, whichever process takes over.
func TestStoppedWorkspaceOutlivesKills(t *testing.T) {
	t.Parallel()
	table := topology.TableOf(topology.GroupSequencer)
	w := teststreams.New(t, func(c *streams.Config) { c.StateAfter = 10 * time.Millisecond })
	d := (*duo)(nil)
	random := rand.New(rand.NewPCG(11, 3))
	stopped, rounds := 0, 8
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		cfg := w.Cfg
		poison := ""
		if d == nil || random.IntN(3) > 0 {
			n := 1
			if d != nil {
				n = max(1, d.bad.N-random.IntN(8)) // it may be decided, and published, already
			}
			poison = fmt.Sprintf("ann-%d", n)
			cfg = poisoned(cfg, sequencer.TxID(poison))
		}
		if random.IntN(2) > 0 {
			cfg.Instance = "two"
		}
		stop := w.Run(cfg)
		if d == nil {
			d = newDuo(w)
		}
		write := func(n int) {
			for range n {
				renew(d.bad)
				d.bad.Write("x", fmt.Sprint(round))
				renew(d.good)
				d.good.Write("x", fmt.Sprint(round))
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
		handle := w.Servers.Kafka().Fault(faults...)
		write(1 + random.IntN(4))
		w.Decided(d.good.View, sequencer.TxID(fmt.Sprintf("bob-%d", d.good.N)))
		if w.Count("hence_workspaces_stopped") > 0 {
			stopped++
		}
		stop()
		handle.Remove()
		t.Logf("round %d: poison %q, lost %03b, stopped %d so far, mark %+v", round, poison, lost, stopped,
			markOf(w, "shop", topology.GroupSequencer))
	}
	if stopped == 0 {
		t.Error("nothing stopped")
	}
	w.Run(w.Cfg)
	d.recovers(sequencer.TxID(fmt.Sprintf("ann-%d", d.bad.N)))
}

// Both groups stop by themselves, and go on by themselves: the first that can publishes, and the states agree.
func TestBothGroupsStopAndGoOn(t *testing.T) {
	t.Parallel()
	w, a, b := teststreams.Replicas(t, func(c *streams.Config) { c.HashEvery, c.StateAfter = 4, 20*time.Millisecond })
	stopA, stopB := w.Run(poisoned(a, "ann-3")), w.Run(poisoned(b, "ann-3"))
	w.Well(a.Health)
	w.Well(b.Health)
	d := newDuo(w)
	for range 6 {
		renew(d.bad)
		d.bad.Write("x", "y")
	}
	for name, h := range map[string]*streams.Health{"a": a.Health, "b": b.Health} {
		w.Until("the stop of "+name, func() bool {
			return strings.Contains(h.Notes()["workspace shop"], "in replica "+name)
		})
	}
	d.goesOn()
	stopB()
	w.Run(b)
	w.Decided(d.bad.View, "ann-6")
	for range 8 { // while a stands still
		renew(d.bad)
		w.Decided(d.bad.View, d.bad.Write("x", "y"))
	}
	if _, _, err := d.c.Unsettled(w.Context(), "shop", "", 10); err != nil {
		t.Errorf("a question that one group can answer: %v", err)
	}
	stopA()
	w.Run(a)
	last := d.bad.Write("x", "y")
	w.Decided(d.bad.View, last)
	w.Until("both copies of everything", func() bool {
		decisions, copies := w.Published("shop")
		return copies >= len(decisions) && len(decisions) >= d.bad.View.Len()
	})
	w.Well(a.Health)
	w.Well(b.Health)
	for name, h := range map[string]*streams.Health{"a": a.Health, "b": b.Health} {
		if len(h.Notes()) != 0 {
			t.Errorf("%s: %v", name, h.Notes())
		}
	}
	if w.Count("hence_replica_divergence") != 0 || w.Count("hence_replica_states_compared_total") == 0 {
		t.Error("the states differ, or were not compared")
	}
	w.Complete(d.bad.View, "shop")
}
