package tables

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/gate/sinks"
)

// allKinds are all ways that Hence is compared with at the shop.
func allKinds() []kind {
	return append(append(others(), replayKind(), oneLockKind()), meetings()[6], meetings()[7])
}

// TestErrandsAlone holds that every way does every errand, clean, where nothing goes wrong and no two errands meet.
func TestErrandsAlone(t *testing.T) {
	e := &Env{Seed: 1}
	set, todo, err := e.errands(24)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range allKinds() {
		got, err := e.besideHence(t.Context(), set, todo, k, sinks.Faults{}, paceOf(1))
		if err != nil || got.successes != len(todo) || got.unreported+got.idle+got.injected != 0 {
			t.Errorf("%s: %+v, %v", k.name, got, err)
		}
	}
}

// TestErrandsUnderFaults holds what faults do to the ways: one that repeats without a key does things twice, one that
// gives up leaves things, one with keys and compensations does neither.
func TestErrandsUnderFaults(t *testing.T) {
	e := &Env{Seed: 1}
	set, todo, err := e.errands(24)
	if err != nil {
		t.Fatal(err)
	}
	const rate = .3
	for _, c := range []struct {
		k                  kind
		tries              int
		faults             sinks.Faults
		leaks, twice, none bool
	}{
		{noTxKind(), 1, e.exceptions(rate), true, false, false},
		{noTxKind(), 3, sinks.Faults{Seed: 1, Lose: .1}, false, true, false},
		{replayKind(), 3, e.exceptions(rate), true, true, false},
		{sagaKind(), 3, sinks.Faults{Seed: 1, Lose: .1}, false, true, false},
		{keysKind(), 3, sinks.Faults{Seed: 1, Lose: rate}, false, false, true},
		{keysKind(), 1, sinks.Faults{Seed: 1, Duplicate: rate}, false, false, true},
		{replayKind(), 1, sinks.Faults{Seed: 1, Duplicate: rate}, false, true, false},
		{confirmKind(), 3, sinks.Faults{Seed: 1, Refuse: .1}, false, false, true},
	} {
		got, err := e.besideHence(t.Context(), set, todo, c.k, c.faults, paceOf(c.tries))
		if err != nil {
			t.Fatal(err)
		}
		if c.leaks && got.leaks == 0 || c.twice && got.twice == 0 || got.injected == 0 ||
			c.none && got.leaks+got.twice+got.absent+got.unreported != 0 {
			t.Errorf("%s, %d tries, %+v: %+v", c.k.name, c.tries, c.faults, got.found)
		}
	}
}

// TestAudit holds that the audit finds each difference between what the shop did and what was said of it.
func TestAudit(t *testing.T) {
	e := &Env{Seed: 1}
	set, todo, err := e.errands(1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openShop(set, sinks.Faults{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	run := func(room string) *errand {
		w := todo[0]
		w.room = room
		if said, err := (plainShop{bareAt(s)}).run(t.Context(), &w, paceOf(1)); err != nil || !said.committed {
			t.Fatalf("%+v, %v", said, err)
		}
		return &w
	}
	last := len(todo[0].calls) - 1
	w := run("a")
	if f := s.audit(w, ended{committed: true}); !f.success || f.unreported != 0 {
		t.Errorf("as it should be: %+v", f)
	}
	if f := s.audit(w, ended{committed: true, reported: []int{0}}); f.success || f.idle != 1 {
		t.Errorf("reported for nothing: %+v", f)
	}
	if f := s.audit(w, ended{}); f.leaks == 0 || f.unreported != f.leaks || f.success {
		t.Errorf("done and not committed: %+v", f)
	}
	if f := s.audit(w, ended{reported: []int{last}}); f.unreported != f.leaks-1 {
		t.Errorf("one of those reported: %+v", f)
	}
	if _, err := bareAt(s).post(t.Context(), toolConfirm, w.body(last, nil), answerTime, "", ""); err != nil {
		t.Fatal(err)
	}
	if f := s.audit(w, ended{committed: true}); f.twice != 1 || f.unreported != 1 || f.success {
		t.Errorf("twice: %+v", f)
	}
	absent := todo[0]
	absent.room = "b"
	if f := s.audit(&absent, ended{committed: true}); f.absent == 0 || f.success {
		t.Errorf("absent: %+v", f)
	}
	changed := run("c")
	for key := range s.rooms["c"] {
		s.rooms["c"][key] = []byte("{}")
	}
	if f := s.audit(changed, ended{committed: true}); f.unreported != 1 || f.success {
		t.Errorf("another final state: %+v", f)
	}
}

// TestMeetings holds that agents who meet without any control act on what has moved, and that under one lock they do
// not; both where nothing fails.
func TestMeetings(t *testing.T) {
	e := &Env{Seed: 1}
	set, _, err := e.errands(1)
	if err != nil {
		t.Fatal(err)
	}
	const runs = 3
	p := shopPace{tries: 1, most: answerTime, think: e.thought(0)}
	for _, c := range []struct {
		k     kind
		stale bool
	}{{noTxKind(), true}, {sagaKind(), true}, {replayKind(), true}, {keysKind(), true}, {oneLockKind(), false},
		{logKind(), false}, {occKind(), false}} {
		m, err := e.meetBeside(t.Context(), set, runs, c.k, sinks.Faults{}, p)
		if err != nil || (m.stale > 0) != c.stale || !c.stale && c.k.name != occKind().name && m.clean != runs {
			t.Errorf("%s: %+v, %v", c.k.name, m, err)
		}
	}
}

// TestFisher holds the exact test against values that are known.
func TestFisher(t *testing.T) {
	for _, c := range []struct {
		a, of, b, from int
		want           string
	}{{3, 4, 1, 4, "0.4857"}, {10, 10, 0, 10, "0.0000"}, {5, 10, 5, 10, "1.0000"}, {8, 10, 1, 6, "0.0350"}} {
		if got := fmt.Sprintf("%.4f", fisher(c.a, c.of, c.b, c.from)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
