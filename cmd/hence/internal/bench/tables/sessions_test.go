package tables

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/costlaw"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
)

// TestLawFalls holds the rules of the rows that Hence is measured for: they say yes to a runtime that spends a refused
// generation again and nothing else, and no to one that refuses nothing or everything, or does all again.
func TestLawFalls(t *testing.T) {
	for _, c := range []struct {
		name string
		kind runtimes.Kind
		redo costlaw.Redo
		want bool
	}{
		{"own again", runtimes.Serializable, costlaw.Own, true},
		{"nothing refused", runtimes.Vanilla, costlaw.Own, false},
		{"everything again", runtimes.Serializable, costlaw.Everything, false},
	} {
		all, wrong, err := measured(t.Context(), 2, func(costlaw.Shape, uint64) costlaw.Store {
			return costlaw.NewRuntime(c.kind)
		}, c.redo)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []Result{law(all, wrong), crossing(all, wrong)} {
			if (r.Verdict != Missed) != c.want {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
		if c.want {
			for _, r := range []Result{law(all, 1), crossing(all, 1)} {
				if r.Verdict != Missed {
					t.Errorf("a session is wrong, and %+v", r)
				}
			}
		}
	}
}

// TestTopologiesAreTheExamples holds that the topologies in the program are the files that people see.
func TestTopologiesAreTheExamples(t *testing.T) {
	all, err := layeredTopologies()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../../../../docs/examples/layers/*.yaml")
	if err != nil || len(files) != len(all) {
		t.Fatalf("%d files, %d in the program; %v", len(files), len(all), err)
	}
	for i, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if name := strings.TrimSuffix(filepath.Base(path), ".yaml"); all[i].name != name || all[i].text != string(text) {
			t.Errorf("claims/layers.txt and %s differ", path)
		}
	}
}

// byEnumeration is signedRank from its definition: all ways to draw the signs.
func byEnumeration(differences []float64) (above, below float64) {
	var d []float64
	for _, v := range differences {
		if v != 0 {
			d = append(d, v)
		}
	}
	sum := func(positive func(i int) bool) (ranks float64) {
		for i := range d {
			if !positive(i) {
				continue
			}
			less, same := 0, 0
			for j := range d {
				if math.Abs(d[j]) < math.Abs(d[i]) {
					less++
				} else if math.Abs(d[j]) == math.Abs(d[i]) {
					same++
				}
			}
			ranks += float64(less) + float64(same+1)/2
		}
		return ranks
	}
	is := sum(func(i int) bool { return d[i] > 0 })
	all := 1 << len(d)
	for signs := range all {
		drawn := sum(func(i int) bool { return signs>>i&1 == 1 })
		if drawn >= is {
			above += 1 / float64(all)
		}
		if drawn <= is {
			below += 1 / float64(all)
		}
	}
	return above, below
}

// TestSignedRank holds the exact test against figures from hand, and against all ways to draw the signs.
func TestSignedRank(t *testing.T) {
	for _, c := range []struct {
		differences  []float64
		above, below float64
	}{
		{nil, 1, 1},
		{[]float64{0, 0}, 1, 1},
		{[]float64{5, 4, 3, 2, 1}, 1.0 / 32, 1},         // of 32 ways one has all ranks
		{[]float64{1, 2, -3}, 5.0 / 8, 5.0 / 8},         // ranks 1 and 2 sum to 3: so do 3 alone, and five ways at least
		{[]float64{-1, -1, 1, 0}, 7.0 / 8, 1.0 / 2},     // three ranks of two: at least one of them, at most one
		{[]float64{7, -1, 2, 9, 4}, 2.0 / 32, 31. / 32}, // all but the first rank, or all
	} {
		if above, below := signedRank(c.differences); math.Abs(above-c.above) > 1e-12 || math.Abs(below-c.below) > 1e-12 {
			t.Errorf("%v: %v and %v, want %v and %v", c.differences, above, below, c.above, c.below)
		}
	}
	chance := (&Env{Seed: 1}).chance(t.Name())
	for range 50 {
		d := make([]float64, 1+chance.IntN(9))
		for i := range d {
			d[i] = float64(chance.IntN(9) - 4)
		}
		above, below := signedRank(d)
		if a, b := byEnumeration(d); math.Abs(above-a) > 1e-12 || math.Abs(below-b) > 1e-12 {
			t.Errorf("%v: %v and %v, by enumeration %v and %v", d, above, below, a, b)
		}
	}
}

// TestPairs holds the other statistics of pairs against figures from hand.
func TestPairs(t *testing.T) {
	// Of four tests the least chance is held to .05/4, the next to .05/3, and so on until one fails.
	if got := holm([]float64{.04, .01, .016, .03}, .05); !slices.Equal(got, []bool{false, true, true, false}) {
		t.Errorf("Holm's correction takes %v", got)
	}
	if got := holm([]float64{.02, .2}, .05); !slices.Equal(got, []bool{true, false}) {
		t.Errorf("Holm's correction takes %v", got)
	}
	// Six differences within the margin all lie above its lower end: one of 64 ways, on either side.
	near := []float64{-1, 2, -3, 1, 2, -2}
	if p := equivalent(near, 4); math.Abs(p-1.0/64) > 1e-12 {
		t.Errorf("equivalent with %v", p)
	}
	if p := equivalent([]float64{6, 5, 7, 6, 5, 9}, 4); p < .95 {
		t.Errorf("what lies beyond the margin is equivalent with %v", p)
	}
	if p := differs([]float64{1, 2, 3, 4, 5, 6}); math.Abs(p-2.0/64) > 1e-12 {
		t.Errorf("differs with %v", p)
	}
	// 2, 4, 6: a mean of 4, squares of 8 by two degrees of freedom.
	m, around := mean([]float64{2, 4, 6})
	if m != 4 || math.Abs(around-1.96*2/math.Sqrt(3)) > 1e-12 {
		t.Errorf("a mean of %v ± %v", m, around)
	}
	if got := detectable([]float64{2, 4, 6}); math.Abs(got-2.8016*2/math.Sqrt(3)) > 1e-12 {
		t.Errorf("least that is found: %v", got)
	}
}

// TestPlay holds the times and tokens of sessions against those that follow from their generations.
func TestPlay(t *testing.T) {
	const seed = 7
	took := func(stint, attempt int) (tokens int, seconds float64) { return generation(seed, stint, attempt) }
	t0, s0 := took(0, 1)
	t1, s1 := took(1, 1)
	again, s2 := took(1, 2)
	review := stints("edit-review", nil)
	first := min(s0, s1) // who is first is not refused: the editor writes what both read
	for _, c := range []struct {
		kind   runtimes.Kind
		stints []stint
		refuse []bool
		want   bill
	}{
		{runtimes.Vanilla, review, nil, bill{tokens: t0 + t1, generations: 2, seconds: max(s0, s1), busy: s0 + s1}},
		{runtimes.PessimisticWait, review, nil, bill{tokens: t0 + t1, generations: 2, seconds: s0 + s1, busy: s0 + s1}},
		{runtimes.Vanilla, stints("plan-execute", nil), []bool{false, true},
			bill{tokens: t0 + t1 + again, generations: 3, aborted: 1, seconds: s0 + s1 + s2, busy: s0 + s1 + s2}},
		{runtimes.Snapshot, []stint{{agent: "editor", reads: "doc", writes: "doc"},
			{agent: "reviewer", reads: "doc", writes: "verdict", pause: s0 - first/2}}, nil,
			bill{tokens: t0 + t1 + again, generations: 3, aborted: 1, seconds: s0 - first/2 + s1 + s2, busy: s0 + s1 + s2}},
	} {
		asked := 0
		got, err := play(runtimes.New(c.kind), c.stints, seed, func() bool {
			asked++
			return asked <= len(c.refuse) && c.refuse[asked-1]
		})
		if err != nil || got.tokens != c.want.tokens || got.generations != c.want.generations ||
			got.aborted != c.want.aborted || math.Abs(got.seconds-c.want.seconds) > 1e-9 ||
			math.Abs(got.busy-c.want.busy) > 1e-9 {
			t.Errorf("%s: %+v, want %+v; %v", c.kind, got, c.want, err)
		}
	}
}
