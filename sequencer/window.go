package sequencer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// window keeps the last write of each scope that was written, as it was written, until the floor passes it. The zero
// window is empty.
type window struct {
	trie trie[lastWrite]
	// oldest and newest are the ends of the list of all stored writes. Invariant: it is sorted by seq. Writes come in
	// order of their seqs, so a scope that is written again moves to the end, the list stays sorted, and pruning takes
	// from its front.
	oldest, newest *windowNode
	// top is the greatest seq ever put. Invariant: no stored seq is above it, and none is put below it.
	top   Seq
	count int // Invariant: the length of that list
	bytes int // an estimate of what the entries keep in a state record
}

type windowNode = trieNode[lastWrite]

// lastWrite is the load of a node. A node without a scope of its own has only best and the links among siblings.
type lastWrite struct {
	seq    Seq
	writer Writer
	by     TxID        // who moved it, where that is not the writer
	older  *windowNode // in the list of all stored writes
	newer  *windowNode

	// best is the write with the greatest seq at or below the node; of several, the one of the smallest scope text.
	// Invariant: it is stored. For when pruning drops it, all else in the subtree is dropped in the same call.
	best *windowNode
	// recent begins the list of the children, the one with the greatest best seq first; before and behind link it.
	// Invariant: sorted so, and it has each child: a walk under a * stops at the first that is too old.
	recent, before, behind *windowNode
}

// newWindow returns a window that holds the entries of another one.
func newWindow(entries []WindowState) *window {
	w := &window{}
	for _, e := range slices.SortedFunc(slices.Values(entries), compareEntries) {
		w.put(e.Scope, e.Seq, e.Writer, e.By)
	}
	return w
}

// put makes this the last write of exactly this scope, moved by the writer or by another transaction. Seqs are
// 1-based and never go down from put to put.
func (w *window) put(s Scope, seq Seq, writer Writer, by TxID) {
	if seq == 0 || seq < w.top {
		panic(fmt.Sprintf("sequencer: write of %s at seq %d after one at seq %d", s, seq, w.top))
	}
	w.top = seq
	n := w.trie.grow(s)
	if n.scope == "" {
		n.scope = s
		w.count++
	} else {
		w.bytes -= entryBytes(n)
		w.unlink(n)
	}
	n.load.seq, n.load.writer, n.load.by = seq, writer, by
	w.bytes += entryBytes(n)
	n.load.older, n.load.newer = w.newest, nil
	if w.newest == nil {
		w.oldest = n
	} else {
		w.newest.load.newer = n
	}
	w.newest = n
	for m := n; m != nil; m = m.parent {
		if m.load.best == nil || m.load.best == n || later(n, m.load.best) {
			m.load.best = n
		}
		if m.parent != nil && m.parent.load.recent != m {
			leaveRecent(m)
			enterRecent(m)
		}
	}
}

func entryBytes(n *windowNode) int { return 48 + len(n.scope) + len(n.load.writer.Tx) + len(n.load.by) }

// latest returns the overlapping write with the greatest seq; of several, the one of the smallest scope text. All
// results are zero if there is none.
func (w *window) latest(s Scope) (Scope, Seq, Writer) {
	scope, seq, writer, _ := w.after(s, 0)
	return scope, seq, writer
}

// after returns what latest does if its seq is above the given one. It looks at one node per segment, or two where a
// `*` is stored. For a `*` of s that other segments follow it looks at the children written to after seq, newest
// first, and no others.
func (w *window) after(s Scope, seq Seq) (Scope, Seq, Writer, bool) {
	kind, path := s.reach()
	q := windowSearch{above: seq}
	if n := w.trie.root.kids.get(kind); n != nil {
		q.walk(n, path)
	}
	w.trie.visited += q.visited
	if q.found == nil {
		return "", 0, Writer{}, false
	}
	return q.found.scope, q.found.load.seq, q.found.load.writer, true
}

// at returns the last write of exactly this scope and who moved it; zero: none is stored.
func (w *window) at(s Scope) (seq Seq, by TxID) {
	n := w.trie.find(s)
	if n == nil || n.scope == "" {
		return 0, ""
	}
	return n.load.seq, cmp.Or(n.load.by, n.load.writer.Tx)
}

// visit calls fn for each stored write that overlaps s until fn returns false, in the order of index.visit. fn must
// not change the window.
func (w *window) visit(s Scope, fn func(Scope, Seq, Writer) bool) {
	w.trie.visit(s, func(n *windowNode) bool { return fn(n.scope, n.load.seq, n.load.writer) })
}

// prune drops every write whose seq is not above the floor. It costs what it drops.
func (w *window) prune(floor Seq) {
	for w.oldest != nil && w.oldest.load.seq <= floor {
		n := w.oldest
		w.unlink(n)
		w.bytes -= entryBytes(n)
		w.count--
		n.scope = ""
		n.load.seq, n.load.writer, n.load.by = 0, Writer{}, ""
		for n.spare() {
			leaveRecent(n)
			n.parent.kids.remove(n)
			n = n.parent
		}
	}
	if w.oldest == nil {
		w.trie.root.load.best = nil // the only node that stays when nothing is left
	}
}

// entries returns all stored writes by seq, those of one seq by scope text.
func (w *window) entries() []WindowState {
	entries := make([]WindowState, 0, w.count)
	for n := w.oldest; n != nil; n = n.load.newer {
		entries = append(entries, WindowState{n.scope, n.load.seq, n.load.writer, n.load.by})
	}
	slices.SortFunc(entries, compareEntries)
	return entries
}

// len returns the number of stored writes.
func (w *window) len() int { return w.count }

// unlink takes a node out of the list of all stored writes.
func (w *window) unlink(n *windowNode) {
	older, newer := n.load.older, n.load.newer
	if older == nil {
		w.oldest = newer
	} else {
		older.load.newer = newer
	}
	if newer == nil {
		w.newest = older
	} else {
		newer.load.older = older
	}
	n.load.older, n.load.newer = nil, nil
}

// enterRecent puts a node at the head of its parent's list of recent children: nothing has a greater seq.
func enterRecent(n *windowNode) {
	head := n.parent.load.recent
	if head != nil {
		head.load.before = n
	}
	n.load.before, n.load.behind = nil, head
	n.parent.load.recent = n
}

// leaveRecent takes a node out of that list; one that is not in it (yet) stays out.
func leaveRecent(n *windowNode) {
	before, behind := n.load.before, n.load.behind
	if before != nil {
		before.load.behind = behind
	} else if n.parent.load.recent == n {
		n.parent.load.recent = behind
	}
	if behind != nil {
		behind.load.before = before
	}
	n.load.before, n.load.behind = nil, nil
}

// windowSearch looks for the latest write above a seq, and leaves out each subtree whose best cannot be it.
type windowSearch struct {
	above   Seq
	found   *windowNode
	visited int
}

func (q *windowSearch) walk(n *windowNode, path string) {
	q.visited++
	if !q.wants(n.load.best) {
		return
	}
	if path == "" {
		q.found = n.load.best
		return
	}
	if n.scope != "" && q.wants(n) {
		q.found = n
	}
	segment, rest, _ := strings.Cut(path, "/")
	if segment != star {
		for _, name := range [...]string{star, segment} {
			if kid := n.kids.get(name); kid != nil {
				q.walk(kid, rest)
			}
		}
		return
	}
	for kid := n.load.recent; kid != nil && q.reaches(kid.load.best.load.seq); kid = kid.load.behind {
		q.walk(kid, rest)
	}
}

// wants reports whether n is a better answer than the one found so far.
func (q *windowSearch) wants(n *windowNode) bool {
	return n.load.seq > q.above && (q.found == nil || later(n, q.found))
}

// reaches reports whether a write at seq could still be an answer.
func (q *windowSearch) reaches(seq Seq) bool {
	return seq > q.above && (q.found == nil || seq >= q.found.load.seq)
}

// later reports whether a answers before b: a greater seq, or the same one and a smaller scope text.
func later(a, b *windowNode) bool {
	if a.load.seq != b.load.seq {
		return a.load.seq > b.load.seq
	}
	return a.scope < b.scope
}

func compareEntries(a, b WindowState) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Scope, b.Scope))
}
