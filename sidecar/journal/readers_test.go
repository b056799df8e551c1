package journal

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

func gave(name string, scope sequencer.Scope, version sequencer.Seq) *ReaderRecord {
	given := []Delivered{{Scope: scope, Version: version}}
	return &ReaderRecord{Name: name, Add: true, AtMs: int64(version), Reads: given}
}

// What readers were given is what the journal says, also after it was written again: in any state, with the names
// that are forgotten, in the order in which they are to end.
func TestReadersComeBack(t *testing.T) {
	l := newLedger()
	for _, rec := range []*ReaderRecord{
		gave("a", "shard:/x", 3), gave("b", "shard:/x", 3), gave("a", "shard:/y", 4), gave("a", "shard:/x", 5),
		{Name: "b", State: ReaderOwed, AtMs: 6}, {Name: "c", TTLms: 100, AtMs: 7}, gave("d", "shard:/x", 8),
		{Name: "d", State: ReaderForgotten}, {Name: "e", State: ReaderEnded, AtMs: 9}, gave("f", "shard:/*", 10),
		gave("c", "shard:/z", 11), {Name: "g", AtMs: 12}, {Name: "g", State: readerGone},
	} {
		told(t, l, recordReader, rec)
	}
	again := newLedger()
	for _, e := range must(l.Records())(t) {
		if err := again.apply(append([]byte{e.Kind}, e.Body...)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []*Ledger{l, again} {
		r := &l.Readers
		var order []string
		for e := r.live.Front(); e != nil; e = e.Next() {
			order = append(order, e.Value.(string))
		}
		if !slices.Equal(order, []string{"a", "f", "c"}) || r.Len() != 5 || r.Reads() != 4 {
			t.Errorf("live are %v of %d, with %d reads", order, r.Len(), r.Reads())
		}
		if got := r.byName["a"].Reads; len(got) != 2 || got[0].Version != 5 {
			t.Errorf("a was given %+v", got)
		}
		if r.stateOf("d") != ReaderOwed || r.stateOf("g") != ReaderLive || r.stateOf("new") != ReaderLive {
			t.Error("what is forgotten was forgotten, or more than that")
		}
	}
	if a, b := l.Readers.byName["c"], again.Readers.byName["c"]; a.TTLms != 100 || !reflect.DeepEqual(a.Reads, b.Reads) {
		t.Errorf("c is %+v, then %+v", a, b)
	}
}

// A reader that was told has a whole log again once it is given something; one that was not is still to be told.
func TestReadersRevive(t *testing.T) {
	l := newLedger()
	for name, state := range map[string]ReaderState{"owed": ReaderOwed, "ended": ReaderEnded, "gone": ReaderForgotten} {
		told(t, l, recordReader, &ReaderRecord{Name: name, State: state})
		told(t, l, recordReader, gave(name, "shard:/x", 3))
	}
	for name, want := range map[string]ReaderState{"owed": ReaderOwed, "ended": ReaderLive, "gone": ReaderOwed} {
		if got := l.Readers.byName[name].State; got != want {
			t.Errorf("%s is in state %q, want %q", name, got, want)
		}
	}
}

// A reset ends the logs of those that were given anything, in one record, and does not change what is owed.
func TestReadersAreEmptied(t *testing.T) {
	l := newLedger()
	told(t, l, recordReader, &ReaderRecord{Name: "opened", TTLms: 7, AtMs: 1})
	told(t, l, recordReader, &ReaderRecord{Name: "owed", State: ReaderOwed})
	for _, name := range []string{"live", "owed", "told"} {
		told(t, l, recordReader, gave(name, "shard:/x", 3))
	}
	told(t, l, recordReader, &ReaderRecord{Name: "told", State: ReaderEnded})
	told(t, l, recordEmptied, struct{}{})
	for name, want := range map[string]ReaderState{"opened": ReaderLive, "live": ReaderEnded, "owed": ReaderOwed,
		"told": ReaderEnded} {
		if one := l.Readers.byName[name]; one.State != want || len(one.Reads) > 0 {
			t.Errorf("%s is in state %q with %v, want %q", name, one.State, one.Reads, want)
		}
	}
	if l.Readers.Reads() != 0 || l.Readers.live.Len() != 1 || l.Readers.byName["opened"].TTLms != 7 {
		t.Errorf("%d reads of %d live readers are left", l.Readers.Reads(), l.Readers.live.Len())
	}
}

// However many names come, the readers that are kept stay within the bounds, and none that ended passes for new.
func TestReadersAreBounded(t *testing.T) {
	d := New(nil, 1, 1<<20, nil)
	d.file = nil
	ttl := func(*Reader) int64 { return 1000 }
	const names, kept, reads = 5000, 100, 60
	for i := range names {
		given := Delivered{Scope: "shard:/x", Version: 1, AtMs: int64(i)}
		if err := d.Add(fmt.Sprint("agent-", i), int64(i), given); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Retire(int64(i), ttl, kept, reads); err != nil {
			t.Fatal(err)
		}
	}
	r := &d.Ledger.Readers
	if r.Len() > kept || r.Reads() > reads || r.live.Len()+r.idle.Len() != r.Len() {
		t.Errorf("%d readers with %d reads are kept, %d live and %d not", r.Len(), r.Reads(), r.live.Len(), r.idle.Len())
	}
	for i := range names {
		if one, _ := d.Reader(fmt.Sprint("agent-", i)); one.State == ReaderLive && len(one.Reads) == 0 {
			t.Fatalf("agent-%d has lost its log and is not told", i)
		}
	}
	seem := 0
	for i := range names {
		if r.stateOf(fmt.Sprint("other-", i)) != ReaderLive {
			seem++
		}
	}
	if seem > names/100 {
		t.Errorf("%d of %d names that never came seem to be forgotten ones", seem, names)
	}
	for more, err := true, error(nil); more; { // their time is up
		if more, err = d.Retire(names+2000, ttl, kept, reads); err != nil {
			t.Fatal(err)
		}
	}
	if r.live.Len() != 0 || r.Reads() != 0 {
		t.Errorf("%d readers live on with %d reads", r.live.Len(), r.Reads())
	}
}
