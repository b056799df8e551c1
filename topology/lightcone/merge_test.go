package lightcone_test

import (
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/topology/lightcone"
	"github.com/hence-dev/hence/topology/lightcone/brute"
)

// tally is what a search over pairs of views found. A pair and its mirror image are compared once and count twice.
type tally struct {
	cases, checked                int
	wrongClosed, wrongOrder       map[[2]int]int // of the theorem to the letter, by filter and scope
	closedViews                   map[[2]int]int // of those, where both views are closed over all causes
	merged, conflicts, unmergable int
}

// mergeAll compares Merge with the definition on all worlds of so many messages, and on each one in step of the pairs.
func mergeAll(t *testing.T, n, step int) (found tally) {
	t.Helper()
	found.wrongClosed, found.wrongOrder, found.closedViews = map[[2]int]int{}, map[[2]int]int{}, map[[2]int]int{}
	configs := lightcone.Configs(lightcone.Filters(), causally())
	var orders []uint16
	for _, o := range brute.Permutations(1<<n - 1) {
		orders = append(orders, brute.PairsOf(o))
	}
	for w := range brute.Graphs(n) {
		views := w.Views()
		for _, w.Object = range brute.Partitions(n) {
			h := w.History()
			for i, a := range views {
				for _, b := range views[:i+1] {
					counts := 2
					if &a.Seen[0] == &b.Seen[0] {
						counts = 1
					}
					if found.cases += counts; found.cases%step != 0 {
						continue
					}
					found.checked += counts
					for _, filter := range []int{0, 1, 3} {
						for scope := range 3 {
							found.compare(t, &w, h, a, b, filter, scope, configs[filter*3+scope], orders, counts)
						}
					}
				}
			}
		}
	}
	return found
}

func (f *tally) compare(t *testing.T, w *brute.World, h lightcone.History, a, b brute.View, filter, scope int,
	target lightcone.Config, orders []uint16, counts int,
) {
	t.Helper()
	var plain, clean bool
	for _, asked := range []bool{false, true} {
		want := w.Merges(a, b, filter, scope, asked, orders)
		got := h.Merge(lightcone.View{Seen: a.Seen, By: lightcone.Everything},
			lightcone.View{Seen: b.Seen, By: lightcone.Everything}, target, asked)
		if (got.Order != nil) != want {
			t.Fatalf("%+v: %v and %v under %v, clean %v: %+v, want %v", h, a.Seen, b.Seen, target, asked, got, want)
		}
		f.hold(t, w, a, b, scope, got, asked)
		if asked {
			clean = want
		} else {
			plain = want
		}
	}
	says := w.Theorem(a, b, filter, scope)
	at := [2]int{filter, scope}
	if says != plain {
		f.wrongClosed[at] += counts
	}
	if says && !clean {
		f.wrongOrder[at] += counts
		if w.Closed(3, a.Set) && w.Closed(3, b.Set) {
			f.closedViews[at] += counts
		}
	}
}

// hold checks what Merge shows for its answer.
func (f *tally) hold(t *testing.T, w *brute.World, a, b brute.View, scope int, got lightcone.Merged, clean bool) {
	t.Helper()
	union := a.Set | b.Set
	switch {
	case got.Order != nil:
		f.merged++
		order := brute.PairsOf(got.Order)
		for x := range w.N {
			for y := range w.N {
				if p := brute.PairBit(x, y); w.Classed(scope, x, y) && ((a.Pairs|b.Pairs)&p&^order != 0 ||
					union>>x&1 == 0 && union>>y&1 == 1 && order&p != 0) || clean && order&w.AgainstCauses() != 0 {
					t.Fatalf("the merged order %v breaks %d before %d", got.Order, x, y)
				}
			}
		}
	case got.Missing != nil:
		f.unmergable++
		c, m := got.Missing.First, got.Missing.Second
		if union>>m&1 == 0 || union>>c&1 == 1 || w.Past[m]>>c&1 == 0 {
			t.Fatalf("%d is no missing cause of %d", c, m)
		}
	default:
		f.conflicts++
		if !clean && len(got.Cycle) != 2 {
			t.Fatalf("two views that order all they have contradict in one pair, not in %v", got.Cycle)
		}
		for i, first := range got.Cycle {
			second := got.Cycle[(i+1)%len(got.Cycle)]
			must := (a.Pairs|b.Pairs)&brute.PairBit(first, second) != 0 && w.Classed(scope, first, second) ||
				clean && w.Causes[second]>>first&1 == 1 ||
				w.Classed(scope, first, second) && union>>first&1 == 1 && union>>second&1 == 0
			if !must {
				t.Fatalf("the cycle %v: nothing puts %d before %d", got.Cycle, first, second)
			}
		}
	}
}

// TestMerge holds Merge against its definition on causal graphs of up to four messages, with all objects, all pairs of
// views and all their orders that respect causes: a sample of them, and all at full size. Where the paper's theorem
// says something else, it is counted.
func TestMerge(t *testing.T) {
	for n := 1; n < 4; n++ {
		mergeAll(t, n, 1)
	}
	step := 1
	if testsize.Small() {
		step = 97
	}
	f := mergeAll(t, 4, step)
	t.Logf("%d cases of %d: %d merge, %d are not closed, %d conflict", f.checked, f.cases, f.merged, f.unmergable,
		f.conflicts)
	t.Logf("the theorem to the letter is wrong in %v, and of a clean order in %v, of closed views in %v",
		f.wrongClosed, f.wrongOrder, f.closedViews)
	if f.cases != 805_410 || f.merged == 0 || f.unmergable == 0 || f.conflicts == 0 {
		t.Errorf("%d cases", f.cases)
	}
	if step > 1 {
		return
	}
	for at, want := range map[[2]int]int{{1, 0}: 155_008, {3, 0}: 316_260} {
		if got := f.wrongClosed[at]; got != want {
			t.Errorf("the theorem is wrong about closure in %d cases at %v, want %d", got, at, want)
		}
	}
	if got := f.wrongOrder[[2]int{0, 2}]; got != 148_860 {
		t.Errorf("the theorem is wrong about a clean order in %d cases at (none, all), want 148,860", got)
	}
	if got := f.closedViews[[2]int{3, 1}]; got != 6 {
		t.Errorf("the theorem is wrong about closed views in %d cases at (explicit, object), want 6", got)
	}
}

// TestMergeNamesMissing holds that a cause which neither view has is named as missing, also where only a clean order
// asks for it.
func TestMergeNamesMissing(t *testing.T) {
	h := lightcone.History{Messages: []lightcone.Message{{}, {Causes: []int{0}}}, Order: []int{0, 1}}
	one := lightcone.View{Seen: []int{1}, By: lightcone.Everything}
	got := h.Merge(one, one, lightcone.Config{Order: lightcone.Everything}, true)
	if got.Missing == nil || *got.Missing != (lightcone.Pair{First: 0, Second: 1}) {
		t.Errorf("a clean order of an effect without its cause: %+v", got)
	}
}
