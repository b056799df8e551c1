package tables

import (
	"fmt"
	"testing"
)

// TestAftermath holds the rules of the rows about losing branches: they say no where a mail of a loser is left, where
// one of a winner is missing or twice, and where a way leaves what its wiring does not say.
func TestAftermath(t *testing.T) {
	good := aftermath{won: [kinds]int{2, 2, 2, 2}, wins: 2, losings: 6}
	if !good.clean(everywhere()...) || good.String() != ": nothing" {
		t.Errorf("%+v is not clean", good)
	}
	for _, breaks := range []func(*aftermath){
		func(a *aftermath) { a.lost[mailbox] = 1 }, func(a *aftermath) { a.won[table] = 1 },
		func(a *aftermath) { a.won[mailbox] = 3 }, func(a *aftermath) { a.wins, a.won = 0, [kinds]int{} },
	} {
		bad := good
		if breaks(&bad); bad.clean(everywhere()...) {
			t.Errorf("%+v is clean", bad)
		}
	}
	all := []aftermath{good, good}
	all[1].lost[mailbox] = 6
	for _, way := range wirings() {
		a := good
		if !way.waits[mailbox] {
			a.lost[mailbox] = a.losings
		}
		all = append(all, a)
	}
	if !asWired(all) {
		t.Errorf("%v are not as they are wired", all)
	}
	for i := range all[1:] {
		bad := append([]aftermath(nil), all...)
		if bad[i+1].lost[mailbox]--; asWired(bad) {
			t.Errorf("%v are as they are wired", bad)
		}
	}
}

// TestCyclesAreFound holds that traces with a lost update and with write skew have a cycle by the detectors and by the
// definition, and that one in which each rests on what stands has none.
func TestCyclesAreFound(t *testing.T) {
	e := &Env{Subject: Ours()}
	deeds := func(reads ...string) (all []deed) {
		for i := 0; i+2 < len(reads); i += 3 {
			all = append(all, deed{name: fmt.Sprint("t", i/3+1), cell: reads[i], seq: uint64(i) + 1,
				read: map[string]string{"x": reads[i+1], "y": reads[i+2]}})
		}
		return all
	}
	for _, c := range []struct {
		name  string
		deeds []deed
		want  conflicts
	}{
		{"one after the other", deeds("x", "", "", "y", "t1", "", "x", "t1", "t2"), conflicts{}},
		{"lost update", deeds("x", "", "", "x", "", ""), conflicts{true, true, 1}},
		{"write skew", deeds("x", "", "", "y", "", ""), conflicts{true, true, 0}},
		{"over three", deeds("x", "", "", "y", "t1", "", "x", "", "t2"), conflicts{true, true, 1}},
	} {
		if got, err := e.conflictsOf(c.deeds); err != nil || got != c.want {
			t.Errorf("%s: %+v, want %+v; %v", c.name, got, c.want, err)
		}
	}
}
