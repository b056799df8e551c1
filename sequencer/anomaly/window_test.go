package anomaly_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/sequencer/testsize"
)

// randomOps are operations of a small world, in the order of their commits. Disorder lets some of them read the
// future, come late, miss a value, name what comes later, or have no provenance.
func randomOps(r *rand.Rand, n int, disorder bool) (ops []anomaly.Op) {
	cells, agents := []string{"x", "y", "z"}, []string{"a", "b", "c"}
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	values := []string{"1", "2", "3", anomaly.Null}
	time := uint64(0)
	for i := range n {
		time += 1 + uint64(r.IntN(2))
		o := anomaly.Op{Name: fmt.Sprint("t", i), Agent: pick(agents), WriteTime: time, HasPreds: true}
		o.ReadTime = time - 1 - min(time-1, uint64(r.IntN(6)))
		o.Aborted = r.IntN(5) == 0
		for range r.IntN(3) {
			read := anomaly.Read{Cell: pick(cells), Value: pick(values)}
			if r.IntN(4) == 0 {
				read.Timed, read.Time = true, min(o.ReadTime+uint64(r.IntN(3)), time-1)
			}
			o.Reads = append(o.Reads, read)
		}
		for range r.IntN(3) {
			o.Writes = append(o.Writes, anomaly.Write{Cell: pick(cells), Value: pick(values)})
		}
		if i > 0 && r.IntN(3) == 0 {
			o.Preds = append(o.Preds, fmt.Sprint("t", i-1-r.IntN(min(i, 6))))
		}
		switch o.Plan.Known = true; r.IntN(8) {
		case 0:
			o.Plan = anomaly.Plan{Known: true, Tool: "send", AtRead: anomaly.Yes, AtWrite: anomaly.No}
		case 1:
			o.Plan = anomaly.Plan{Known: true, Tool: "send", AtRead: anomaly.Yes, AtWrite: anomaly.Yes,
				ChangedSince: r.IntN(2) == 0}
		}
		if len(o.Writes) == 2 && r.IntN(2) == 0 {
			o.Order = anomaly.Order{IssuedKnown: true, HappenedKnown: true, Issued: o.Writes, Happened: o.Writes}
			if r.IntN(3) == 0 {
				o.Order.Happened = []anomaly.Write{o.Writes[1], o.Writes[0]}
			}
		}
		if disorder && r.IntN(3) == 0 {
			switch r.IntN(7) {
			case 6:
				for j := range o.Reads {
					o.Reads[j].Timed, o.Reads[j].Time = true, time+uint64(r.IntN(4))
				}
			case 0:
				o.ReadTime = time + uint64(r.IntN(4))
			case 1:
				o.WriteTime -= min(o.WriteTime, uint64(r.IntN(5)))
			case 2:
				o.HasPreds, o.Preds = false, nil
			case 3:
				o.Preds = append(o.Preds, fmt.Sprint("t", i+1+r.IntN(2)))
			case 4:
				o.Name = ""
			case 5:
				for j := range o.Reads {
					o.Reads[j].Replica, o.Reads[j].Version = pick([]string{"r1", "r2"}), "1"
				}
			}
		}
		ops = append(ops, o)
	}
	return ops
}

func histories(few, many int) int {
	if testsize.Small() {
		return few
	}
	return many
}

// sentences are findings as reports show them.
func sentences(h *anomaly.History, found []anomaly.Finding) (all []string) {
	for i := range found {
		f := &found[i]
		all = append(all, fmt.Sprint(f.Kind, f.Certain, f.Records, f.Count, h.Sentence(f)))
	}
	return all
}

// TestWindowEqualsHistory: what a window says of its newest operation is what the detectors find among the same
// operations for which it had to come; after operations were taken back, also what comes from that.
func TestWindowEqualsHistory(t *testing.T) {
	rounds, kinds := histories(400, 2_000), map[anomaly.Kind]int{}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 17))
		size := 1 + r.IntN(12)
		w, held, since := anomaly.NewWindow(size, 0), []anomaly.Op(nil), uint64(0)
		batch := func(which func(*anomaly.Finding) bool) (all []string) {
			h := anomaly.NewHistory(since)
			for i := range held {
				if err := h.Add(held[i]); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range h.Check().Findings {
				if which(&f) {
					all = append(all, sentences(h, []anomaly.Finding{f})...)
				}
			}
			return all
		}
		for i, o := range randomOps(r, 30, seed%2 == 1) {
			h, found, known := w.Add(o)
			if known {
				t.Fatalf("seed %d: operation %d is taken for a known one", seed, i)
			}
			o.Line = i + 1
			if held = append(held, o); len(held) > size {
				if !held[0].Aborted || held[0].WriteTime > 0 {
					since = max(since, held[0].WriteTime)
				}
				held = held[1:]
			}
			newest := uint32(len(held) - 1)
			want := batch(func(f *anomaly.Finding) bool { return slices.Max(f.Records) == newest })
			if got := sentences(h, found); !slices.Equal(got, want) {
				t.Fatalf("seed %d, operation %d, window %d:\n got %q\nwant %q", seed, i, size, got, want)
			}
			for _, f := range found {
				kinds[f.Kind]++
			}
			if r.IntN(8) > 0 {
				continue
			}
			back := map[uint32]bool{}
			var names []string
			for range 2 {
				if at := r.IntN(len(held)); !held[at].Aborted && held[at].Name != "" {
					held[at].Aborted, back[uint32(at)], names = true, true, append(names, held[at].Name)
				}
			}
			h, found = w.Abort(names...)
			want = batch(func(f *anomaly.Finding) bool {
				return f.Kind == anomaly.A3 && len(f.Records) == 2 && back[f.Records[1]]
			})
			if got := sentences(h, found); !slices.Equal(got, want) {
				t.Fatalf("seed %d, after operation %d, %q taken back:\n got %q\nwant %q", seed, i, names, got, want)
			}
		}
		if got, want := w.History().Check(), held; got.Ops != len(want) || w.Len() > size || w.Count() != 30 {
			t.Fatalf("seed %d: the window has %d operations and %d in all", seed, got.Ops, w.Count())
		}
	}
	for _, kind := range anomaly.Kinds() {
		if kinds[kind] == 0 && kind != anomaly.Effects {
			t.Errorf("no %s in %d histories: the test shows nothing of it", kind, rounds)
		}
	}
}

// TestWindowWhole: in a window that holds all of it, a history in order has the same findings as a check of the whole;
// of cycles, and of the anomalies that name one witness of several, the same operations have one.
func TestWindowWhole(t *testing.T) {
	for seed := range histories(300, 2_000) {
		r := rand.New(rand.NewPCG(uint64(seed), 18))
		w, live := anomaly.NewWindow(100, 0), map[string]bool{}
		key := func(f *anomaly.Finding) string {
			switch f.Kind {
			case anomaly.Cycle:
				return "cycle"
			case anomaly.A3, anomaly.Scar:
				return fmt.Sprint(f.Kind, f.Records[0])
			}
			return fmt.Sprint(f.Kind, f.Records, f.Cell, f.Cell2)
		}
		for _, o := range randomOps(r, 30, false) {
			_, found, _ := w.Add(o)
			for i := range found {
				live[key(&found[i])] = true
			}
		}
		whole := map[string]bool{}
		for _, f := range w.History().Check().Findings {
			whole[key(&f)] = true
		}
		if !reflect.DeepEqual(live, whole) {
			t.Fatalf("seed %d:\n live %v\nwhole %v", seed, live, whole)
		}
	}
}

// TestWindowBound: a window keeps no more of a long history than its size, and counts what spans its beginning.
func TestWindowBound(t *testing.T) {
	w := anomaly.NewWindow(10, 0)
	for i := range 1000 {
		name := fmt.Sprint("t", i)
		o := anomaly.Op{Name: name, Agent: "a", ReadTime: uint64(max(i-20, 0)), WriteTime: uint64(i + 1), HasPreds: true,
			Preds: []string{fmt.Sprint("t", i-1)}, Writes: []anomaly.Write{{Cell: fmt.Sprint("c", i), Value: "1"}}}
		if _, _, known := w.Add(o); known {
			t.Fatalf("%s is known", name)
		}
		if _, _, known := w.Add(o); !known {
			t.Fatalf("%s is taken twice", name)
		}
	}
	report := w.History().Check()
	if report.Ops != 10 || report.Spanning != 10 || w.Since() != 990 || anomaly.Held(w) > 40 {
		t.Fatalf("%d operations, %d span the cut at %d, %d entries", report.Ops, report.Spanning, w.Since(), anomaly.Held(w))
	}
}

// BenchmarkWindow: ns/op is one operation in a workspace that enforces, and in one where each is stale.
func BenchmarkWindow(b *testing.B) {
	for _, stale := range []uint64{0, 5} {
		b.Run(fmt.Sprint("stale=", stale > 0), func(b *testing.B) {
			w := anomaly.NewWindow(1000, 0)
			for i := range b.N {
				time := uint64(i + 10)
				cell := fmt.Sprint("c", i%4)
				w.Add(anomaly.Op{Name: fmt.Sprint("t", i), Agent: fmt.Sprint("a", i%7), ReadTime: time - 1 - stale,
					WriteTime: time, HasPreds: true, Reads: []anomaly.Read{{Cell: cell, Value: fmt.Sprint(i)}},
					Writes: []anomaly.Write{{Cell: cell, Value: fmt.Sprint(i + 1)}}})
			}
		})
	}
}

// TestWindowThroughOthers: once an operation rests on an aborted one that came after it, those that rest on it in turn
// are found too.
func TestWindowThroughOthers(t *testing.T) {
	w := anomaly.NewWindow(10, 0)
	for _, c := range []struct {
		name, pred string
		aborted    bool
		want       int
	}{{"i", "p", false, 0}, {"p", "", true, 1}, {"k", "i", false, 1}, {"l", "", false, 0}} {
		o := anomaly.Op{Name: c.name, Agent: c.name, WriteTime: uint64(w.Count() + 1), HasPreds: true, Aborted: c.aborted}
		if c.pred != "" {
			o.Preds = []string{c.pred}
		}
		if _, found, _ := w.Add(o); len(found) != c.want || c.want > 0 && found[0].Kind != anomaly.A3 {
			t.Errorf("%s: %+v, want %d", c.name, found, c.want)
		}
	}
}
