package inspect

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// Gaps in what two replicas wrote, each in its order, and what only looks like one.
func TestGapsOfWritten(t *testing.T) {
	type record struct {
		writer int64
		seqs   []sequencer.Seq
	}
	unsure := map[string]bool{"the lagging stopped": true, "started again": true, "both started again": true}
	by := func(writer int64, seqs ...sequencer.Seq) record { return record{writer, seqs} }
	for name, c := range map[string]struct {
		records   []record
		whole     string // all that was ever written
		cut       string // the newest records, of one replica
		cutOfTwo  string
		copiesAre int
	}{
		"one replica":         {[]record{by(1, 7, 8, 9)}, "[]", "[]", "[]", 0},
		"a hole":              {[]record{by(1, 1, 2, 5, 1)}, "[[2 5]]", "[[2 5]]", "[[2 5]]", 1},
		"a hole in two":       {[]record{by(1, 1, 2), by(2, 1, 2), by(1, 5), by(2, 5)}, "[[2 5]]", "[[2 5]]", "[[2 5]]", 3},
		"filled by the other": {[]record{by(1, 1, 2, 5), by(2, 1, 2, 3, 4)}, "[]", "[]", "[]", 2},
		"computed again":      {[]record{by(1, 4, 5, 6, 4, 5, 6, 7)}, "[]", "[]", "[]", 3},
		"one lags":            {[]record{by(1, 40001), by(2, 1), by(1, 40002), by(2, 2)}, "[]", "[]", "[]", 0},
		"the lagging first":   {[]record{by(2, 1), by(1, 40001), by(2, 2), by(1, 40002)}, "[]", "[]", "[]", 0},
		"the lagging stopped": {[]record{by(2, 1, 2), by(1, 40001, 40002)}, "[[2 40001]]", "[[2 40001]]", "[]", 0},
		"the leader's hole":   {[]record{by(2, 1), by(1, 41, 42, 45), by(2, 2)}, "[[42 45]]", "[[42 45]]", "[[42 45]]", 0},
		"passed before":       {[]record{by(1, 41), by(2, 1, 2, 5)}, "[[2 5]]", "[]", "[]", 0},
		"of no known writer":  {[]record{by(-1, 1, 2, 5)}, "[[2 5]]", "[[2 5]]", "[[2 5]]", 0},
		"started again":       {[]record{by(1, 1, 2), by(3, 5)}, "[[2 5]]", "[[2 5]]", "[]", 0},
		"one started again": {[]record{by(1, 1, 2), by(2, 1, 2), by(3, 5), by(2, 5, 6), by(3, 6)}, "[[2 5]]", "[[2 5]]",
			"[[2 5]]", 4},
		"both started again": {[]record{by(1, 1), by(2, 1), by(3, 4), by(4, 4)}, "[[1 4]]", "[[1 4]]", "[]", 2},
	} {
		w := &written{first: make(map[sequencer.Seq]appearance), writers: make(map[int64]sequencer.Seq)}
		offset, copies := int64(0), 0
		for _, r := range c.records {
			for _, seq := range r.seqs {
				if !w.take(seq, offset, r.writer) {
					copies++
				}
				offset++
			}
		}
		whole, _ := w.gaps(false, true)
		cut, _ := w.gaps(true, false)
		cutOfTwo, doubt := w.gaps(true, true)
		got := []string{fmt.Sprint(whole), fmt.Sprint(cut), fmt.Sprint(cutOfTwo)}
		if doubt != unsure[name] {
			t.Errorf("%s: doubt is %v", name, doubt)
		}
		if want := []string{c.whole, c.cut, c.cutOfTwo}; fmt.Sprint(got) != fmt.Sprint(want) || copies != c.copiesAre {
			t.Errorf("%s: %v with %d copies, want %v with %d", name, got, copies, want, c.copiesAre)
		}
	}
}
