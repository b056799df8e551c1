package topology

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
)

// sampleBatch is a record with several events: all that one record of an older release may hold.
func sampleBatch() *[]*Event {
	events := slices.DeleteFunc(sampleEvents(), func(e *Event) bool {
		return e.Kind == EventContent || e.Kind == EventPlan
	})
	events = append(events, sampleHandEvent())
	return &events
}

// samplePlanned is a record with a plan and a call of it.
func samplePlanned() *[]*Event {
	events := slices.DeleteFunc(sampleEvents(), func(e *Event) bool {
		return e.Kind != EventEffect && e.Kind != EventPlan
	})
	return &events
}

func encodeBatch(events *[]*Event) ([]byte, error) { return EncodeEvents(*events) }

func decodeBatch(b []byte) (*[]*Event, error) {
	events, err := DecodeEvents(b)
	if err != nil {
		return nil, err
	}
	return &events, nil
}

// One event is written as every release reads it, and several as an older release refuses to read: it would take the
// first for all of them.
func TestEventsOfOneRecord(t *testing.T) {
	one := sampleEvents()[0]
	single, err := EncodeEvent(one)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := EncodeEvents([]*Event{one}); err != nil || !bytes.Equal(b, single) {
		t.Errorf("one event: %x, %v, want %x", b, err, single)
	}
	if got, err := DecodeEvents(single); err != nil || !reflect.DeepEqual(got, []*Event{one}) {
		t.Errorf("read back: %v, %v", got, err)
	}
	batch, err := EncodeEvents(*sampleBatch())
	if err != nil {
		t.Fatal(err)
	}
	var foreign *ForeignVersion
	if _, err := DecodeEvent(batch); !errors.As(err, &foreign) || foreign.Seen != uint64(EventsBatched) {
		t.Errorf("a release that knows format 1 alone: %v", err)
	}
	if _, err := DecodeEvents([]byte{3, 0x90}); !errors.As(err, &foreign) || foreign.Known != uint64(EventsBatched) {
		t.Errorf("format 3: %v", err)
	}
}

// What is not of one transaction, or is read by its record's place, shares no record: neither is written nor read.
func TestEventsThatShareNoRecord(t *testing.T) {
	read := func(change func(*Event)) *Event {
		e := *sampleEvents()[0]
		change(&e)
		return &e
	}
	same := read(func(*Event) {})
	many := slices.Repeat([]*Event{same}, MaxBatchEvents)
	if b, err := EncodeEvents(many); err != nil {
		t.Error(err)
	} else if got, err := DecodeEvents(b); err != nil || len(got) != len(many) {
		t.Errorf("%d events, %v", len(got), err)
	}
	for name, events := range map[string][]*Event{
		"none":                nil,
		"too many":            append(many, same),
		"another transaction": {same, read(func(e *Event) { e.Tx = "tx-z" })},
		"another workspace":   {same, read(func(e *Event) { e.Workspace = "other" })},
		"a content":           {same, read(func(e *Event) { e.Kind = EventContent })},
	} {
		if b, err := EncodeEvents(events); err == nil {
			t.Errorf("%s: written as %x", name, b)
		}
		c := eventsCodec()
		c.walk = func(w *walker, events *[]*Event) { // a writer that does not look
			outer := w.open(1, 1)
			list(w, events, eventBytes, func(w *walker, e **Event) { walkEvent(w, *e) })
			w.close(outer)
		}
		b, err := c.encode(&events)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeEvents(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: read as %d events, %v", name, len(got), err)
		}
	}
}
