package sequencer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// trie keeps a load of type T per scope and finds the scopes that overlap another one without looking at the rest.
// Its first level is the type, each further one a segment; a stored `*` is a child like any other, so a walk follows
// at most two children per segment: the one of that name and `*`. Only a `*` inside the walked path (not at its end,
// where it says no more than the subtree does) looks at all children of a node.
//
// What a walk meets, and in which order, depends only on what is stored, never on the history or on map order.
type trie[T any] struct {
	root    trieNode[T]
	visited int // nodes that walks came to, and values that they showed
}

type trieNode[T any] struct {
	segment string
	parent  *trieNode[T]
	kids    siblings[T]
	scope   Scope // where load is stored; "" when nothing is stored. Invariant: a node without scope and kids is removed
	load    T
}

// grow returns the node of a scope, made with all its ancestors if need be.
func (t *trie[T]) grow(s Scope) *trieNode[T] {
	kind, path, ok := s.split()
	if !ok {
		panic(fmt.Sprintf("sequencer: scope %q is not canonical", s))
	}
	n := t.root.kid(kind)
	for path != "" {
		var segment string
		segment, path, _ = strings.Cut(path, "/")
		n = n.kid(segment)
	}
	return n
}

// find returns the node of exactly this scope, or nil.
func (t *trie[T]) find(s Scope) *trieNode[T] {
	kind, path, _ := s.split()
	n := t.root.kids.get(kind)
	for n != nil && path != "" {
		var segment string
		segment, path, _ = strings.Cut(path, "/")
		n = n.kids.get(segment)
	}
	return n
}

// visit calls fn for each stored scope that overlaps s until fn returns false: ancestors before what is below them,
// siblings by name. fn must not change the trie.
func (t *trie[T]) visit(s Scope, fn func(*trieNode[T]) bool) {
	kind, path := s.reach()
	if n := t.root.kids.get(kind); n != nil {
		t.walk(n, path, fn)
	}
}

func (t *trie[T]) walk(n *trieNode[T], path string, fn func(*trieNode[T]) bool) bool {
	t.visited++
	if n.scope != "" && !fn(n) {
		return false
	}
	segment, rest, _ := strings.Cut(path, "/")
	if segment == "" || segment == star {
		for _, run := range n.kids.runs {
			for _, kid := range run {
				if !t.walk(kid, rest, fn) {
					return false
				}
			}
		}
		return true
	}
	first, second := n.kids.get(star), n.kids.get(segment)
	if segment < star { // an escape sorts before the star
		first, second = second, first
	}
	return (first == nil || t.walk(first, rest, fn)) && (second == nil || t.walk(second, rest, fn))
}

// kid returns the child of that name, made if need be.
func (n *trieNode[T]) kid(segment string) *trieNode[T] {
	kid := n.kids.get(segment)
	if kid == nil {
		kid = &trieNode[T]{segment: segment, parent: n}
		n.kids.add(kid)
	}
	return kid
}

// spare reports whether the node serves nothing: neither load nor children, and not the root.
func (n *trieNode[T]) spare() bool {
	return n.scope == "" && len(n.kids.runs) == 0 && n.parent != nil
}

// reach returns type and path without its trailing `*` segments: it overlaps exactly the scopes that s overlaps,
// because whatever is shorter overlaps anyway and whatever is longer is in the subtree.
func (s Scope) reach() (kind, path string) {
	kind, path, _ = s.split()
	for strings.HasSuffix(path, star) {
		path = strings.TrimSuffix(strings.TrimSuffix(path, star), "/")
	}
	return kind, path
}

// maxRun is the length of the longest run of siblings: it bounds what one insertion moves.
const maxRun = 64

// siblings are the children of one node in order of their names, cut into runs so that a node with a million of them
// is not moved in memory for each new one.
type siblings[T any] struct {
	// Invariant: no run is empty or longer than maxRun, each is sorted, and all of it sorts below the next run.
	runs [][]*trieNode[T]
	// byName spares the search once one run was too short to hold them all; it is only looked up, never ranged over.
	byName map[string]*trieNode[T]
}

func (k *siblings[T]) get(segment string) *trieNode[T] {
	if k.byName != nil {
		return k.byName[segment]
	}
	if len(k.runs) == 0 {
		return nil
	}
	if at, found := searchRun(k.runs[0], segment); found {
		return k.runs[0][at]
	}
	return nil
}

func (k *siblings[T]) add(kid *trieNode[T]) {
	if len(k.runs) == 0 {
		k.runs = [][]*trieNode[T]{{kid}}
		return
	}
	r := min(k.run(kid.segment), len(k.runs)-1)
	at, _ := searchRun(k.runs[r], kid.segment)
	k.runs[r] = slices.Insert(k.runs[r], at, kid)
	if run := k.runs[r]; len(run) > maxRun {
		half := len(run) / 2
		k.runs = slices.Insert(k.runs, r+1, slices.Clone(run[half:]))
		clear(run[half:])
		k.runs[r] = run[:half]
	}
	if k.byName == nil && len(k.runs) > 1 {
		k.byName = make(map[string]*trieNode[T], 2*maxRun)
		for _, run := range k.runs {
			for _, n := range run {
				k.byName[n.segment] = n
			}
		}
	} else if k.byName != nil {
		k.byName[kid.segment] = kid
	}
}

// remove drops a child that is there.
func (k *siblings[T]) remove(kid *trieNode[T]) {
	r := k.run(kid.segment)
	at, _ := searchRun(k.runs[r], kid.segment)
	k.runs[r] = slices.Delete(k.runs[r], at, at+1)
	if len(k.runs[r]) == 0 {
		k.runs = slices.Delete(k.runs, r, r+1)
	}
	if len(k.runs) == 0 {
		k.runs, k.byName = nil, nil
		return
	}
	if k.byName != nil {
		delete(k.byName, kid.segment)
	}
}

// run returns the first run that does not end before the segment.
func (k *siblings[T]) run(segment string) int {
	r, _ := slices.BinarySearchFunc(k.runs, segment, func(run []*trieNode[T], segment string) int {
		return cmp.Compare(run[len(run)-1].segment, segment)
	})
	return r
}

func searchRun[T any](run []*trieNode[T], segment string) (int, bool) {
	return slices.BinarySearchFunc(run, segment, func(n *trieNode[T], segment string) int {
		return cmp.Compare(n.segment, segment)
	})
}

// index keeps values under (scope, key) and finds those whose scope overlaps another one. The zero index is empty.
type index[K cmp.Ordered, V any] struct {
	// Items of one scope. Invariant: in order of their keys: which value a walk meets first must not depend on history.
	trie trie[[]indexItem[K, V]]
}

type indexItem[K cmp.Ordered, V any] struct {
	key   K
	value V
}

// add stores a value; one that is there under the same scope and key is replaced.
func (x *index[K, V]) add(s Scope, key K, value V) {
	n := x.trie.grow(s)
	n.scope = s
	at, found := searchItem(n.load, key)
	if found {
		n.load[at].value = value
		return
	}
	n.load = slices.Insert(n.load, at, indexItem[K, V]{key, value})
}

// remove drops what is stored under exactly this scope and key, and reports whether there was something.
func (x *index[K, V]) remove(s Scope, key K) bool {
	n := x.trie.find(s)
	if n == nil {
		return false
	}
	at, found := searchItem(n.load, key)
	if !found {
		return false
	}
	n.load = slices.Delete(n.load, at, at+1)
	if len(n.load) > 0 {
		return true
	}
	n.load, n.scope = nil, ""
	for n.spare() {
		n.parent.kids.remove(n)
		n = n.parent
	}
	return true
}

// visit calls fn for each stored value whose scope overlaps s until fn returns false: ancestors before what is below
// them, siblings by name, values of one scope by key. fn must not change the index.
func (x *index[K, V]) visit(s Scope, fn func(scope Scope, value V) bool) {
	x.trie.visit(s, func(n *trieNode[[]indexItem[K, V]]) bool {
		for i := range n.load {
			x.trie.visited++
			if !fn(n.scope, n.load[i].value) {
				return false
			}
		}
		return true
	})
}

func searchItem[K cmp.Ordered, V any](items []indexItem[K, V], key K) (int, bool) {
	return slices.BinarySearchFunc(items, key, func(item indexItem[K, V], key K) int {
		return cmp.Compare(item.key, key)
	})
}
