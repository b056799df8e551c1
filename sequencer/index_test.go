package sequencer

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type scopeKey struct {
	scope Scope
	key   uint64
}

func collect(x *index[uint64, uint64], s Scope) []scopeKey {
	var got []scopeKey
	x.visit(s, func(scope Scope, value uint64) bool {
		got = append(got, scopeKey{scope, value})
		return true
	})
	return got
}

func compareKeys(a, b scopeKey) int {
	return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.key, b.key))
}

func TestIndexEqualsScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index[uint64, uint64]
		model := map[scopeKey]uint64{}
		keys := rapid.Uint64Range(1, 4)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				k := scopeKey{scopes().Draw(t, "scope"), keys.Draw(t, "key")}
				value := rapid.Uint64Range(1, 9).Draw(t, "value")
				x.add(k.scope, k.key, value)
				model[k] = value
			},
			"remove": func(t *rapid.T) {
				k := scopeKey{scopes().Draw(t, "scope"), keys.Draw(t, "key")}
				_, want := model[k]
				if got := x.remove(k.scope, k.key); got != want {
					t.Fatalf("remove(%v) = %v", k, got)
				}
				delete(model, k)
			},
			"": func(t *rapid.T) {
				s := scopes().Draw(t, "query")
				var want []scopeKey
				for k, value := range model {
					if k.scope.Overlaps(s) {
						want = append(want, scopeKey{k.scope, value})
					}
				}
				visited := collect(&x, s)
				got := slices.SortedFunc(slices.Values(visited), compareKeys)
				slices.SortFunc(want, compareKeys)
				if !slices.Equal(got, want) {
					t.Fatalf("visit(%q) met %v, want %v", s, got, want)
				}
				// The order is of what is stored, not of how it came there.
				var y index[uint64, uint64]
				for k, value := range model {
					y.add(k.scope, k.key, value)
				}
				if again := collect(&y, s); !slices.Equal(again, visited) {
					t.Fatalf("visit(%q) went %v, built otherwise %v", s, visited, again)
				}
			},
		})
		for k := range model {
			x.remove(k.scope, k.key)
		}
		if len(x.trie.root.kids.runs) != 0 {
			t.Fatalf("empty nodes were left: %v", x.trie.root.kids.runs)
		}
	})
}

func TestIndexVisitOrderAndStop(t *testing.T) {
	var x index[uint64, uint64]
	for i, s := range []Scope{"t:/b/c", "t:/b", "t:/", "t:/*", "t:/%21", "t:/b-", "t:/*/c", "u:/b"} {
		x.add(s, uint64(i), uint64(i))
	}
	x.add("t:/b", 0, 9)
	want := []scopeKey{
		{"t:/", 2}, {"t:/%21", 4}, {"t:/*", 3}, {"t:/*/c", 6}, {"t:/b", 9}, {"t:/b", 1}, {"t:/b/c", 0}, {"t:/b-", 5},
	}
	if got := collect(&x, "t:/*"); !slices.Equal(got, want) {
		t.Fatalf("visit went %v, want %v", got, want)
	}
	want = []scopeKey{{"t:/", 2}, {"t:/%21", 4}, {"t:/*", 3}, {"t:/*/c", 6}}
	if got := collect(&x, "t:/%21/c"); !slices.Equal(got, want) {
		t.Fatalf("visit went %v, want %v", got, want)
	}
	for stop := 1; stop <= 8; stop++ {
		met := 0
		x.visit("t:/", func(Scope, uint64) bool { met++; return met < stop })
		if met != stop {
			t.Fatalf("visit stopped after %d, want %d", met, stop)
		}
	}
}

// TestSiblings adds and removes more children of one node than fit one run.
func TestSiblings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index[uint64, uint64]
		numbers := rapid.Permutation(makeNumbers(5*maxRun)).Draw(t, "numbers")
		for _, n := range numbers {
			x.add(flatScope(n), 1, n)
		}
		kept := rapid.IntRange(0, len(numbers)).Draw(t, "kept")
		for _, n := range numbers[kept:] {
			if !x.remove(flatScope(n), 1) || x.remove(flatScope(n), 1) {
				t.Fatalf("%d was not there once", n)
			}
		}
		var got []uint64
		x.visit("t:/", func(_ Scope, value uint64) bool {
			got = append(got, value)
			return true
		})
		if want := slices.Sorted(slices.Values(numbers[:kept])); !slices.Equal(got, want) {
			t.Fatalf("met %v, want %v", got, want)
		}
		for _, n := range numbers {
			if found := len(collect(&x, flatScope(n))) == 1; found != slices.Contains(numbers[:kept], n) {
				t.Fatalf("%d found: %v", n, found)
			}
		}
		for _, n := range numbers[kept:] {
			x.add(flatScope(n), 1, n)
		}
		if got := len(collect(&x, "t:/")); got != len(numbers) {
			t.Fatalf("met %d once all were back, want %d", got, len(numbers))
		}
		for _, run := range x.trie.root.kids.runs {
			for _, run := range run[0].kids.runs {
				if len(run) == 0 || len(run) > maxRun {
					t.Fatalf("a run of %d", len(run))
				}
			}
		}
	})
}

func makeNumbers(n int) []uint64 {
	numbers := make([]uint64, n)
	for i := range numbers {
		numbers[i] = uint64(i)
	}
	return numbers
}

// flatScope is one of many children of one node, in the order of their numbers.
func flatScope(n uint64) Scope { return Scope(fmt.Sprintf("t:/%08d", n)) }

// benchScope is one of n scopes: 100 shelves of n/100 boxes.
func benchScope(i, n int) Scope { return Scope(fmt.Sprintf("t:/store/%02d/%d", i%100, i%n/100)) }

var benchSizes = []int{1_000, 1_000_000}

func BenchmarkIndexVisit(b *testing.B) {
	for _, n := range benchSizes {
		var x index[uint64, int]
		for i := range n {
			x.add(benchScope(i, n), uint64(i), i)
		}
		x.add("t:/store/*/7", 1, 1)
		queries := benchQueries(n)
		b.Run(fmt.Sprintf("stored=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			met := 0
			for i := 0; b.Loop(); i++ {
				x.visit(queries[i%len(queries)], func(Scope, int) bool { met++; return true })
			}
			if met < b.N {
				b.Fatalf("met %d in %d visits", met, b.N)
			}
		})
		b.Run(fmt.Sprintf("add+remove/stored=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.add(queries[i%len(queries)]+"/new", 1, 1)
				x.remove(queries[i%len(queries)]+"/new", 1)
			}
		})
	}
}

// benchQueries are enough different scopes to show what look-ups cost, and few enough to stay in a cache.
func benchQueries(n int) []Scope {
	queries := make([]Scope, 1_000)
	for i := range queries {
		queries[i] = benchScope(i*(n/1_000), n)
	}
	return queries
}
