package processor

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// An agent that reads and writes more than a row can hold leaves a row all the same, and the same one in whichever
// order its events are joined.
func TestClosureRowOfTooMuch(t *testing.T) {
	long := strings.Repeat("x", 4000)
	var events []*topology.Event
	for i := range 900 {
		scope := sequencer.Scope(fmt.Sprintf("shard:/%d/%s", i, long))
		events = append(events, &topology.Event{Kind: topology.EventRead, Scope: scope, Writer: sequencer.TxID(long)},
			&topology.Event{Kind: topology.EventWrite, Scope: scope})
	}
	o := &sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Seq: 9}
	for i := range 900 {
		o.RestsOn = append(o.RestsOn, sequencer.TxID(fmt.Sprint(i, long)))
	}
	random := rand.New(rand.NewPCG(5, 5))
	var first *topology.ClosureRow
	for range 4 {
		random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		rows := make([]*topology.ClosureRow, 3) // images of several processors, joined at the end
		for i := range rows {
			rows[i] = &topology.ClosureRow{Status: statusOpen, Events: &topology.EventSpan{First: noOffset}}
		}
		for n, ev := range events {
			r := rows[n%len(rows)]
			if joinEvent(r, ev, 0); n%50 < len(rows) {
				finishRow(r)
			}
		}
		joinOutcome(rows[1], o)
		row := mergeRows(mergeRows(rows[0], rows[1]), rows[2])
		row.Edges, row.Writes, row.RestsOn = slices.Clone(row.Edges), slices.Clone(row.Writes), slices.Clone(row.RestsOn)
		if b, err := topology.EncodeClosureRow(row); err != nil {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		if first == nil {
			first = row
		}
		if !reflect.DeepEqual(row, first) {
			t.Fatalf("another order leaves %d edges, %d writes, not %d, %d", len(row.Edges), len(row.Writes),
				len(first.Edges), len(first.Writes))
		}
	}
	if len(first.Edges) == 0 || len(first.Writes) == 0 || len(first.RestsOn) == 0 || first.Status != statusCommitted {
		t.Errorf("the row is %s with %d edges", first.Status, len(first.Edges))
	}
}

// A row names whose transaction it is, in whichever order its inputs come: not who was refused, nor who adopted it.
func TestRowNamesItsOwnAgent(t *testing.T) {
	events := []*topology.Event{{Kind: topology.EventRead, Agent: "ann"}, {Kind: topology.EventAnswer, Agent: "bob"}}
	outcomes := []*sequencer.Outcome{{Kind: sequencer.OutcomeRefused, Agent: "eve"},
		{Kind: sequencer.OutcomeCommitted, Seq: 3, Agent: "ann"}, {Kind: sequencer.OutcomeAdopted, Agent: "bob"},
		{Kind: sequencer.OutcomeSettled, Agent: "bob"}}
	for order := range 1 << (len(events) + len(outcomes)) {
		row := &topology.ClosureRow{Status: statusOpen, Events: &topology.EventSpan{First: noOffset}}
		e, o := 0, 0
		for bit := range len(events) + len(outcomes) {
			if event := order>>bit&1 == 0; (event || o == len(outcomes)) && e < len(events) {
				joinEvent(row, events[e], int64(e))
				e++
			} else {
				joinOutcome(row, outcomes[o])
				o++
			}
		}
		if row.Agent != "ann" || row.Status != statusSettled {
			t.Fatalf("order %b: the row is %s's and %s", order, row.Agent, row.Status)
		}
	}
	undecided := &topology.ClosureRow{Status: statusOpen}
	joinOutcome(undecided, outcomes[0])
	joinEvent(undecided, events[0], 0)
	if joinOutcome(undecided, outcomes[0]); undecided.Agent != "ann" {
		t.Errorf("before its decision it is %s's", undecided.Agent)
	}
}

// A planned call that never came is in the footprint, and no row shows it among the calls.
func TestClosureRowOfAbsentCall(t *testing.T) {
	row := &topology.ClosureRow{Status: statusOpen, Events: &topology.EventSpan{First: noOffset}}
	joinEvent(row, &topology.Event{Kind: topology.EventSeal, Seal: &sequencer.Seal{Effects: []sequencer.Effect{
		{Index: 0, Class: sequencer.ClassRead, Absent: true}, {Index: 1, Class: sequencer.ClassIrreversible}}}}, 7)
	if finishRow(row); len(row.Effects) != 1 || row.Effects[0].Index != 1 {
		t.Errorf("the calls: %+v", row.Effects)
	}
}
