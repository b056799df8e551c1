package tables

import (
	"fmt"
	"testing"
)

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
