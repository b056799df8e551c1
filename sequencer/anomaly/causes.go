package anomaly

import (
	"cmp"
	"iter"
	"slices"
)

// causes are the edges from what operations rest on to these operations: what their preds name and, with reads, the
// producers of what they read. Aborted operations rest on others too.
//
// They are made as they are asked for: a list of them would be the largest of the check.
func (c *check) causes(reads bool) iter.Seq[edge] {
	return func(yield func(edge) bool) {
		for i := range uint32(len(c.h.ops)) {
			for _, name := range c.h.predsOf(i) {
				if p, known := c.h.called(name); known && p != i && !yield(edge{from: p, to: i}) {
					return
				}
			}
			if !reads {
				continue
			}
			for _, r := range c.h.readsOf(i) {
				seen := c.v.upTo(r.cell, c.h.readAt(i, r.cell))
				if seen == int(c.v.begin[r.cell]) || r.value == missing {
					continue
				}
				w := c.h.writes[c.v.order[seen-1]]
				if w.value == r.value && w.op != i && !yield(edge{from: w.op, to: i, cell: r.cell, kind: WR}) {
					return
				}
			}
		}
	}
}

// cascadeFar judges A3 through others: standing operations that name no aborted one and rest on one that does. The
// first aborted one on a way of preds is named by a standing one, so the search begins at these. It returns the bytes
// that it took.
func (c *check) cascadeFar() (records uint64) {
	if len(c.cascaded) == 0 {
		return 0
	}
	g, witness := graphOf(c.causes(false), len(c.h.ops)), map[uint32]uint32{}
	var todo []uint32
	for i, p := range c.cascaded {
		witness[i] = p
		todo = append(todo, i)
	}
	slices.Sort(todo)
	for n := 0; n < len(todo); n++ {
		i := todo[n]
		for _, e := range g.edges[g.begin[i]:g.begin[i+1]] {
			if _, has := witness[e.to]; has || c.h.ops[e.to].aborted {
				continue
			}
			witness[e.to] = witness[i]
			todo = append(todo, e.to)
			c.find(Finding{Kind: A3, Certain: true, Records: []uint32{e.to, witness[i]}, Count: 1, how: byOthers})
		}
	}
	return g.bytes()
}

// scarFar judges κ-scars over deps*: standing operations, without a scar by their own preds, that rest on one that was
// committed later. The witness is the latest of these. Causes are visited from the latest commit on, so the first that
// reaches an operation is its latest, and each operation is reached once. It returns the bytes that it took for
// operations and their preds, and for what they read.
func (c *check) scarFar() (records, cells uint64) {
	ops, backward := c.h.ops, false
	for e := range c.causes(true) {
		if backward = ops[e.from].writeTime > ops[e.to].writeTime; backward {
			break
		}
	}
	if !backward {
		return 0, 0 // each way leads to earlier commits
	}
	g, latest, order := graphOf(c.causes(true), len(ops)), make([]uint32, len(ops)), make([]uint32, 0, len(ops))
	for i := range uint32(len(ops)) {
		if !ops[i].aborted {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(ops[b].writeTime, ops[a].writeTime) })
	var todo []uint32
	for _, p := range order {
		for todo = append(todo[:0], p); len(todo) > 0; {
			i := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, e := range g.edges[g.begin[i]:g.begin[i+1]] {
				if latest[e.to] == 0 {
					latest[e.to] = p + 1
					todo = append(todo, e.to)
				}
			}
		}
	}
	for j, p := range latest {
		i := uint32(j)
		if p > 0 && !ops[i].aborted && !c.scarred[i] && ops[p-1].writeTime > ops[i].writeTime {
			c.find(Finding{Kind: Scar, Certain: true, Records: []uint32{i, p - 1}, Count: 1, how: byOthers})
		}
	}
	byReads := uint64(max(0, len(g.edges)-len(c.h.preds))) * 16
	return g.bytes() + held(latest) + held(order) + held(todo) - byReads, byReads
}
