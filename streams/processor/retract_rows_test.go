package processor

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// A transaction's decisions and events give one row in whatever order they come and however often, retracted ones too.
func TestRetractedRowIsAJoin(t *testing.T) {
	call := func(index uint32, event uint64, class sequencer.Class) *topology.Event {
		return &topology.Event{Kind: topology.EventEffect, Agent: "ann", Index: event,
			Effect: &topology.EffectText{Index: index, Class: class}}
	}
	outcome := func(kind sequencer.OutcomeKind, seq sequencer.Seq, in sequencer.TxID, final bool,
	) func(*topology.ClosureRow) {
		return func(r *topology.ClosureRow) {
			joinOutcome(r, &sequencer.Outcome{Kind: kind, Seq: seq, Agent: "ann", Retraction: in, Final: final})
		}
	}
	joins := []func(*topology.ClosureRow){
		func(r *topology.ClosureRow) { joinEvent(r, call(0, 2, sequencer.ClassReversible), 70) },
		func(r *topology.ClosureRow) { joinEvent(r, call(0, 4, sequencer.ClassKnownOutcome), 72) }, // issued again
		func(r *topology.ClosureRow) { joinEvent(r, call(1, 5, sequencer.ClassIrreversible), 73) },
		func(r *topology.ClosureRow) { joinEvent(r, call(1, 6, sequencer.ClassRead), 74) },
		func(r *topology.ClosureRow) {
			joinEvent(r, &topology.Event{Kind: topology.EventRead, Agent: "ann", Index: 1}, 69)
		},
		outcome(sequencer.OutcomeCommitted, 10, "", false), outcome(sequencer.OutcomeSettled, 12, "", true),
		outcome(sequencer.OutcomeRetracting, 15, "t0", false), outcome(sequencer.OutcomeTurn, 17, "t0", false),
		outcome(sequencer.OutcomeSettled, 19, "t0", true),
	}
	want := topology.ClosureRow{Agent: "ann", Status: statusRetracted, Seq: 10, Final: true, Retraction: "t0",
		Events: &topology.EventSpan{First: 69}, Edges: []topology.ClosureEdge{{}}, Effects: []topology.EffectSeen{
			{Class: sequencer.ClassKnownOutcome, Event: 4}, {Index: 1, Class: sequencer.ClassIrreversible, Event: 5}}}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a := &topology.ClosureRow{Status: statusOpen, Events: &topology.EventSpan{First: noOffset}}
		b := &topology.ClosureRow{Status: statusOpen, Events: &topology.EventSpan{First: noOffset}}
		for range 2 {
			for _, i := range rng.Perm(len(joins)) {
				row := a
				if rng.IntN(2) == 0 {
					row = b
				}
				joins[i](row)
				finishRow(row)
			}
		}
		for _, i := range rng.Perm(len(joins)) { // each is in one of the two for certain
			joins[i](b)
		}
		got := mergeRows(a, b)
		got.Writes, got.RestsOn = nil, nil
		if !reflect.DeepEqual(*got, want) {
			t.Fatalf("seed %d:\n%+v\nwant\n%+v", seed, *got, want)
		}
	}
	n := want.EffectsByClass()
	if n[sequencer.ClassIrreversible] != 1 || n[sequencer.ClassKnownOutcome] != 1 || len(n) != 2 {
		t.Errorf("by class: %v", n)
	}
}

func TestStatusesOnTheWay(t *testing.T) {
	row := &topology.ClosureRow{Status: statusOpen}
	for _, x := range []struct {
		o     sequencer.Outcome
		want  string
		ended bool
	}{
		{sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Seq: 3}, statusCommitted, false},
		{sequencer.Outcome{Kind: sequencer.OutcomeSettled, Final: true}, statusSettled, true},
		{sequencer.Outcome{Kind: sequencer.OutcomeRetracting, Retraction: "t"}, statusRetracting, false},
		{sequencer.Outcome{Kind: sequencer.OutcomeTurn, Retraction: "t"}, statusRetracting, false},
		{sequencer.Outcome{Kind: sequencer.OutcomeSettled, Retraction: "t", Final: true}, statusRetracted, true},
		{sequencer.Outcome{Kind: sequencer.OutcomeTurn, Retraction: "t"}, statusRetracted, true}, // a second copy
	} {
		row.Events = &topology.EventSpan{}
		if joinOutcome(row, &x.o); row.Status != x.want || ended(row) != x.ended {
			t.Errorf("after %v: %s, ended %v", x.o.Kind, row.Status, ended(row))
		}
	}
}

// A row follows the content that stands: its version is the settlement's, its writer who wrote it, and a shard that
// was not there goes from the snapshot.
func TestRowsFollowRestoredShards(t *testing.T) {
	row := &topology.FrontierRow{Workspace: "w", Scope: "shard:/a"}
	apply := func(o *sequencer.Outcome) {
		for _, m := range topology.SplitByScope(o) {
			if m.Scope == row.Scope {
				moveRow(row, &m, nil)
			}
		}
	}
	write := func(seq sequencer.Seq, tx sequencer.TxID) []sequencer.Write {
		return []sequencer.Write{{Scope: row.Scope, Writer: sequencer.Writer{Seq: seq, Tx: tx}}}
	}
	apply(&sequencer.Outcome{Seq: 5, Tx: "t1", Kind: sequencer.OutcomeCommitted, Writes: write(5, "t1"),
		Shards: []sequencer.ShardWrite{{Scope: row.Scope, Content: []byte("one")}}})
	apply(&sequencer.Outcome{Seq: 7, Tx: "t2", Kind: sequencer.OutcomeCommitted, Writes: write(7, "t2"),
		Shards: []sequencer.ShardWrite{{Scope: row.Scope, Content: []byte("two")}}})
	apply(&sequencer.Outcome{Seq: 9, Tx: "t2", Kind: sequencer.OutcomeSettled, Retraction: "t2", Writes: write(5, "t1"),
		Shards: []sequencer.ShardWrite{{Scope: row.Scope, Content: []byte("one")}}})
	s := row.Shard
	if row.Version != 9 || s == nil || s.Version != 9 || s.Writer.Tx != "t1" || string(s.Content) != "one" {
		t.Errorf("restored: %+v of %+v", s, row)
	}
	apply(&sequencer.Outcome{Seq: 10, Tx: "t3", Kind: sequencer.OutcomeSettled, Retraction: "t3", Writes: write(5, "t1"),
		Shards: []sequencer.ShardWrite{{Scope: row.Scope, Restored: 5}}}) // since logic 3
	if s := row.Shard; s == nil || s.Version != 10 || s.Restored != 5 || s.Writer.Tx != "t1" || !s.Held ||
		string(s.Content) != "one" {
		t.Errorf("restored by reference: %+v of %+v", s, row)
	}
	apply(&sequencer.Outcome{Seq: 11, Tx: "t1", Kind: sequencer.OutcomeSettled, Retraction: "t1", Writes: write(0, ""),
		Shards: []sequencer.ShardWrite{{Scope: row.Scope, Absent: true}}})
	if row.Version != 11 || row.Seq != 11 || row.Shard != nil || row.Writer.Tx != "" {
		t.Errorf("not there any more: %+v", row)
	}
}
