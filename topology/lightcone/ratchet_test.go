package lightcone_test

import (
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/topology/lightcone"
	"github.com/hence-dev/hence/topology/lightcone/brute"
)

// TestCarried holds what pipelines carry, of each source through hops at each of the twelve configurations, against
// copies made step by step on all worlds of two and three messages: what a copy carries can be read honestly exactly
// where, in all worlds, it has all that a reader needs.
func TestCarried(t *testing.T) {
	hops := 3
	if testsize.Small() {
		hops = 2
	}
	configs := lightcone.Configs(lightcone.Filters(), causally())
	var all [][12][4]uint8 // by world: what each configuration needs
	var sizes []int
	for n := 2; n <= 3; n++ {
		for w := range brute.Labelled(n, false) {
			var needs [12][4]uint8
			for c := range needs {
				needs[c] = w.Needs(c/3, c%3)
			}
			if !slices.Contains(all, needs) {
				all, sizes = append(all, needs), append(sizes, n)
			}
		}
	}
	pipelines := 0
	var walk func(path []int)
	walk = func(path []int) {
		if len(path) > 1 {
			pipelines++
			carried(t, configs, path, all, sizes)
		}
		if len(path) <= hops {
			for c := range configs {
				walk(append(slices.Clone(path), c))
			}
		}
	}
	for c := range configs {
		walk([]int{c})
	}
	t.Logf("%d pipelines of up to %d hops on %d worlds", pipelines, hops, len(all))
}

func carried(t *testing.T, configs []lightcone.Config, path []int, all [][12][4]uint8, sizes []int) {
	t.Helper()
	var readable [12]bool
	for x := range readable {
		readable[x] = true
	}
	for i, needs := range all {
		for m := range sizes[i] {
			known := uint8(0xf)
			for _, c := range path {
				known = brute.Reach(m, needs[c], known)
			}
			for x := range readable {
				readable[x] = readable[x] && brute.Reach(m, needs[x], 0xf)&^known == 0
			}
		}
	}
	steps := make([]lightcone.Hop, 0, 3)
	for _, c := range path[1:] {
		steps = append(steps, lightcone.Hop{Config: configs[c]})
	}
	levels, falls := scheme.Carried(configs[path[0]], steps)
	end := levels[len(levels)-1]
	for x, want := range readable {
		if got := scheme.Readable(end, configs[x]) == nil; got != want {
			t.Fatalf("pipeline %v carries %v: under %v readable %v, the copies say %v", path, end, configs[x], got, want)
		}
	}
	if first := scheme.Level(configs[path[0]]); (first.String() == end.String()) != (len(falls) == 0) {
		t.Fatalf("pipeline %v goes from %v to %v, and %d falls are said", path, first, end, len(falls))
	}
}

// TestPapersPipelines holds the paper's four examples, and where each axis is lost.
func TestPapersPipelines(t *testing.T) {
	at := func(filter lightcone.Set, order lightcone.Label) lightcone.Config {
		return lightcone.Config{Closure: filter, Order: order, Arbitration: causally()}
	}
	everything := lightcone.Set{lightcone.Everything}
	sequential := at(everything, lightcone.Everything)
	for _, c := range []struct {
		name  string
		hops  []lightcone.Hop
		want  string
		falls []lightcone.Fall
	}{
		{"an eventual reader", []lightcone.Hop{{Config: at(nil, "")}}, "(none, trivial)",
			[]lightcone.Fall{{Hop: 0, LostOrder: true, LostClosure: true}}},
		{"a causal reader", []lightcone.Hop{{Config: at(everything, "")}}, "(explicit, trivial)",
			[]lightcone.Fall{{Hop: 0, LostOrder: true}}},
		{"a total order without a filter", []lightcone.Hop{{Config: at(nil, lightcone.Everything)}}, "(explicit, all)", nil},
		{"PRAM, then all again", []lightcone.Hop{{Config: at(lightcone.Set{lightcone.Session}, "")},
			{Config: at(nil, lightcone.Everything)}}, "(session, trivial)",
			[]lightcone.Fall{{Hop: 0, LostOrder: true, LostClosure: true}}},
		{"a cache that names the version", []lightcone.Hop{{Config: at(nil, ""), Append: true}}, "(explicit, all)", nil},
		{"an order that does not respect causes",
			[]lightcone.Hop{{Config: lightcone.Config{Order: lightcone.Everything}}}, "(none, all)",
			[]lightcone.Fall{{Hop: 0, LostClosure: true}}},
		{"sessions with ordered objects, then causal", []lightcone.Hop{
			{Config: at(lightcone.Set{lightcone.Session}, lightcone.Object)}, {Config: at(everything, "")}},
			"(object+session, trivial)", []lightcone.Fall{{Hop: 0, LostOrder: true, LostClosure: true},
				{Hop: 1, LostOrder: true}}},
	} {
		levels, falls := scheme.Carried(sequential, c.hops)
		if got := levels[len(levels)-1].String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if len(falls) != len(c.falls) {
			t.Errorf("%s: falls %+v", c.name, falls)
			continue
		}
		for i, f := range falls {
			if w := c.falls[i]; f.Hop != w.Hop || f.LostOrder != w.LostOrder || f.LostClosure != w.LostClosure {
				t.Errorf("%s: fall %+v, want %+v", c.name, f, w)
			}
		}
	}
}

// TestProvenance holds what a copy can say that it rests on, and that what a copy made at a weaker level loses is
// never brought back: where a level reads another one's data its provenance is within it, and where it does not some
// world shows a loss.
func TestProvenance(t *testing.T) {
	configs := lightcone.Configs(lightcone.Filters(), causally())
	var lost [12][12]bool
	for n := 2; n <= 3; n++ {
		for w := range brute.Labelled(n, false) {
			h := w.History()
			for m := range n {
				var sets [12]uint8
				for c := range configs {
					sets[c] = brute.SetOf(h.Provenance(m, configs[c]))
					if want := brute.Reach(m, w.Needs(c/3, c%3), 0xf); sets[c] != want {
						t.Fatalf("%+v: %d at %v rests on %b, want %b", h, m, configs[c], sets[c], want)
					}
				}
				for a := range configs {
					for b := range configs {
						lost[a][b] = lost[a][b] || sets[a]&^sets[b] != 0
					}
				}
			}
		}
	}
	for a := range configs {
		for b := range configs {
			// What is native to a and copied at b is lost unless b's data can be read at a.
			if lost[a][b] == scheme.Reads(configs[b], configs[a]) {
				t.Errorf("native %v copied at %v: lost %v", configs[a], configs[b], lost[a][b])
			}
		}
	}
}
