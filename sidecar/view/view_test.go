package view

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// chained are decisions of workspace w, one after the other from seq 1 on.
func chained(list ...sequencer.Outcome) (out []*sequencer.Outcome) {
	var chain sequencer.Hash
	for i := range list {
		o := &list[i]
		o.Workspace, o.Seq = "w", sequencer.Seq(i+1)
		o.Chain = o.ChainAfter(chain)
		chain = o.Chain
		out = append(out, o)
	}
	return out
}

// writes are commits of one shard, so many.
func writes(n int) (list []sequencer.Outcome) {
	for i := range n {
		list = append(list, sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Tx: sequencer.TxID(fmt.Sprintf("a.1.%d", i)),
			Agent: "a", Shards: []sequencer.ShardWrite{{Scope: "shard:/x", Content: []byte{byte(i)}}}})
	}
	return list
}

func apply(t *testing.T, v *View, list ...*sequencer.Outcome) {
	t.Helper()
	for _, o := range list {
		if fresh, err := v.apply(o); err != nil || !fresh {
			t.Fatalf("decision %d: fresh %v, %v", o.Seq, fresh, err)
		}
	}
}

// A view does not answer before it has applied everything that its snapshot shows.
func TestSnapshotIsAPrefixOnlyLater(t *testing.T) {
	list := chained(writes(5)...)
	v := New("w", 1<<20, 1<<20)
	if v.Ready() == nil {
		t.Error("it answers before it has a snapshot")
	}
	v.start(&topology.Snapshot{Seq: 2, Through: 5, Chain: list[1].Chain, Shards: []topology.ShardRow{{Scope: "shard:/x",
		Version: 5, Content: []byte{4}}}})
	for _, o := range list[2:] {
		if v.Ready() == nil {
			t.Fatalf("it answers at %d of 5", v.At())
		}
		apply(t, v, o)
	}
	if err := v.Ready(); err != nil {
		t.Fatal(err)
	}
	if rev, at := v.Read("shard:/x"); rev.Version != 5 || at != 5 {
		t.Fatalf("version %d at %d", rev.Version, at)
	}
	if list, at := v.Revisions("shard:/x"); len(list) != 1 || list[0].Version != at {
		t.Fatalf("what lies before the snapshot came back as versions: %+v", list)
	}
	if fresh, err := v.apply(list[3]); fresh || err != nil {
		t.Errorf("a decision that is there: %v %v", fresh, err)
	}
}

// Views count a shard's writes alike, wherever they begin: at the first decision, at a snapshot, at one whose table
// ran ahead and lacks a decision that came late, and after the shard was taken away.
func TestWritesAreCountedAlike(t *testing.T) {
	undo := sequencer.Outcome{Kind: sequencer.OutcomeSettled, Tx: "a.1.0", Agent: "a", Retraction: "a.1.0",
		Shards: []sequencer.ShardWrite{{Scope: "shard:/x", Absent: true}}}
	list := chained(append(append(writes(4), undo), writes(3)...)...)
	want := []uint64{0, 1, 2, 3, 4, 0, 1, 2, 3}
	begun := func(s topology.Snapshot, count topology.WriteCount, version sequencer.Seq) *View {
		v := New("w", 1<<20, 1<<20)
		if s.Seq > 0 {
			s.Chain = list[s.Seq-1].Chain
			s.Shards = []topology.ShardRow{{Scope: "shard:/x", Version: version, Count: count}}
		}
		v.start(&s)
		return v
	}
	counted := func(writes uint64, counted ...sequencer.Seq) topology.WriteCount {
		return topology.WriteCount{Writes: writes, Counted: counted}
	}
	for name, v := range map[string]*View{
		"the first decision":  begun(topology.Snapshot{}, counted(0), 0),
		"a snapshot":          begun(topology.Snapshot{Seq: 2}, counted(2, 2), 2),
		"a table ahead":       begun(topology.Snapshot{Seq: 1, Through: 3}, counted(3, 3), 3),
		"one that lacks some": begun(topology.Snapshot{Seq: 1, Through: 4}, counted(2, 1, 4), 4),
		"an old release's":    begun(topology.Snapshot{Seq: 1}, counted(0), 1),
	} {
		for _, o := range list[v.At():] {
			apply(t, v, o)
			if rev, at := v.Read("shard:/x"); v.Ready() == nil && rev.Writes != want[at] {
				t.Errorf("%s: %d writes at %d, want %d", name, rev.Writes, at, want[at])
			}
		}
	}
}

// What does not follow is not taken: a gap and another workspace change nothing, another chain ends the view.
func TestApplyRefuses(t *testing.T) {
	list := chained(writes(3)...)
	v := New("w", 1<<20, 1<<20)
	v.start(&topology.Snapshot{})
	apply(t, v, list[0])
	elsewhere := *list[1]
	elsewhere.Workspace = "elsewhere"
	for _, o := range []*sequencer.Outcome{list[2], &elsewhere} {
		if _, err := v.apply(o); err == nil || errors.Is(err, ErrChain) || v.At() != 1 {
			t.Errorf("decision %d of %s: %v", o.Seq, o.Workspace, err)
		}
	}
	other := *list[1]
	other.Tx = "a.1.99"
	for _, o := range []*sequencer.Outcome{&other, list[1]} {
		if _, err := v.apply(o); !errors.Is(err, ErrChain) {
			t.Errorf("after a decision of another chain: %v", err)
		}
	}
	if !errors.Is(v.BrokenBy(), ErrChain) || v.Ready() == nil {
		t.Error("it still answers")
	}
}

// What a former process may believe of its lease are the rules under which it may have renewed it, not those of now.
func TestLeaseOfFormerRules(t *testing.T) {
	rules := sequencer.DefaultRules()
	rules.Version, rules.LeaseTicks = 1, 13
	list := chained(sequencer.Outcome{Kind: sequencer.OutcomeJoined, Agent: "a", Incarnation: 1},
		sequencer.Outcome{Kind: sequencer.OutcomeRules, Rules: &rules, RulesVersion: 1})
	v := New("w", 1<<20, 1<<20)
	v.start(&topology.Snapshot{})
	apply(t, v, list...)
	for _, c := range []struct {
		inc   sequencer.Seq
		since sequencer.Tick // passed since the change
		want  sequencer.Tick
	}{{1, 0, 40}, {1, 20, 20}, {1, 30, 13}, {3, 0, 13}} {
		v.time = c.since
		if got := v.LeaseOf(c.inc); got != c.want {
			t.Errorf("incarnation %d, %d ticks after the change: %d ticks, wanted %d", c.inc, c.since, got, c.want)
		}
	}
	late := New("w", 1<<20, 1<<20)
	late.start(&topology.Snapshot{Seq: 2, Chain: list[1].Chain})
	if got := late.LeaseOf(1); got != 0 {
		t.Errorf("rules that are not known: %d ticks", got)
	}
	if late.SetRules(rules); late.LeaseOf(1) != 13 {
		t.Errorf("the rules of now: %d ticks", late.LeaseOf(1))
	}
}

// A wait for a version before the view has its snapshot ends at once: what is absent so far may be in the snapshot,
// which wakes no one's wait for a shard.
func TestAwaitVersionBeforeSnapshot(t *testing.T) {
	v := New("default", 1<<20, 1<<20)
	w := NewWorkspaceView(v, nil, time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := w.AwaitVersion(ctx, "shard:/x", func(version uint64) bool { return version == 0 })
	if err != nil || ctx.Err() != nil {
		t.Errorf("it waits: %v, %v", err, ctx.Err())
	}
}
