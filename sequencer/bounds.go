package sequencer

import (
	"cmp"
	"slices"
	"strings"
)

// What logic 3 bounds: names, so that whatever is decided about a transaction can be written and read; what a
// settlement may name; live sidecars and their tool servers. The bounds of lists and bytes are rules.
const (
	// maxNameBytes bounds the names that outcomes repeat: of transactions, groups and agents.
	maxNameBytes = 128
	// maxAgentBytes bounds an agent's name at its join: a sidecar's record has at most sidecarBytes without its servers.
	maxAgentBytes = 120
	sidecarBytes  = 160

	defaultMaxSidecars = 1024
)

// bounded: the workspace's logic has the bounds of this file.
func (f *Fold) bounded() bool { return f.rules.Logic >= 3 }

// look counts what a step looks at: items of lists that it walks, beside the nodes of tries. A test holds the sum to
// what is linear in the record, its outcomes and the waiters that it wakes.
func (f *Fold) look(n int) { f.looked += n }

// visits is how much the fold has looked at in its life.
func (f *Fold) visits() int {
	return f.looked + f.holds.trie.visited + f.asks.trie.visited + f.window.trie.visited +
		f.grants.trie.visited + f.undoneAt.trie.visited
}

// nameTooLong finds a name that every outcome of a step may repeat, and that is longer than they have room for.
func (f *Fold) nameTooLong(names ...string) finding {
	if f.bounded() {
		for _, name := range names {
			if len(name) > maxNameBytes {
				// A step repeats it in each of its outcomes, and state and decisions have a bound.
				return finding{code: CodeLimit, detail: "a name in the intent is longer than 128 bytes"}
			}
		}
	}
	return finding{}
}

// joinRefused finds why a sidecar may not join. For want of room only a new agent is refused. The log's first join is
// let through: it sets the logic.
func (f *Fold) joinRefused(in *Intent, live bool) finding {
	switch why := f.nameTooLong(in.Join.ID); {
	case !f.bounded() || f.seq == 0:
	case why.found():
		return why
	case live:
		// Its former incarnation ends with this join, so their number stays.
	case len(in.Agent) > maxAgentBytes:
		// The bound of the state counts so many bytes for each sidecar.
		return finding{code: CodeLimit, detail: "the agent's name is longer than 120 bytes"}
	case len(f.sidecars.list) >= int(f.rules.MaxSidecars):
		// Each stays in the state for a lease: enough of them outgrow a record and stop the workspace (holes 18).
		return finding{code: CodeLimit, detail: "the workspace has as many live sidecars as its rules allow"}
	}
	return finding{}
}

// cover answers whether a scope lies within one of several. Unlike a walk over all of them it looks at no more than
// the path.
type cover struct{ trie trie[Access] }

func coverOf(holds []Hold) *cover {
	c := &cover{}
	for _, h := range holds {
		c.add(h.Scope, h.Access)
	}
	return c
}

func (c *cover) add(s Scope, a Access) {
	n := c.trie.grow(s)
	if n.scope == "" || n.load < a {
		n.load = a
	}
	n.scope = s
}

// of returns the shortest scope that covers s with at least an access, of several the smallest text; empty: none does.
func (c *cover) of(s Scope, least Access) (found Scope) {
	kind, path, _ := s.split()
	if n := c.trie.root.kids.get(kind); n != nil {
		c.walk(n, path, least, &found)
	}
	return found
}

func (c *cover) walk(n *trieNode[Access], path string, least Access, found *Scope) {
	c.trie.visited++
	if n.scope != "" && n.load >= least { // what lies below is longer
		if *found == "" || cmp.Or(cmp.Compare(len(n.scope), len(*found)), cmp.Compare(n.scope, *found)) < 0 {
			*found = n.scope
		}
		return
	}
	if path == "" {
		return
	}
	segment, rest, _ := strings.Cut(path, "/")
	if kid := n.kids.get(segment); kid != nil {
		c.walk(kid, rest, least, found)
	}
	if kid := n.kids.get(star); kid != nil && segment != star {
		c.walk(kid, rest, least, found)
	}
}

// fewPairs is up to how many comparisons two lists are compared item by item: below it a walk is faster than a cover.
const fewPairs = 64

// holding answers whether a want lies within one of the holds; it is asked n times.
func (f *Fold) holding(holds []Hold, n int) func(Want) bool {
	if len(holds)*n <= fewPairs {
		f.look(len(holds) * n)
		return func(w Want) bool {
			return slices.ContainsFunc(holds, func(g Hold) bool {
				return g.Scope.Covers(w.Scope) && (g.Access == WriteAccess || w.Access == ReadAccess)
			})
		}
	}
	c := coverOf(holds)
	f.look(len(holds))
	return func(w Want) bool {
		before := c.trie.visited
		found := c.of(w.Scope, w.Access) != ""
		f.look(c.trie.visited - before)
		return found
	}
}

// among answers whether a value is in a list; it is asked n times.
func among[T comparable](f *Fold, list []T, n int) func(T) bool {
	if len(list)*n <= fewPairs {
		f.look(len(list) * n)
		return func(v T) bool { return slices.Contains(list, v) }
	}
	f.look(len(list) + n)
	set := make(map[T]bool, len(list))
	for _, v := range list {
		set[v] = true
	}
	return func(v T) bool { return set[v] }
}

// ownScopes are the scopes that a transaction's settlement may name: granted for writing, or sealed.
func (t *tx) ownScopes() *cover {
	c := &cover{}
	for _, g := range t.Grants {
		if g.Access == WriteAccess {
			c.add(g.Scope, WriteAccess)
		}
	}
	for _, s := range t.Gated {
		c.add(s, WriteAccess)
	}
	for _, s := range t.Sealed {
		c.add(s, WriteAccess)
	}
	if t.Past != nil {
		for _, w := range t.Past.Writes {
			c.add(w.Scope, WriteAccess)
		}
	}
	return c
}

// owned holds a settlement to the scopes of its transaction: what it names besides would move, and make residue of,
// what belongs to others. More of them than a footprint may have count as the scopes that cover them, so that what is
// decided always fits.
func (f *Fold) owned(t *tx, s *Settle) (*Settle, finding) {
	if !f.bounded() {
		return s, finding{}
	}
	own := t.ownScopes()
	n, bytes := 0, 0
	for _, e := range s.Effects {
		for _, x := range e.Scopes {
			n, bytes = n+1, bytes+4+len(x)
			if own.of(x, WriteAccess) == "" {
				f.look(n)
				// It would be written as residue, and refuse readers, for a write that never was (holes 14).
				return nil, finding{code: CodeWrongScopes, scope: x,
					detail: "the settlement names a scope that its transaction was neither granted nor sealed"}
			}
		}
	}
	f.look(n + len(s.Effects) + own.trie.visited)
	if n <= int(f.rules.MaxScopes) && bytes <= int(f.rules.MaxBytes) {
		return s, finding{}
	}
	wide := &Settle{NoneElse: s.NoneElse, Effects: slices.Clone(s.Effects)}
	for i, e := range s.Effects {
		scopes := make([]Scope, len(e.Scopes))
		for k, x := range e.Scopes {
			scopes[k] = own.of(x, WriteAccess)
		}
		slices.Sort(scopes)
		wide.Effects[i].Scopes = slices.Compact(scopes)
	}
	return wide, finding{}
}

// keepSealed notes, of a sealed transaction that aborts and is not final with that, what its seal named beyond its
// grants.
func (f *Fold) keepSealed(t *tx) {
	if !f.bounded() || t.Seal == nil || !t.grantedForWriting() {
		return
	}
	granted := coverOf(t.Grants)
	for _, s := range t.Seal.written() {
		// What is granted may be named anyway.
		if granted.of(s, WriteAccess) == "" {
			t.Sealed = append(t.Sealed, s)
		}
	}
	f.look(granted.trie.visited)
}

// holdList is a list of holds in the order in which they came, from which single ones can be taken out again.
type holdList struct {
	list []Hold       // one that was taken out has no scope.
	at   map[Hold]int // Invariant: nil, or the positions of all holds that are in
	gone int          // how many were taken out and still have their position
}

func (l *holdList) add(h Hold) {
	l.list = append(l.list, h)
	switch {
	case l.at != nil:
		l.at[h] = len(l.list) - 1
	case len(l.list) > shortHolds:
		l.at = make(map[Hold]int, 2*len(l.list))
		for i, h := range l.list {
			l.at[h] = i
		}
	}
}

// shortHolds is how many holds are searched rather than looked up.
const shortHolds = 16

// drop takes a hold out and reports whether it was there.
func (l *holdList) drop(h Hold) bool {
	if l.at == nil {
		i := slices.Index(l.list, h)
		if i < 0 {
			return false
		}
		l.list = slices.Delete(l.list, i, i+1)
		return true
	}
	i, found := l.at[h]
	if found {
		delete(l.at, h)
		l.list[i], l.gone = Hold{}, l.gone+1
	}
	return found
}

func (l *holdList) len() int { return len(l.list) - l.gone }

// take returns the holds and empties the list.
func (l *holdList) take() []Hold {
	out := l.list
	if l.gone > 0 {
		out = slices.DeleteFunc(out, func(h Hold) bool { return h.Scope == "" })
	}
	if len(out) == 0 {
		out = nil
	}
	*l = holdList{}
	return out
}
