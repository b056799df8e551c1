package processor_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// work lets an agent do a few transactions of every kind, blindly, with the events that its sidecar would publish.
func work(a *teststreams.Agent, rng *rand.Rand, rounds int) {
	base := a.Incarnation
	for range rounds {
		a.N++
		tx := sequencer.TxID(fmt.Sprintf("%s-%d", a.Name, a.N))
		view := sequencer.Seq(a.View.Len())
		in := &sequencer.Intent{Tx: tx, N: 1, Agent: a.Name, Incarnation: a.Incarnation, Base: max(base, view)}
		row := sequencer.Scope(fmt.Sprint("db:/rows/", rng.IntN(6)))
		shard := sequencer.Scope(fmt.Sprint("shard:/orders/", rng.IntN(6)))
		seal := &sequencer.Seal{
			Reads:  []sequencer.Read{{Scope: shard, View: view}},
			Shards: []sequencer.ShardWrite{{Scope: shard, Type: "text/plain", Content: []byte(tx)}},
		}
		if rng.IntN(2) == 0 {
			touch := *in
			touch.Kind, touch.Begin = sequencer.IntentTouch, &sequencer.Begin{}
			touch.Touch = &sequencer.Touch{Wants: []sequencer.Want{{Scope: row, Access: sequencer.WriteAccess}}}
			a.Append(&touch)
			seal.Touches = []sequencer.TouchReport{{N: 1, Known: true}}
			seal.Effects = []sequencer.Effect{{Scopes: []sequencer.Scope{row}, Class: sequencer.ClassReversible,
				Tool: "put", Known: true}}
			publishAs(a, &topology.Event{Kind: topology.EventEffect, Tx: tx, Effect: &topology.EffectText{
				Class: sequencer.ClassReversible, Tool: "put", Scopes: []sequencer.Scope{row}}})
		}
		publishAs(a, &topology.Event{Kind: topology.EventRead, Tx: tx, Scope: shard, View: view})
		publishAs(a, &topology.Event{Kind: topology.EventWrite, Tx: tx, Scope: shard})
		switch rng.IntN(5) {
		case 0: // left open
		case 1:
			in.Kind, in.Abort = sequencer.IntentAbort, &sequencer.Abort{}
			a.Append(in)
			settle := *in
			settle.Kind, settle.Abort, settle.Settle = sequencer.IntentSettle, nil, &sequencer.Settle{NoneElse: true}
			a.Append(&settle)
		default:
			in.Kind, in.Begin, in.Seal = sequencer.IntentSeal, &sequencer.Begin{}, seal
			publishAs(a, &topology.Event{Kind: topology.EventSeal, Tx: tx, Seal: seal})
			a.Append(in)
		}
	}
}

func publishAs(a *teststreams.Agent, ev *topology.Event) {
	ev.Workspace, ev.Agent, ev.Incarnation = a.Workspace, a.Name, a.Incarnation
	if _, err := a.Client.Publish(a.World.Context(), ev); err != nil {
		a.World.T.Error(err)
	}
}

// frontierByHand reads hence.decisions as plainly as can be.
func frontierByHand(w *teststreams.World, workspace string) map[sequencer.Scope]topology.FrontierRow {
	w.T.Helper()
	rows := make(map[sequencer.Scope]topology.FrontierRow)
	wrote := make(map[string]sequencer.ShardWrite) // by scope and seq
	decisions, _ := w.Published(workspace)
	for seq := sequencer.Seq(1); seq <= sequencer.Seq(len(decisions)); seq++ {
		o := decisions[seq]
		change := func(scope sequencer.Scope, f func(*topology.FrontierRow)) {
			r := rows[scope]
			r.Workspace, r.Scope, r.Seq = workspace, scope, seq
			f(&r)
			rows[scope] = r
		}
		for _, h := range o.Ended {
			change(h.Scope, func(r *topology.FrontierRow) {
				i := slices.IndexFunc(r.Open, func(e topology.OpenEpoch) bool { return e.Tx == o.Tx })
				r.Open = slices.Delete(slices.Clone(r.Open), i, i+1)
			})
		}
		for _, h := range o.Added {
			change(h.Scope, func(r *topology.FrontierRow) {
				r.Open = append(slices.Clone(r.Open), topology.OpenEpoch{Epoch: o.Epoch, Tx: o.Tx, Since: seq})
			})
		}
		for _, x := range o.Writes {
			change(x.Scope, func(r *topology.FrontierRow) { r.Version, r.Writer = seq, x.Writer })
		}
		for _, s := range o.Shards {
			change(s.Scope, func(r *topology.FrontierRow) {
				if r.Count.Writes++; s.Absent {
					r.Count.Writes = 0
				}
				r.Count.Counted = []sequencer.Seq{seq}
				if had := r.Shard; had != nil { // contents here are small: eight of them are kept
					r.Former = append(slices.Clone(r.Former), topology.FormerContent{Version: had.Version,
						Carrier: cmp.Or(had.Restored, had.Version), Type: had.Type, Content: had.Content, Ref: had.Ref})
					r.Former = r.Former[max(0, len(r.Former)-8):]
				}
				if r.Shard = nil; s.Absent {
					return
				}
				wrote[fmt.Sprint(s.Scope, seq)] = s
				has := wrote[fmt.Sprint(s.Scope, cmp.Or(s.Restored, seq))]
				r.Shard = &topology.ShardRow{Scope: s.Scope, Version: seq, Writer: r.Writer, Type: has.Type,
					Content: has.Content, Ref: has.Ref, Restored: s.Restored, Held: s.Restored != 0}
			})
		}
		change("", func(r *topology.FrontierRow) { r.Chain, r.Time, r.Floor = o.Chain, o.Time, o.Floor })
	}
	for scope, r := range rows {
		slices.SortFunc(r.Open, func(a, b topology.OpenEpoch) int { return cmp.Compare(a.Epoch, b.Epoch) })
		if len(r.Open) > 0 {
			r.Frontier = r.Open[0].Epoch
		}
		rows[scope] = r
	}
	return rows
}

// closureByHand reads hence.events and hence.decisions as plainly as can be.
func closureByHand(w *teststreams.World, workspace string) map[sequencer.TxID]topology.ClosureRow {
	w.T.Helper()
	rows := make(map[sequencer.TxID]topology.ClosureRow)
	change := func(tx sequencer.TxID, agent string, f func(*topology.ClosureRow)) {
		r := rows[tx]
		r.Workspace, r.Tx, r.Agent, r.Status = workspace, tx, agent, cmp.Or(r.Status, "open")
		r.Events = cmp.Or(r.Events, &topology.EventSpan{First: -1})
		f(&r)
		rows[tx] = r
	}
	for _, rec := range w.Records(topology.TopicEvents) {
		ev, err := topology.DecodeEvent(rec.Value)
		if err != nil || ev.Workspace != workspace {
			continue
		}
		change(ev.Tx, ev.Agent, func(r *topology.ClosureRow) {
			if r.Events.First < 0 || r.Events.First > rec.Offset {
				r.Events.First = rec.Offset
			}
			switch ev.Kind {
			case topology.EventEffect:
				r.Effects = []topology.EffectSeen{{Class: ev.Effect.Class, Event: ev.Index}}
			case topology.EventRead:
				r.Edges = append(r.Edges, topology.ClosureEdge{Scope: ev.Scope, View: ev.View, Version: ev.Version,
					Writer: ev.Writer})
			case topology.EventWrite:
				r.Writes = append(r.Writes, ev.Scope)
			case topology.EventSeal:
				r.Status = "sealed"
				if len(ev.Seal.Effects) > 0 {
					r.Effects = []topology.EffectSeen{{Class: ev.Seal.Effects[0].Class, Event: ev.Index}}
				}
			}
		})
	}
	decisions, _ := w.Published(workspace)
	for seq := sequencer.Seq(1); seq <= sequencer.Seq(len(decisions)); seq++ {
		o := decisions[seq]
		if o.Tx == "" {
			continue
		}
		change(o.Tx, o.Agent, func(r *topology.ClosureRow) { decideByHand(r, o) })
	}
	for tx, r := range rows {
		slices.Sort(r.Writes)
		r.Writes = slices.Compact(r.Writes)
		slices.SortFunc(r.Edges, func(a, b topology.ClosureEdge) int { return cmp.Compare(a.View, b.View) })
		r.Edges = slices.Compact(r.Edges)
		slices.Sort(r.RestsOn)
		for _, e := range r.Edges {
			r.Scar = r.Scar || e.Version > r.Seq && r.Seq > 0 && r.Code == ""
		}
		rows[tx] = r
	}
	return rows
}

// decideByHand is what one decision does to a closure row.
func decideByHand(r *topology.ClosureRow, o *sequencer.Outcome) {
	r.Final = r.Final || o.Final
	switch o.Kind {
	case sequencer.OutcomeCommitted, sequencer.OutcomeAborted:
		r.Status, r.Seq, r.Code, r.RestsOn = o.Kind.String(), o.Seq, o.Code, o.RestsOn
		for _, x := range o.Writes {
			r.Writes = append(r.Writes, x.Scope)
		}
	case sequencer.OutcomeRetracting:
		r.Status, r.Retraction = "retracting", o.Retraction
	case sequencer.OutcomeSettled:
		if r.Status = "settled"; o.Retraction != "" {
			r.Status = "retracted"
		}
	}
}

// table reads a table topic: the last row of each key.
func table[R any](w *teststreams.World, topic, workspace string, decode func([]byte) (*R, error)) map[string]R {
	w.T.Helper()
	rows := make(map[string]R)
	for _, rec := range w.Records(topic) {
		if topology.WorkspaceOfKey(string(rec.Key)) != workspace {
			continue
		}
		row, err := decode(rec.Value)
		if err != nil {
			w.T.Fatal(err)
		}
		rows[topology.RestOfKey(string(rec.Key))] = *row
	}
	return rows
}

// same compares two sets of rows as text, so that empty and absent lists are one.
func same[K ~string, R any](got map[string]R, want map[K]R) string {
	for k, r := range want {
		a, b := text(got[string(k)]), text(r)
		if a != b {
			return fmt.Sprintf("row %q\n is   %s\n want %s", k, a, b)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d rows, want %d", len(got), len(want))
	}
	return ""
}

func text(row any) string {
	b, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(b), "[]", "null")
}

func tablesEqual(w *teststreams.World, v *teststreams.View, workspace string) {
	w.T.Helper()
	w.Complete(v, workspace)
	var differ string
	defer func() {
		if w.T.Failed() {
			w.T.Log(differ)
		}
	}()
	w.Until("frontier table equals a reading by hand", func() bool {
		differ = same(table(w, topology.TableOf(topology.GroupFrontier), workspace, topology.DecodeFrontierRow),
			frontierByHand(w, workspace))
		return differ == ""
	})
	w.Until("closure table equals a reading by hand", func() bool {
		differ = same(table(w, topology.TableOf(topology.GroupClosure), workspace, topology.DecodeClosureRow),
			closureByHand(w, workspace))
		return differ == ""
	})
}

func TestTablesEqualAReadingByHand(t *testing.T) {
	w := teststreams.New(t)
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v, u := w.Follow(c, "shop"), w.Follow(c, "bank")
	var agents []*teststreams.Agent
	for i := range 4 {
		agents = append(agents, w.Join(c, v, "shop", fmt.Sprint("ann", i)), w.Join(c, u, "bank", fmt.Sprint("bob", i)))
	}
	round := func(seed uint64) {
		var wg sync.WaitGroup
		for i, a := range agents {
			wg.Go(func() { work(a, rand.New(rand.NewPCG(seed, uint64(i))), 25) })
		}
		wg.Wait()
	}
	round(1)
	tablesEqual(w, v, "shop")
	tablesEqual(w, u, "bank")
	stop()
	stop = w.Run(w.Cfg) // everything in memory is gone
	round(2)
	tablesEqual(w, v, "shop")
	tablesEqual(w, u, "bank")
	if n := w.Count("hence_frontier_gaps_total") + w.Count("hence_scars_total"); n != 0 {
		t.Errorf("%v gaps and scars", n)
	}
	answersEqual(w, c, "shop")
	snapshotIsAPrefix(w, c, v, "shop")
	stop()
}

// answersEqual compares what processors answer with the tables.
func answersEqual(w *teststreams.World, c *streams.Client, workspace string) {
	w.T.Helper()
	want := frontierByHand(w, workspace)
	rows, err := c.Frontier(w.Context(), workspace, "", 1000)
	if err != nil || len(rows) != len(want) {
		w.T.Fatalf("%d rows (%v), want %d", len(rows), err, len(want))
	}
	rows, err = c.Frontier(w.Context(), workspace, "db:/", 2)
	if err != nil || len(rows) != 2 || rows[0].Scope > rows[1].Scope {
		w.T.Errorf("two rows of db:/ are %v, %v", rows, err)
	}
	causes := closureByHand(w, workspace)
	for tx, row := range causes {
		got, err := c.Closure(w.Context(), workspace, tx, 100)
		if err != nil {
			w.T.Fatal(err)
		}
		if got.Rows[0].Tx != tx || got.Rows[0].Status != row.Status ||
			!got.Truncated && len(got.Rows) < 1+len(row.RestsOn) {
			w.T.Fatalf("closure of %s is %+v", tx, got)
		}
		if len(row.RestsOn) > 0 {
			if got, err = c.Closure(w.Context(), workspace, tx, 1); err != nil || !got.Truncated || len(got.Rows) != 1 {
				w.T.Fatalf("closure of %s up to 1 is %+v, %v", tx, got, err)
			}
		}
	}
}

// snapshotIsAPrefix compares the snapshot with the decisions up to it.
func snapshotIsAPrefix(w *teststreams.World, c *streams.Client, v *teststreams.View, workspace string) {
	w.T.Helper()
	s, err := c.Snapshot(w.Context(), workspace)
	if err != nil {
		w.T.Fatal(err)
	}
	seen := v.All()
	if s.Seq != sequencer.Seq(len(seen)) || s.Through != s.Seq || s.Chain != seen[len(seen)-1].Chain {
		w.T.Fatalf("the snapshot is of %d through %d, %d decisions were seen", s.Seq, s.Through, len(seen))
	}
	contents := make(map[sequencer.Scope]string)
	for _, o := range seen {
		for _, x := range o.Shards {
			contents[x.Scope] = string(x.Content)
		}
	}
	for _, row := range s.Shards {
		if contents[row.Scope] != string(row.Content) {
			w.T.Errorf("%s is %q, want %q", row.Scope, row.Content, contents[row.Scope])
		}
	}
	if len(s.Shards) != len(contents) {
		w.T.Errorf("%d shards, want %d", len(s.Shards), len(contents))
	}
}

// A read of a version that was committed after the reader must be impossible; seeded, it is counted.
func TestScarIsCounted(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	tx := a.Write("orders/1", "x")
	at := w.Decided(v, tx).Seq
	publishAs(a, &topology.Event{Kind: topology.EventRead, Tx: tx, Scope: "shard:/orders/2", Version: at + 5, View: at})
	w.Until("the scar", func() bool { return w.Count("hence_scars_total") == 1 })
	got, err := c.Closure(w.Context(), "shop", tx, 10)
	if err != nil || !got.Rows[0].Scar {
		t.Errorf("the row is %+v, %v", got, err)
	}
}

// The workspace's own row says "whole up to here": it does not jump over a decision that is missing.
func TestHeadDoesNotJump(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	const scope = sequencer.Scope("shard:/orders/1")
	w.Decide("bank", 1, 2)
	held := &sequencer.Outcome{Workspace: "bank", Seq: 9, Kind: sequencer.OutcomeGranted, Tx: "t", Epoch: 7,
		Added: []sequencer.Hold{{Scope: scope}}}
	w.DecideAs(held)
	var s *topology.Snapshot
	at := func(seq, through sequencer.Seq) func() bool {
		return func() bool {
			var err error
			s, err = c.Snapshot(w.Context(), "bank")
			return err == nil && s.Seq == seq && s.Through == through
		}
	}
	w.Until("the row behind the gap", at(2, 9))
	w.DecideAs(&sequencer.Outcome{Workspace: "bank", Seq: 3, Kind: sequencer.OutcomeCommitted, Tx: "u",
		Shards: []sequencer.ShardWrite{{Scope: scope, Content: []byte("third")}}})
	w.Decide("bank", 4, 5, 6, 7, 8)
	w.DecideAs(held)
	w.Until("what was missing", at(9, 9))
	if len(s.Shards) != 1 || string(s.Shards[0].Content) != "third" || s.Shards[0].Version != 3 {
		t.Errorf("what came behind a later hold is not in the snapshot: %+v", s.Shards)
	}
}
