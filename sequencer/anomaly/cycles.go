package anomaly

import (
	"iter"
	"slices"
)

// edge is a dependency: to is later than from in every serial order that explains the history.
type edge struct {
	from, to uint32
	cell     uint32
	kind     EdgeKind
}

// cycles finds the sets of operations that depend on each other, with a shortest cycle of each; of equally short ones
// it takes one with the fewest rw. It returns the bytes that it took for operations, and for their dependencies.
//
// A cycle needs an edge to an operation that was not committed later, because the others lead forward in time: where
// there is none, nothing has to be searched.
func (c *check) cycles() (records, cells uint64) {
	edges := c.wr
	for _, o := range c.rw {
		edges = append(edges, edge{o.reader, o.writer, o.cell, RW})
	}
	for cell := range c.h.cells.text {
		for place := c.v.begin[cell] + 1; place < c.v.begin[cell+1]; place++ {
			from, to := c.h.writes[c.v.order[place-1]].op, c.h.writes[c.v.order[place]].op
			edges = append(edges, edge{from, to, uint32(cell), WW})
			c.forward(from, to)
		}
	}
	if !c.backward {
		return 0, uint64(cap(edges)) * 16
	}
	g := graphOf(slices.Values(edges), len(c.h.ops))
	for _, set := range g.components() {
		steps := g.shortest(set)
		f := Finding{Kind: Cycle, Certain: true, Count: len(set)}
		for _, e := range steps {
			f.Records = append(f.Records, e.from)
			f.Edges = append(f.Edges, Edge{e.kind, c.h.cells.text[e.cell]})
		}
		f.Cell = f.Edges[0].Cell
		c.find(f)
	}
	return uint64(len(c.h.ops)) * 36, uint64(cap(edges)+len(edges)) * 16
}

// graph has the edges of each operation, one after the other.
type graph struct {
	edges []edge
	begin []uint32 // by operation; one more at the end
	left  int      // steps until a search gives up
	set   []uint32 // by operation, once there are components: which of more than one it is in; 0: none
}

// graphOf sorts edges by where they begin; it goes through them twice.
func graphOf(edges iter.Seq[edge], ops int) *graph {
	g := &graph{begin: make([]uint32, ops+1)}
	for e := range edges {
		g.begin[e.from+1]++
	}
	for i := range ops {
		g.begin[i+1] += g.begin[i]
	}
	g.edges = make([]edge, g.begin[ops])
	next := slices.Clone(g.begin)
	for e := range edges {
		g.edges[next[e.from]] = e
		next[e.from]++
	}
	return g
}

// bytes is the memory of a graph, and of what it was made with.
func (g *graph) bytes() uint64 { return held(g.edges) + 2*held(g.begin) }

// components are the strongly connected ones of more than one operation, by Tarjan's algorithm without recursion; the
// operations of each are ascending.
func (g *graph) components() (all [][]uint32) {
	ops := len(g.begin) - 1
	g.set = make([]uint32, ops)
	index, low := make([]uint32, ops), make([]uint32, ops)
	onStack := make([]bool, ops)
	type frame struct{ op, next uint32 }
	var stack []uint32
	var path []frame
	count := uint32(0)
	enter := func(i uint32) {
		count++
		index[i], low[i], onStack[i] = count, count, true
		stack = append(stack, i)
		path = append(path, frame{i, g.begin[i]})
	}
	for root := range uint32(ops) {
		if index[root] != 0 {
			continue
		}
		for enter(root); len(path) > 0; {
			f := &path[len(path)-1]
			i := f.op
			if f.next < g.begin[i+1] {
				to := g.edges[f.next].to
				f.next++
				if index[to] == 0 {
					enter(to)
				} else if onStack[to] {
					low[i] = min(low[i], index[to])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				above := path[len(path)-1].op
				low[above] = min(low[above], low[i])
			}
			if low[i] != index[i] {
				continue
			}
			from := len(stack) - 1
			for stack[from] != i {
				from--
			}
			set := slices.Clone(stack[from:])
			stack = stack[:from]
			for _, member := range set {
				onStack[member] = false
			}
			if len(set) > 1 {
				slices.Sort(set)
				all = append(all, set)
				for _, member := range set {
					g.set[member] = uint32(len(all))
				}
			}
		}
	}
	slices.SortFunc(all, slices.Compare)
	return all
}

// shortest is a shortest cycle within a component, and of the shortest ones one with the fewest rw. The search of one
// component ends after 10 million steps: then the cycle is short, and need not be the shortest.
func (g *graph) shortest(set []uint32) (best []edge) {
	g.left = 10_000_000
	bestRW := 0
	for _, start := range set {
		if g.left < 0 && best != nil {
			return best
		}
		if found, rw := g.back(start, len(best), bestRW); found != nil {
			best, bestRW = found, rw
		}
		if len(best) == 2 && bestRW == 0 {
			return best // none is better
		}
	}
	return best
}

// back is a shortest way from an operation to itself that is better than one of limit edges with limitRW of them rw;
// limit 0 is none. It searches by layers, and keeps for each operation the way with the fewest rw.
func (g *graph) back(start uint32, limit, limitRW int) (way []edge, rw int) {
	type step struct {
		by  edge
		rw  int
		len int
	}
	reached := map[uint32]step{}
	layer := []uint32{start}
	for length := 1; len(layer) > 0 && (limit == 0 || length <= limit); length++ {
		var next []uint32
		for _, i := range layer {
			for _, e := range g.edges[g.begin[i]:g.begin[i+1]] {
				g.left--
				if g.set[e.to] != g.set[start] {
					continue
				}
				now := reached[i].rw + btoi(e.kind == RW)
				before, was := reached[e.to]
				switch {
				case !was:
					next = append(next, e.to)
				case before.len < length || before.rw <= now:
					continue
				}
				reached[e.to] = step{e, now, length}
			}
		}
		if end, is := reached[start]; is {
			if limit != 0 && length == limit && end.rw >= limitRW {
				return nil, 0
			}
			for i := start; len(way) < length; i = way[len(way)-1].from {
				way = append(way, reached[i].by)
			}
			slices.Reverse(way)
			return way, end.rw
		}
		layer = next
	}
	return nil, 0
}
