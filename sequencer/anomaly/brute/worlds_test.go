package brute

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/topology/trace"
)

// histories gives random histories, then those of all worlds, or a fifth of each.
func histories(t *testing.T, each func(h []trace.Record)) {
	t.Helper()
	step := 1
	if testsize.Small() {
		step = 5
	}
	for seed := range 10_000 / step {
		each(Random(uint64(seed)))
	}
	for _, w := range Worlds(false) {
		for i := 0; i < w.Count; i += step {
			each(w.At(i))
		}
	}
}

// TestWorlds prints the bounds, and holds that the histories of a world differ and that each verdict of each
// predicate, each kind of cycle and each point of the lattice occurs.
func TestWorlds(t *testing.T) {
	found, points := map[string]int{}, map[Set]int{}
	total := 0
	for _, w := range Worlds(!testsize.Small()) {
		t.Logf("%7d histories: %s", w.Count, w.Bounds)
		seen, most := map[string]bool{}, min(w.Count, 3000)
		for i := range most {
			h := w.At(i * (w.Count / most))
			seen[fmt.Sprintf("%#v %v", h, abortedOf(h))] = true
		}
		if len(seen) != most {
			t.Errorf("%s: of %d histories %d differ", w.Bounds, most, len(seen))
		}
		if first, again := w.At(w.Count-1), w.At(w.Count-1); !reflect.DeepEqual(first, again) {
			t.Errorf("%s: the last history changes", w.Bounds)
		}
	}
	histories(t, func(h []trace.Record) {
		total++
		a := Judge(h)
		for _, f := range a.Findings {
			found[fmt.Sprint(f.Class, " ", f.Sure)]++
		}
		for _, c := range a.Components {
			found["shortest cycle "+c.Kinds]++
		}
		points[a.Point()]++
		if low, high := a.Levels(); low > high {
			t.Fatalf("levels %d to %d of %v", low, high, a)
		}
	})
	t.Logf("%d histories with the random ones", total)
	var lines []string
	for what, n := range found {
		lines = append(lines, fmt.Sprintf("%8d %s", n, what))
	}
	slices.Sort(lines)
	for _, line := range lines {
		t.Log(line)
	}
	for _, class := range []Class{Stale, StaleOwn, Phantom, PhantomSignature, Cascade, CascadeFar, SplitView,
		SplitVersion, Reordering, Effects, LostUpdate, WriteSkew, Cycle, NullOverwrite, Scar, GapRead, GapWritten} {
		if found[fmt.Sprint(class, " ", Certain)] == 0 {
			t.Errorf("no history has a certain %s", class)
		}
	}
	for _, what := range []string{"A2 possible", "A3 residue possible", "A1 undecidable", "A2 undecidable",
		"A3 residue undecidable", "A4 undecidable", "A4v undecidable", "A6 undecidable", "null overwrite undecidable",
		"shortest cycle G1c", "shortest cycle G-single", "shortest cycle G2", "shortest cycle G-single,G2"} {
		if found[what] == 0 {
			t.Errorf("no history has %q", what)
		}
	}
	if len(points) != 16 {
		t.Errorf("%d points of the lattice occur, not 16: %v", len(points), points)
	}
}

// abortedOf shows what is behind the pointers of a history.
func abortedOf(h []trace.Record) (all []string) {
	for i := range h {
		switch {
		case h[i].Aborted == nil:
			all = append(all, "absent")
		default:
			all = append(all, fmt.Sprint(*h[i].Aborted))
		}
	}
	return all
}

// TestEachConjunctMatters drops one conjunct after the other: the histories must tell each one that was dropped from
// the predicate as it is. So a detector that forgets it is told from one that does not.
func TestEachConjunctMatters(t *testing.T) {
	open := map[conjunct]bool{}
	for c := conjunct(1); c < conjuncts; c++ {
		open[c] = true
	}
	// of Definition 4, |io| ≥ 2 follows: a sequence of fewer has no other permutation
	delete(open, reorderingTwo)
	n := 0
	histories(t, func(h []trace.Record) {
		if n++; len(open) == 0 || n > 500 && n%3 != 0 {
			return
		}
		right := Judge(h)
		for c := range open {
			if !reflect.DeepEqual(newHistory(h, c).answer(), right) {
				delete(open, c)
			}
		}
	})
	for c := range open {
		t.Errorf("no history tells whether conjunct %d is dropped", c)
	}
}
