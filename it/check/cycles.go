package check

import (
	"fmt"
	"slices"
	"strings"
)

// edge says that one transaction comes before another, and why.
type edge struct {
	to    int
	kind  string // ww, wr or rw
	scope string
}

// Cycles holds that the committed transactions can be put in one order: the graph of who overwrote whom (ww), who read
// from whom (wr) and who read what another then overwrote (rw) has no cycle. The order of a scope's versions is the
// log's.
func (h *History) Cycles() []Violation {
	commits := h.commits()
	graph := dependencies(commits)
	var found []Violation
	for _, component := range components(graph) {
		if len(component) > 1 {
			found = append(found, violation("cycle", "%s", describe(commits, graph, component)))
		}
	}
	return found
}

func dependencies(commits []settled) [][]edge {
	graph := make([][]edge, len(commits))
	at := make(map[uint64]int, len(commits)) // seq to position
	for i, c := range commits {
		at[c.seq] = i
	}
	add := func(from, to int, kind, scope string) {
		if from != to {
			graph[from] = append(graph[from], edge{to, kind, scope})
		}
	}
	writes := versions(commits)
	for scope, seqs := range writes {
		for i := 1; i < len(seqs); i++ {
			add(at[seqs[i-1]], at[seqs[i]], "ww", scope)
		}
	}
	for reader, c := range commits {
		for _, r := range c.Reads {
			seqs := writes[r.Scope]
			next, exact := slices.BinarySearch(seqs, r.Version)
			if exact {
				add(at[seqs[next]], reader, "wr", r.Scope)
				next++
			}
			if next < len(seqs) && at[seqs[next]] == reader {
				next++ // its own write is not what overtakes it; the one after that is
			}
			if next < len(seqs) {
				add(reader, at[seqs[next]], "rw", r.Scope)
			}
		}
	}
	return graph
}

// components are the strongly connected components (Tarjan), without recursion: a chain of dependencies may be as long
// as the history.
func components(graph [][]edge) [][]int {
	const unseen = -1
	index, low := make([]int, len(graph)), make([]int, len(graph))
	onStack := make([]bool, len(graph))
	for i := range index {
		index[i] = unseen
	}
	type frame struct{ node, next int }
	var stack []int
	var all [][]int
	count := 0
	enter := func(frames []frame, node int) []frame {
		index[node], low[node] = count, count
		count++
		stack, onStack[node] = append(stack, node), true
		return append(frames, frame{node: node})
	}
	for root := range graph {
		if index[root] != unseen {
			continue
		}
		frames := enter(nil, root)
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if f.next < len(graph[f.node]) {
				to := graph[f.node][f.next].to
				f.next++
				if index[to] == unseen {
					frames = enter(frames, to)
				} else if onStack[to] {
					low[f.node] = min(low[f.node], index[to])
				}
				continue
			}
			node := f.node
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				parent := frames[len(frames)-1].node
				low[parent] = min(low[parent], low[node])
			}
			if low[node] == index[node] {
				at := len(stack) - 1
				for stack[at] != node {
					at--
				}
				component := slices.Clone(stack[at:])
				for _, n := range component {
					onStack[n] = false
				}
				stack, all = stack[:at], append(all, component)
			}
		}
	}
	return all
}

// describe names the members of a component and the edges among them, the first few.
func describe(commits []settled, graph [][]edge, component []int) string {
	const most = 8
	member := map[int]bool{}
	for _, n := range component {
		member[n] = true
	}
	slices.Sort(component)
	var parts []string
	for _, n := range component {
		for _, e := range graph[n] {
			if member[e.to] && len(parts) < most {
				parts = append(parts, fmt.Sprintf("%s@%d -%s %s-> %s@%d", commits[n].Tx, commits[n].seq, e.kind, e.scope,
					commits[e.to].Tx, commits[e.to].seq))
			}
		}
	}
	return fmt.Sprintf("%d transactions depend on each other: %s", len(component), strings.Join(parts, ", "))
}
