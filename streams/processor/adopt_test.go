package processor

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// notedSession notes what is to be committed.
type notedSession struct {
	sarama.ConsumerGroupSession
	marks []string
}

func (s *notedSession) MarkOffset(_ string, _ int32, offset int64, metadata string) {
	s.marks = append(s.marks, fmt.Sprintf("mark %d %q", offset, metadata))
}

func (s *notedSession) ResetOffset(_ string, _ int32, offset int64, metadata string) {
	s.marks = append(s.marks, fmt.Sprintf("reset %d %q", offset, metadata))
}

// noted is a session at one place, as Setup makes it.
func noted() (*session, *notedSession, place) {
	inner, at := new(notedSession), place{topology.TopicDecisions, 0}
	s := &session{ConsumerGroupSession: inner, markers: make(map[place]string)}
	s.ledger = newLedger(func(topic string, partition int32, next int64) {
		inner.MarkOffset(topic, partition, next, s.marker(at))
	})
	return s, inner, at
}

// A new owner commits what it found before anything else: a commit of the former generation that Kafka takes in late
// could carry a marker that passes rows which are relied on here.
func TestAdoptedMarkersAreCommittedAgain(t *testing.T) {
	span := func(committed, marker int64) streams.TableSpan {
		return streams.TableSpan{Committed: streams.Committed{Offset: committed}, Table: "t", Marker: marker}
	}
	for name, row := range map[string]struct {
		span streams.TableSpan
		want []string
	}{
		"a marker":          {span(20, 7), []string{`mark 20 "hence1 t 7"`, `reset 20 "hence1 t 7"`}},
		"none":              {span(20, -1), []string{`mark 20 ""`, `reset 20 ""`}},
		"nothing committed": {span(-1, -1), []string{`mark -1 ""`}},
	} {
		s, inner, at := noted()
		s.adopt(at, row.span)
		if !slices.Equal(inner.marks, row.want) {
			t.Errorf("%s: %v, want %v", name, inner.marks, row.want)
		}
	}
}

// A marker goes beside where the ledger stands, also while no record comes, and never moves that.
func TestMarkersStandBesideTheLedger(t *testing.T) {
	s, inner, at := noted()
	store := newTableStore(streams.TableSpan{Committed: streams.Committed{Offset: -1}, Marker: -1}, nil)
	store.session = s
	store.commitMarker(at, "a") // nothing is committed that it could stand beside
	e := s.ledger.begin(at.topic, at.partition, 5)
	s.ledger.release(e)
	store.commitMarker(at, "b")
	s.ledger.begin(at.topic, at.partition, 6) // in work: what is committed stays before it
	store.commitMarker(at, "c")
	if want := []string{`mark 6 "a"`, `reset 6 "b"`, `reset 6 "c"`}; !slices.Equal(inner.marks, want) {
		t.Errorf("%v, want %v", inner.marks, want)
	}
	store.span.Offset = 4
	other, quiet, _ := noted()
	store.session = other
	store.commitMarker(at, "d") // this session has marked nothing: it stands where it was found
	if want := []string{`reset 4 "d"`}; !slices.Equal(quiet.marks, want) {
		t.Errorf("%v, want %v", quiet.marks, want)
	}
}

// A table whose reader was turned away in the middle is not taken for read.
func TestCutShortTableIsNotRecovered(t *testing.T) {
	called := false
	s := newTableStore(streams.TableSpan{Start: 2, Marker: -1, End: 9}, func(*tableStore) error {
		called = true
		return nil
	})
	for _, offset := range []int64{1, 7} {
		if err := s.SetOffset(offset); err != nil {
			t.Fatal(err)
		}
		if err := s.MarkRecovered(); !errors.Is(err, errCutShort) || called || s.ready() {
			t.Errorf("read up to %d of 9: %v", offset, err)
		}
	}
	if err := errors.Join(s.SetOffset(8), s.MarkRecovered()); err != nil || !called || !s.ready() {
		t.Errorf("read to its end: %v", err)
	}
	if err := newTableStore(streams.TableSpan{Start: 9, Marker: 9, End: 9}, nil).MarkRecovered(); err != nil {
		t.Errorf("nothing was to be read: %v", err)
	}
}

// Rows that are sent again are sent in the order of their changes, and with the position that they were read with.
func TestRowsAgainStayInOrder(t *testing.T) {
	s := newTableStore(streams.TableSpan{Marker: -1}, nil)
	s.newer("a", []byte("0"), 7)
	at := func() (position int64) {
		s.again("a", func(_ []byte, at int64, there bool) { position = at })
		return position
	}
	if got := at(); got != 7 {
		t.Errorf("read at 7, sent again at %d", got)
	}
	changed := make(chan error, 1)
	s.again("a", func(row []byte, _ int64, there bool) {
		if !there || string(row) != "0" {
			t.Errorf("row %q, %v", row, there)
		}
		go func() { changed <- s.Set("a", []byte("1")) }()
		select {
		case err := <-changed:
			t.Errorf("a newer row was there, and could be sent, before this one is sent (%v)", err)
			changed <- err
		case <-time.After(20 * time.Millisecond):
		}
	})
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	if got := at(); got != -1 {
		t.Errorf("changed, and still said to be of %d", got)
	}
	if n := s.again("b", func(_ []byte, _ int64, there bool) {
		if there {
			t.Error("a row that was never there")
		}
	}); n != 0 {
		t.Errorf("%d bytes of a row that is not there", n)
	}
}

// Who was given up writes no rows again: an heir may have newer ones.
func TestFormerOwnerWritesNothingAgain(t *testing.T) {
	b := &base{stores: make(map[int32]*tableStore)}
	store := newTableStore(streams.TableSpan{Marker: -1}, nil)
	if err := store.Set("a", []byte("row")); err != nil {
		t.Fatal(err)
	}
	if n, err := b.sendAgain(0, store, store.keys(), nil); n != 0 || !errors.Is(err, errGivenUp) {
		t.Errorf("%d rows, %v", n, err)
	}
}

// The size of a log counts the records of others by those that were seen.
func TestLogSizeCountsOthersRecords(t *testing.T) {
	s := newTableStore(streams.TableSpan{Start: 10, Marker: -1, End: 10}, nil)
	s.logged(10, 100)
	s.logged(11, 300)
	s.logged(29, 200) // 17 records of another owner lie before it
	s.logged(9, 1e6)  // of before
	if log, _ := s.sizes(); log != 20*200 {
		t.Errorf("%d bytes", log)
	}
	s.countFrom(30)
	if log, _ := s.sizes(); log != 0 {
		t.Errorf("%d bytes from the end on", log)
	}
	for _, row := range []string{"four", "sixsix", ""} {
		if err := s.Set("key", []byte(row)); err != nil {
			t.Fatal(err)
		}
		if _, rows := s.sizes(); rows != int64(3+len(row)) {
			t.Errorf("row %q: %d bytes", row, rows)
		}
	}
	_ = s.Delete("key")
	if _, rows := s.sizes(); rows != 0 {
		t.Errorf("%d bytes of no row", rows)
	}
}
