package history_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/trace"
)

// drawn draws what three agents do to few scopes: reads of now and of a while ago, writes of each kind, eager and held
// calls, settlements, aborts and retractions.
type drawn struct {
	*log
	*rand.Rand
	n       int
	observe bool
	granted map[string]sequencer.Scope // undecided transactions that hold a scope
	seen    int                        // of outcomes
	resets  map[string]bool
	retract []string // that may be retracted
}

func of[T any](d *drawn, list ...T) T { return list[d.IntN(len(list))] }

func (d *drawn) scope() sequencer.Scope {
	return of(d, sequencer.Scope("shard:/a"), "shard:/a/x", "shard:/a/y", "shard:/b", "shard:/c", "db:/t", "db:/t/1",
		"shard:/*/x", "db:/u")
}

func (d *drawn) shard() sequencer.Scope {
	return of(d, sequencer.Scope("shard:/a"), "shard:/a/x", "shard:/a/y", "shard:/b", "shard:/c")
}

func (d *drawn) footprint(base sequencer.Seq) (s sequencer.Seal) {
	for range d.IntN(3) {
		view := d.now()
		if d.IntN(3) == 0 {
			view -= min(view-base, sequencer.Seq(d.IntN(5)))
		}
		s.Reads = append(s.Reads, read(string(d.scope()), view))
	}
	switch d.IntN(8) {
	case 0: // a reset
		s.Shards = []sequencer.ShardWrite{{Scope: d.shard(), Absent: true}}
	case 1, 2, 3:
		s.Shards = put(string(d.shard()), fmt.Sprint(d.n%4)).Shards // equal contents too
	case 4, 5:
		s.Shards = put(string(d.shard()), fmt.Sprintf("%d\n", d.n)).Shards
		s.Shards[0].Op = sequencer.OpAppend
	}
	if len(s.Shards) == 0 && d.IntN(2) == 0 {
		s.Effects = []sequencer.Effect{{Class: sequencer.ClassIrreversible, Tool: "t",
			Scopes: []sequencer.Scope{of(d, sequencer.Scope("db:/t"), "db:/t/1", "db:/u")}}}
	}
	return s
}

// step appends an intent.
func (d *drawn) step() {
	d.n++
	agent := of(d, "a", "b", "c")
	tx := fmt.Sprintf("%s.%d", agent, d.n)
	in := d.of(tx, sequencer.IntentSeal)
	in.Base = d.now() - min(d.now()-1, sequencer.Seq(d.IntN(4)))
	switch k := d.IntN(10); {
	case k < 5:
		s := d.footprint(in.Base)
		in.Seal = &s
	case k < 7:
		in.Kind = sequencer.IntentTouch
		scope := of(d, sequencer.Scope("db:/t"), "db:/t/1", "db:/u")
		in.Touch = &sequencer.Touch{Wants: []sequencer.Want{{Scope: scope, Access: sequencer.WriteAccess}}}
		d.granted[tx] = scope
	case k < 9 && len(d.granted) > 0: // what was granted is sealed, or given up
		tx = of(d, slices.Sorted(keys(d.granted))...)
		scope := d.granted[tx]
		delete(d.granted, tx)
		in = d.of(tx, sequencer.IntentSeal)
		in.Base = d.now()
		s := d.footprint(in.Base)
		for i := range s.Effects {
			s.Effects[i].Index = uint32(i + 1)
		}
		s.Effects = append([]sequencer.Effect{{Class: sequencer.ClassReversible, Tool: "t", Known: true,
			Scopes: []sequencer.Scope{scope}}}, s.Effects...)
		s.Touches = []sequencer.TouchReport{{N: 1, Known: true}}
		if in.Seal = &s; d.IntN(3) == 0 {
			in.Kind, in.Seal, in.Begin = sequencer.IntentAbort, nil, nil
			in.Abort = &sequencer.Abort{Code: sequencer.CodeToolFailed}
		}
	case len(d.retract) > 0:
		in = d.of(of(d, d.retract...), sequencer.IntentRetract)
		in.Begin = nil
	default:
		return
	}
	if in.Begin != nil {
		in.Begin.Observe = d.observe
	}
	d.do(in)
	if in.Seal != nil {
		d.resets[tx] = len(in.Seal.Shards) == 1 && in.Seal.Shards[0].Absent
		for _, e := range in.Seal.Effects {
			d.events = append(d.events, &topology.Event{Kind: topology.EventAnswer, Tx: in.Tx, Incarnation: 1,
				Index: uint64(len(d.events) + 1), Effect: &topology.EffectText{Index: e.Index}})
		}
	}
	d.settleAll()
}

// settleAll settles what is decided and not final, and what has its turn.
func (d *drawn) settleAll() {
	for ; d.seen < len(d.outcomes); d.seen++ {
		o := d.outcomes[d.seen]
		tx := string(o.Tx)
		switch {
		case o.Kind == sequencer.OutcomeCommitted:
			d.retract = append(d.retract, tx)
			fallthrough
		case o.Kind == sequencer.OutcomeAborted:
			delete(d.granted, tx)
			if !o.Final {
				d.settling(tx, 1)
			}
		case o.Kind == sequencer.OutcomeTurn:
			d.settling(tx, 2)
		}
	}
}

func (d *drawn) settling(tx string, n uint32) {
	in := d.of(tx, sequencer.IntentSettle)
	in.N, in.Begin, in.Settle = n, nil, &sequencer.Settle{}
	d.do(in)
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestEnforced: whatever three agents do, what an enforcing workspace lets through has no anomaly, but for resets,
// which read nothing. HENCE_TEST_FULL=1 has 1,500 histories.
func TestEnforced(t *testing.T) {
	seeds := 60
	if os.Getenv("HENCE_TEST_FULL") == "1" {
		seeds = 1500
	}
	total, aborted, resets, kinds := 0, 0, 0, map[string]int{}
	for seed := range uint64(seeds) {
		d := &drawn{log: newLog(t, "a", "b", "c"), Rand: rand.New(rand.NewPCG(seed, 3)),
			granted: map[string]sequencer.Scope{}, resets: map[string]bool{}}
		for range 60 {
			d.step()
		}
		_, h := d.history()
		r := h.Check()
		total, aborted = total+r.Ops, aborted+r.Aborted
		for _, o := range d.outcomes {
			kinds[o.Kind.String()]++
		}
		least, _ := r.Points()
		for i := range r.Findings {
			// A reset reads nothing, and what it writes is taken, whatever stands there.
			f := &r.Findings[i]
			if !f.Certain || f.Kind == anomaly.NullOverwrite && d.resets[h.Who(f.Records[0]).Txn] {
				resets++
				continue
			}
			t.Errorf("seed %d: %s", seed, h.Sentence(f))
		}
		if least.Level() != 4 {
			t.Errorf("seed %d: level %d, undecided %+v", seed, least.Level(), r.Undecided)
		}
	}
	t.Logf("%d histories of %d operations, %d aborted: %v", seeds, total, aborted, kinds)
	if resets == 0 || aborted < total/10 || kinds["turn"] == 0 || kinds["settled"] == 0 {
		t.Errorf("they are too tame: %d of %d aborted, %v", aborted, total, kinds)
	}
}

// TestObserved: of transactions that only observe, each that would have been refused as stale has an overtaken cell,
// and each with an A1 would have been refused.
func TestObserved(t *testing.T) {
	stale, found := 0, 0
	for seed := range uint64(60) {
		d := &drawn{log: newLog(t, "a", "b", "c"), Rand: rand.New(rand.NewPCG(seed, 5)), observe: true,
			granted: map[string]sequencer.Scope{}, resets: map[string]bool{}}
		for range 60 {
			d.step()
		}
		all, h := d.history()
		would := map[string]sequencer.Code{}
		for _, o := range d.outcomes {
			if o.Kind == sequencer.OutcomeCommitted {
				would[string(o.Tx)] = o.Would
			}
			if o.Kind == sequencer.OutcomeCommitted && o.Would == sequencer.CodeStaleRead {
				if stale++; !overtaken(all, string(o.Tx)) {
					t.Errorf("seed %d: %s would have been refused as stale, and none of its cells is: %+v", seed, o.Tx,
						all[string(o.Tx)])
				}
			}
		}
		r := h.Check()
		for i := range r.Findings {
			f := &r.Findings[i]
			if reader := h.Who(f.Records[0]).Txn; f.Kind == anomaly.A1 {
				if found++; would[reader] == "" {
					t.Errorf("seed %d: nothing would have been refused of this: %s", seed, h.Sentence(f))
				}
			}
		}
	}
	t.Logf("%d would have been refused as stale, and %d A1 are found", stale, found)
	if stale < 100 || found < 50 {
		t.Errorf("they are too tame: %d stale, %d found", stale, found)
	}
}

// overtaken reports whether another transaction wrote a cell that this one read, between its read and its commit, by
// whichever agent and with whichever value.
func overtaken(all map[string]trace.Record, tx string) bool {
	reader := all[tx]
	for name, writer := range all {
		for _, cell := range reader.ReadSet {
			at, own := reader.ReadTimes[cell]
			if !own {
				at = reader.ReadTime
			}
			if name != tx && at < writer.WriteTime && writer.WriteTime < reader.WriteTime &&
				slices.Contains(writer.WriteSet, cell) {
				return true
			}
		}
	}
	return false
}
