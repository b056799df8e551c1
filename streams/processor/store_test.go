package processor

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/streams"
)

func TestStoreKeepsTheNewestRow(t *testing.T) {
	s := newTableStore(streams.TableSpan{}, nil)
	s.newer("a", []byte("two"), 2)
	s.newer("a", []byte("one"), 1) // a former owner's, written late
	s.newer("b", []byte("x"), 1)
	s.newer("b", []byte("y"), 2)
	s.newer("c", []byte("no position"), -1)
	if got, _ := s.Get("a"); string(got) != "two" {
		t.Errorf("a is %q", got)
	}
	if over := s.overruled(); len(over) != 1 || string(over["a"]) != "two" {
		t.Errorf("overruled %v", over)
	}
	s.newer("a", []byte("three"), 3)
	if over := s.overruled(); len(over) != 0 {
		t.Errorf("overruled %v", over)
	}
}

func TestStoreIterates(t *testing.T) {
	s := newTableStore(streams.TableSpan{}, nil)
	for _, k := range []string{"c", "a", "b", "d"} {
		if err := s.Set(k, []byte(k)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete("b"); err != nil {
		t.Fatal(err)
	}
	it, err := s.IteratorWithRange([]byte("a"), []byte("d"))
	if err != nil {
		t.Fatal(err)
	}
	keys := ""
	for it.Next() {
		v, err := it.Value()
		if err != nil || string(v) != string(it.Key()) {
			t.Errorf("%q has %q, %v", it.Key(), v, err)
		}
		keys += string(it.Key())
	}
	if keys != "ac" {
		t.Errorf("keys %q", keys)
	}
	if !it.Seek([]byte("b")) || !it.Next() || string(it.Key()) != "c" {
		t.Errorf("after a seek to b comes %q", it.Key())
	}
	if offset, _ := s.GetOffset(-3); offset != -1 {
		t.Errorf("nothing was read, and the last one is %d", offset)
	}
	if has, _ := s.Has("b"); has {
		t.Error("b was deleted")
	}
}

// A state is written the less often the larger it is, and within a bound: what a crash costs is bounded too.
func TestLargeStatesAreWrittenLessOften(t *testing.T) {
	p := &seqPartition{seqProcessor: &seqProcessor{base: &base{cfg: streams.Config{StateEvery: 256,
		StateAfter: time.Second}}}}
	for bytes, times := range map[int]int{0: 1, 16 << 10: 1, 70 << 10: 4, 370 << 10: 8, maxStateBytes: 8} {
		begun := time.Unix(1000, 0)
		at := func(steps int, after time.Duration) bool {
			r := &workspaceState{written: make([]byte, bytes), steps: steps, since: begun, decided: true}
			return p.stateDue(r, begun.Add(after))
		}
		after := time.Duration(times) * time.Second
		if at(times*256-1, after-1) || !at(times*256, 0) || !at(1, after) {
			t.Errorf("a state of %d bytes is not written after %d steps or %s, whichever comes first", bytes, times*256, after)
		}
	}
}
