package sequencer

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slowWindow is the window as a list of all it holds.
type slowWindow []WindowState

func (w slowWindow) without(drop func(WindowState) bool) slowWindow {
	return slices.DeleteFunc(slices.Clone(w), drop)
}

func (w slowWindow) overlapping(s Scope) slowWindow {
	return w.without(func(e WindowState) bool { return !e.Scope.Overlaps(s) })
}

func (w slowWindow) latest(s Scope) WindowState {
	found := w.overlapping(s)
	if len(found) == 0 {
		return WindowState{}
	}
	return slices.MinFunc(found, func(a, b WindowState) int {
		return cmp.Or(cmp.Compare(b.Seq, a.Seq), cmp.Compare(a.Scope, b.Scope))
	})
}

// shown is what a visit shows.
func (w slowWindow) shown() slowWindow {
	out := slices.Clone(w)
	for i := range out {
		out[i].By = ""
	}
	return out
}

func (w slowWindow) sorted() []WindowState {
	return slices.SortedFunc(slices.Values(w), compareEntries)
}

func TestWindowEqualsList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWindow(nil)
		var model slowWindow
		seq := Seq(1)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				seq += Seq(rapid.IntRange(0, 2).Draw(t, "later"))
				e := WindowState{Scope: scopes().Draw(t, "scope"), Seq: seq}
				e.Writer = Writer{Seq: seq - 1, Tx: TxID(fmt.Sprint(len(model))), Residue: rapid.Bool().Draw(t, "residue")}
				e.By = TxID(rapid.SampledFrom([]string{"", "by"}).Draw(t, "by"))
				w.put(e.Scope, e.Seq, e.Writer, e.By)
				model = append(model.without(func(o WindowState) bool { return o.Scope == e.Scope }), e)
			},
			"prune": func(t *rapid.T) {
				floor := seq - min(seq, Seq(rapid.IntRange(0, 6).Draw(t, "behind")))
				w.prune(floor)
				model = model.without(func(o WindowState) bool { return o.Seq <= floor })
			},
			"reload": func(*rapid.T) { w = newWindow(w.entries()) },
			"": func(t *rapid.T) {
				s := scopes().Draw(t, "query")
				bound := seq - min(seq, Seq(rapid.IntRange(0, 6).Draw(t, "bound")))
				checkWindow(t, w, model, s, bound)
			},
		})
		w.prune(seq)
		if len(w.trie.root.kids.runs) != 0 || w.newest != nil || w.trie.root.load != (lastWrite{}) || w.len() != 0 {
			t.Fatalf("something was left: %+v", w)
		}
	})
}

func checkWindow(t *rapid.T, w *window, model slowWindow, s Scope, bound Seq) {
	if got, want := w.entries(), model.sorted(); !slices.Equal(got, want) || w.len() != len(want) {
		t.Fatalf("holds %d: %v, want %v", w.len(), got, want)
	}
	want := model.latest(s)
	if s, by := w.at(want.Scope); want.Scope != "" && (s != want.Seq || by != cmp.Or(want.By, want.Writer.Tx)) {
		t.Fatalf("at(%q) = %d %q, want %v", want.Scope, s, by, want)
	}
	want.By = ""
	var got WindowState
	if got.Scope, got.Seq, got.Writer = w.latest(s); got != want {
		t.Fatalf("latest(%q) = %v, want %v", s, got, want)
	}
	if want.Seq <= bound {
		want = WindowState{}
	}
	scope, seq, writer, ok := w.after(s, bound)
	if got := (WindowState{Scope: scope, Seq: seq, Writer: writer}); got != want || ok != (want.Seq > 0) {
		t.Fatalf("after(%q, %d) = %v %v, want %v", s, bound, got, ok, want)
	}
	met := windowVisit(w, s)
	if got, want := slowWindow(met).sorted(), model.overlapping(s).shown().sorted(); !slices.Equal(got, want) {
		t.Fatalf("visit(%q) met %v, want %v", s, got, want)
	}
	if again := windowVisit(newWindow(w.entries()), s); !slices.Equal(again, met) {
		t.Fatalf("visit(%q) went %v, after a reload %v", s, met, again)
	}
}

func windowVisit(w *window, s Scope) []WindowState {
	var met []WindowState
	w.visit(s, func(scope Scope, seq Seq, writer Writer) bool {
		met = append(met, WindowState{Scope: scope, Seq: seq, Writer: writer})
		return true
	})
	return met
}

func TestWindowRefusesSeqsThatGoDown(t *testing.T) {
	for _, seq := range []Seq{0, 6} {
		func() {
			w := newWindow([]WindowState{{Scope: "t:/a", Seq: 7}})
			defer func() {
				if recover() == nil {
					t.Fatalf("a write at seq %d after one at 7 was taken", seq)
				}
			}()
			w.put("t:/b", seq, Writer{}, "")
		}()
	}
}

func BenchmarkWindow(b *testing.B) {
	for _, n := range benchSizes {
		w := newWindow(nil)
		for i := range n {
			w.put(benchScope(i, n), Seq(i+1), Writer{}, "")
		}
		w.put("t:/store/*/7", Seq(n+1), Writer{}, "")
		queries := benchQueries(n)
		run := func(name string, one func(i int)) {
			b.Run(fmt.Sprintf("%s/stored=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					one(i)
				}
			})
		}
		run("after", func(i int) { w.after(queries[i%len(queries)], 0) })
		run("after-subtree", func(int) { w.after("t:/store", 0) })
		run("after-inner-star", func(int) { w.after("t:/store/*/3", Seq(n-10)) })
		seq := w.top
		run("put", func(i int) {
			seq++
			w.put(queries[i%len(queries)], seq, Writer{}, "")
		})
		run("put+prune", func(i int) {
			seq++
			w.put(queries[i%len(queries)], seq, Writer{}, "")
			w.prune(seq - Seq(n))
		})
	}
}
