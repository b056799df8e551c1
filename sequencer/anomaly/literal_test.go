package anomaly

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// literal judges a history by the definitions, quantifier by quantifier, in whatever time that takes. It returns, as
// texts, which kinds are there and for which operations and cells.
func literal(ops []Op) map[string]bool {
	found, named, rests := map[string]bool{}, literalCauses(ops, false), literalCauses(ops, true)
	for i, a := range ops {
		if a.Aborted {
			continue
		}
		for _, r := range a.Reads {
			producers, blank := false, false
			for j, b := range ops {
				w, wrote := writeOf(b, r.Cell)
				if j == i || b.Aborted || !wrote {
					continue
				}
				known := r.Value != "" && w != ""
				if a.Agent != b.Agent && timeOf(a, r) < b.WriteTime && b.WriteTime < a.WriteTime && known && r.Value != w {
					found[fmt.Sprint("A1 ", i, r.Cell)] = true
				}
				producers = producers || b.WriteTime <= timeOf(a, r) && w == r.Value
				blank = blank || b.WriteTime <= timeOf(a, r) && w == ""
			}
			if !a.HasPreds && r.Value != "" && r.Value != Null && !producers && !blank {
				found[fmt.Sprint("A3 ", i, r.Cell)] = true
			}
			for _, b := range ops {
				for _, s := range b.Reads {
					if !b.Aborted && s.Cell == r.Cell && s.Replica != "" && r.Replica != "" && s.Replica != r.Replica &&
						s.Value != "" && r.Value != "" && s.Value != r.Value {
						found["A4 "+r.Cell] = true
					}
				}
			}
		}
		for j, b := range ops {
			if b.Aborted && named[[2]int{i, j}] {
				found[fmt.Sprint("A3 ", i)] = true
			}
			if !b.Aborted && b.WriteTime > a.WriteTime && rests[[2]int{i, j}] {
				found[fmt.Sprint("scar ", i)] = true
			}
		}
	}
	literalEdges(ops, found)
	return found
}

// literalCauses has each pair of an operation and what it rests on, through others too: by preds and, with reads, by
// the latest visible version of what it read.
func literalCauses(ops []Op, reads bool) map[[2]int]bool {
	all := map[[2]int]bool{}
	for i, a := range ops {
		for j, b := range ops {
			if slices.Contains(a.Preds, b.Name) {
				all[[2]int{i, j}] = true
			}
		}
		for _, r := range a.Reads {
			last := -1
			for j, b := range ops {
				_, wrote := writeOf(b, r.Cell)
				if wrote && !b.Aborted && b.WriteTime <= timeOf(a, r) && (last < 0 || b.WriteTime >= ops[last].WriteTime) {
					last = j
				}
			}
			if last < 0 || !reads || r.Value == "" {
				continue
			}
			if w, _ := writeOf(ops[last], r.Cell); w == r.Value {
				all[[2]int{i, last}] = true
			}
		}
	}
	for k := range ops {
		for i := range ops {
			for j := range ops {
				if all[[2]int{i, k}] && all[[2]int{k, j}] {
					all[[2]int{i, j}] = true
				}
			}
		}
	}
	return all
}

// timeOf is when an operation read a cell.
func timeOf(o Op, r Read) uint64 {
	if r.Timed {
		return r.Time
	}
	return o.ReadTime
}

func writeOf(o Op, cell string) (value string, is bool) {
	for _, w := range o.Writes {
		if w.Cell == cell {
			return w.Value, true
		}
	}
	return "", false
}

// literalEdges draws the dependencies and judges what comes from them.
func literalEdges(ops []Op, found map[string]bool) {
	type pair struct{ from, to int }
	all, rw := map[pair]bool{}, map[pair]bool{}
	for _, cell := range []string{"x", "y"} {
		var order []int // writers of the cell's versions
		for i, o := range ops {
			if _, wrote := writeOf(o, cell); wrote && !o.Aborted {
				order = append(order, i)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return int(ops[a].WriteTime) - int(ops[b].WriteTime) })
		for n := 1; n < len(order); n++ {
			all[pair{order[n-1], order[n]}] = true
		}
		for i, a := range ops {
			for _, r := range a.Reads {
				if a.Aborted || r.Cell != cell {
					continue
				}
				seen := 0
				for seen < len(order) && ops[order[seen]].WriteTime <= timeOf(a, r) {
					seen++
				}
				if seen > 0 {
					w, _ := writeOf(ops[order[seen-1]], cell)
					if w == "" || w != r.Value {
						continue
					}
					if order[seen-1] != i {
						all[pair{order[seen-1], i}] = true
					}
				}
				if seen == len(order) || order[seen] == i {
					continue
				}
				all[pair{i, order[seen]}], rw[pair{i, order[seen]}] = true, true
				if own := slices.Index(order, i); own > seen {
					found[fmt.Sprint("lost-update ", i, cell)] = true
				}
			}
		}
	}
	for e := range rw {
		_, x := writeOf(ops[e.from], "x")
		_, y := writeOf(ops[e.from], "y")
		_, x2 := writeOf(ops[e.to], "x")
		_, y2 := writeOf(ops[e.to], "y")
		if rw[pair{e.to, e.from}] && !(x && x2) && !(y && y2) {
			found[fmt.Sprint("write-skew ", min(e.from, e.to), max(e.from, e.to))] = true
		}
	}
	for range ops { // the closure of a graph of n operations takes at most n rounds
		for a := range all {
			for i := range ops {
				if all[pair{a.to, i}] {
					all[pair{a.from, i}] = true
				}
			}
		}
	}
	for i := range ops {
		if all[pair{i, i}] {
			found[fmt.Sprint("cycle ", i)] = true
		}
	}
}

// fast are the same texts from a report.
func fast(h *History, r *Report) map[string]bool {
	found := map[string]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		switch f.Kind {
		case A1, LostUpdate:
			found[fmt.Sprint(f.Kind, " ", f.Records[0], f.Cell)] = true
		case A3:
			if f.Certain {
				found[fmt.Sprint("A3 ", f.Records[0])] = true
			} else {
				found[fmt.Sprint("A3 ", f.Records[0], f.Cell)] = true
			}
		case A4:
			found["A4 "+f.Cell] = true
		case Scar:
			found[fmt.Sprint("scar ", f.Records[0])] = true
		case WriteSkew:
			found[fmt.Sprint("write-skew ", min(f.Records[0], f.Records[1]), max(f.Records[0], f.Records[1]))] = true
		}
	}
	return found
}

func randomOps(chance *rand.Rand) (ops []Op) {
	values := []string{"", Null, "1", "2"}
	for i := range 2 + chance.IntN(5) {
		o := Op{Line: i + 1, Name: fmt.Sprint("t", i), Agent: fmt.Sprint(chance.IntN(3)), ReadTime: uint64(chance.IntN(6)),
			WriteTime: uint64(i + 1), Aborted: chance.IntN(6) == 0, HasPreds: chance.IntN(2) == 0}
		if chance.IntN(4) == 0 { // also at one time with others, and before its read
			o.WriteTime = uint64(chance.IntN(7))
		}
		for _, cell := range []string{"x", "y"} {
			if chance.IntN(2) == 0 {
				o.Reads = append(o.Reads, Read{Cell: cell, Value: values[chance.IntN(4)],
					Replica: []string{"", "p", "q"}[chance.IntN(3)], Timed: chance.IntN(3) == 0, Time: uint64(chance.IntN(6))})
			}
			if chance.IntN(2) == 0 {
				o.Writes = append(o.Writes, Write{cell, values[chance.IntN(4)]})
			}
		}
		if o.HasPreds && chance.IntN(2) == 0 {
			o.Preds = []string{fmt.Sprint("t", chance.IntN(7))}
		}
		ops = append(ops, o)
	}
	for i := range ops { // nothing is its own predecessor
		ops[i].Preds = slices.DeleteFunc(ops[i].Preds, func(p string) bool { return p == ops[i].Name })
	}
	return ops
}

// TestLiteral: on random histories what is found fast is what the definitions say, whether versions are looked at one
// by one or counted.
func TestLiteral(t *testing.T) {
	const histories = 1500
	seen := map[string]int{}
	for seed := range uint64(histories) {
		ops := randomOps(rand.New(rand.NewPCG(seed, 0)))
		want := literal(ops)
		for _, least := range []int{48, 0} {
			h := NewHistory(0)
			for _, o := range ops {
				if err := h.Add(o); err != nil {
					t.Fatal(err)
				}
			}
			r := h.checkWith(least)
			got := fast(h, r)
			inCycle := 0
			for i := range r.Findings {
				if r.Findings[i].Kind == Cycle {
					inCycle += r.Findings[i].Count
				}
			}
			for one := range want {
				var kind string
				_, _ = fmt.Sscan(one, &kind)
				if seen[kind]++; kind == "cycle" {
					inCycle--
				} else if !got[one] {
					t.Fatalf("seed %d, %d: %s is not found in %+v", seed, least, one, ops)
				}
			}
			for one := range got {
				if !want[one] {
					t.Fatalf("seed %d, %d: %s is found in %+v", seed, least, one, ops)
				}
			}
			if inCycle != 0 {
				t.Fatalf("seed %d, %d: %d operations too many in cycles of %+v", seed, least, inCycle, ops)
			}
		}
	}
	t.Logf("%d histories agree: %v", histories, seen)
	for _, kind := range []string{"A1", "A3", "A4", "lost-update", "write-skew", "cycle", "scar"} {
		if seen[kind] < 20 {
			t.Errorf("%s was there %d times: the histories are too tame", kind, seen[kind])
		}
	}
}
