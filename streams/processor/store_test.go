package processor

import (
	"testing"

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
	for bytes, want := range map[int]int{0: 256, 16 << 10: 256, 70 << 10: 1024, 370 << 10: 2048, maxStateBytes: 2048} {
		if got := stateEvery(256, bytes); got != want {
			t.Errorf("a state of %d bytes after %d steps, want %d", bytes, got, want)
		}
	}
}
