package coverage

import (
	"fmt"
	"testing"
	"time"
)

func TestSteps(t *testing.T) {
	l, now := New(3), time.Unix(100, 0)
	l.Read("a", "x", now)
	first := l.Ask("a")
	l.Read("a", "y", now.Add(time.Second))
	second := l.Ask("a")
	for _, c := range []struct {
		scope string
		step  uint64
		want  bool
	}{{"x", first, true}, {"y", first, true}, {"x", second, false}, {"y", second, true}, {"z", first, false}} {
		if got := l.InStep("a", c.scope, c.step); got != c.want {
			t.Errorf("%s since %d: %v", c.scope, c.step, got)
		}
	}
	if l.InStep("b", "x", 0) {
		t.Error("another conversation has read it")
	}
	if old, known := l.Seal("a", []string{"y", "x", "z"}, now.Add(5*time.Second)); !known || old != 5*time.Second {
		t.Errorf("the oldest read is %v old, known %v", old, known)
	}
	if _, known := l.Seal("a", []string{"x"}, now); known || l.InStep("a", "x", 0) {
		t.Error("what was sealed is there")
	}
}

func TestTokens(t *testing.T) {
	l := New(2)
	l.Spend("a", 5)
	l.Spend("a", 7)
	l.Seal("a", nil, time.Time{}) // what is spent stays, also where nothing was read
	if got := l.Decide("a"); got != 12 {
		t.Errorf("%d tokens", got)
	}
	if l.Decide("a") != 0 || l.Decide("b") != 0 {
		t.Error("they are counted twice")
	}
}

func TestBounds(t *testing.T) {
	l := New(3)
	for i := range 10 * mostReads {
		l.Read(fmt.Sprint("talk", i%17), fmt.Sprint(i), time.Time{})
		l.Read("one", fmt.Sprint(i), time.Time{})
	}
	if len(l.talks) > 3 || l.talks["one"] != nil && len(l.talks["one"].reads) > mostReads {
		t.Errorf("%d conversations", len(l.talks))
	}
	for i := range 2 * mostReads {
		l.Read("two", fmt.Sprint(i), time.Time{})
	}
	if l.Read("two", "new", time.Time{}); !l.InStep("two", "new", 0) {
		t.Error("a conversation that has read much no longer has its newest read")
	}
	for range 100 {
		l.Read("once", "x", time.Time{})
		l.Seal("once", []string{"x"}, time.Time{})
	}
	if l.talks["once"] != nil {
		t.Error("a conversation without reads is kept")
	}
}
