package topology

import "errors"

// A record of hence.events holds one event, in format version 1, or several of one transaction, in format version 2:
// the list of them, each as in version 1. One event alone is always written in version 1, so what may be referred to
// by its record's place (contents) reads the same for every release.

// Format versions of hence.events.
const (
	EventsSingle  uint32 = formatVersion // one event a record
	EventsBatched uint32 = 2             // also several; the newest that this release reads
)

// MaxBatchEvents is how many events one record holds at most.
const MaxBatchEvents = 256

// eventBytes is what the smallest event takes in a batch.
const eventBytes = 1 + eventLeast

func walkEvents(w *walker, events *[]*Event) {
	outer := w.open(1, 1)
	shortList(w, events, MaxBatchEvents, eventBytes, func(w *walker, e **Event) {
		if w.decoding {
			*e = new(Event)
		}
		walkEvent(w, *e)
	})
	w.close(outer)
	if w.err == nil {
		w.fits(*events)
	}
}

// fits refuses events that are not those of one record.
func (w *walker) fits(events []*Event) {
	refuse := w.fail
	if w.decoding {
		refuse = w.malformed
	}
	if len(events) == 0 {
		refuse("no events")
	}
	for _, e := range events {
		switch {
		case e.Workspace != events[0].Workspace || e.Tx != events[0].Tx:
			// The record has one key, by which its readers find and pass it.
			refuse("events of two transactions in one record")
		case e.Kind == EventContent:
			// It is read by the place of its record, which would lead to all of these.
			refuse("a content beside other events")
		}
	}
}

func eventsCodec() codec[[]*Event] {
	c := inputCodec("events", 0, walkEvents)
	c.version = uint64(EventsBatched)
	return c
}

// EncodeEvents writes a record of hence.events: of one event as EncodeEvent does, of several in format version 2. It
// fails besides when they are of several transactions, or a content is among them.
func EncodeEvents(events []*Event) ([]byte, error) {
	if len(events) == 1 {
		return EncodeEvent(events[0])
	}
	c := eventsCodec()
	c.bufferBytes = 256 * len(events)
	return c.encode(&events)
}

// DecodeEvents reads a record of hence.events of either format, in the order in which they were written: one event, or
// several of one transaction, none of them a content.
func DecodeEvents(b []byte) ([]*Event, error) {
	if len(b) > 0 && b[0] == byte(EventsBatched) { // as MessagePack writes a small number
		events, err := eventsCodec().decode(b)
		if err != nil {
			return nil, err
		}
		return *events, nil
	}
	ev, err := DecodeEvent(b)
	if foreign := (*ForeignVersion)(nil); errors.As(err, &foreign) {
		foreign.Known = uint64(EventsBatched)
	}
	if err != nil {
		return nil, err
	}
	return []*Event{ev}, nil
}
