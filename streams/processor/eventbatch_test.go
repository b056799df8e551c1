package processor_test

import (
	"reflect"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// turnEvents are the events of one transaction.
func turnEvents(workspace string) []*topology.Event {
	events := []*topology.Event{
		{Kind: topology.EventRead, Scope: "shard:/a", Version: 3, View: 4, Writer: "u"},
		{Kind: topology.EventWrite, Scope: "shard:/b"},
		{Kind: topology.EventEffect, Effect: &topology.EffectText{Class: sequencer.ClassReversible, Tool: "put"}},
		{Kind: topology.EventTouch, Scope: "db:/x"},
		{Kind: topology.EventSeal, Seal: &sequencer.Seal{
			Reads:  []sequencer.Read{{Scope: "shard:/a", View: 4, Version: 3, Writer: "u"}, {Scope: "shard:/loose", View: 2}},
			Shards: []sequencer.ShardWrite{{Scope: "shard:/b"}}}},
	}
	for i, ev := range events {
		ev.Workspace, ev.Tx, ev.Agent, ev.Incarnation, ev.Index = workspace, "t", "ann", 2, uint64(i+1)
	}
	return events
}

// The closure has of events in one record what it has of the same events one by one, and of the record's place where
// they begin. A record under another transaction's key is put aside, whole.
func TestClosureOfEventsInOneRecord(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	row := func(workspace string) (r topology.ClosureRow) {
		w.Until("the row of "+workspace, func() bool {
			got, err := c.Closure(w.Context(), workspace, "t", 1)
			if err != nil || len(got.Rows) == 0 || got.Rows[0].Status != "sealed" {
				return false
			}
			r = got.Rows[0]
			return true
		})
		return r
	}
	for _, ev := range turnEvents("singly") {
		if _, err := c.Publish(w.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	events := turnEvents("together")
	batch, err := topology.EncodeEvents(events)
	if err != nil {
		t.Fatal(err)
	}
	kafka := w.Kafka()
	w.Put(kafka, topology.TopicEvents, "together|other", batch)
	at := w.Put(kafka, topology.TopicEvents, "together|t", batch)
	w.Put(kafka, topology.TopicEvents, "together|t", batch) // a copy, further back
	singly, together := row("singly"), row("together")
	if together.Events == nil || together.Events.First != at.Offset {
		t.Errorf("they begin at %+v, want %d", together.Events, at.Offset)
	}
	together.Workspace, together.Events = singly.Workspace, singly.Events
	if !reflect.DeepEqual(singly, together) || len(singly.Edges) != 2 || len(singly.Effects) != 1 {
		t.Errorf("singly   %+v\ntogether %+v", singly, together)
	}
	w.Until("the other one's record is parked", func() bool {
		return w.Count("hence_records_parked_total", "topic", topology.TopicEvents, "reason", topology.ParkedKey) == 1
	})
	if got, err := c.Closure(w.Context(), "together", "other", 1); err == nil {
		t.Errorf("the other one has a row: %+v", got.Rows)
	}
}
