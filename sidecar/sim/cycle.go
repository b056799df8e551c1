package sim

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// checkCycles looks for a cycle of committed transactions over what they read and wrote: ww, wr and rw, the versions
// of each resource in the order of the log. Those that were not checked for stale reads take part with their writes.
func (t *truth) checkCycles() {
	// What is absent does not say which reset has taken it away.
	if t.blind || t.resets > 0 || t.r.world.handed != [numLeaves]bool{} {
		return
	}
	g := graph{}
	var versions [numLeaves][]sequencer.TxID
	for _, info := range t.commits() {
		a := t.r.attempts[info.id]
		if info.residue() || info.loose {
			continue // what it left there is not known, or was not in the order of the commits
		}
		for _, leaf := range a.written() {
			if vs := versions[leaf]; len(vs) > 0 {
				g.edge(vs[len(vs)-1], info.id)
			}
			versions[leaf] = append(versions[leaf], info.id)
		}
	}
	for _, info := range t.commits() {
		a := t.r.attempts[info.id]
		if info.checks(a)&sequencer.A1 == 0 || info.loose {
			continue
		}
		for _, r := range a.reads {
			for i, leaf := range r.leaves {
				g.read(t, versions[leaf], info.id, t.r.world.tokens[r.values[i]].tx)
			}
		}
	}
	if at := g.cycle(); at != "" {
		t.r.fail("committed transactions depend on each other in a cycle through %s", at)
	}
}

// commits lists the committed transactions in commit order.
func (t *truth) commits() []*txInfo {
	var out []*txInfo
	for _, info := range t.list {
		if info.committed && info.cone == 0 {
			out = append(out, info)
		}
	}
	slices.SortFunc(out, func(a, b *txInfo) int { return int(a.decision) - int(b.decision) })
	return out
}

type graph map[sequencer.TxID][]sequencer.TxID

func (g graph) edge(from, to sequencer.TxID) {
	if from != to {
		g[from] = append(g[from], to)
	}
}

// read enters that a transaction read what a writer left: after that one, before the next.
func (g graph) read(t *truth, versions []sequencer.TxID, reader, writer sequencer.TxID) {
	if writer == reader {
		return
	}
	at := slices.Index(versions, writer)
	if writer != "" {
		if at < 0 {
			return // residue: no version of its own
		}
		g.edge(writer, reader)
	}
	if at+1 < len(versions) {
		g.edge(reader, versions[at+1])
	}
}

// cycle returns a transaction on a cycle, or nothing.
func (g graph) cycle() sequencer.TxID {
	const open, closed = 1, 2
	seen := map[sequencer.TxID]int{}
	var walk func(sequencer.TxID) sequencer.TxID
	walk = func(id sequencer.TxID) sequencer.TxID {
		seen[id] = open
		for _, next := range g[id] {
			if seen[next] == open {
				return next
			}
			if seen[next] == 0 {
				if at := walk(next); at != "" {
					return at
				}
			}
		}
		seen[id] = closed
		return ""
	}
	ids := make([]sequencer.TxID, 0, len(g))
	for id := range g {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if seen[id] == 0 {
			if at := walk(id); at != "" {
				return at
			}
		}
	}
	return ""
}
