// Package brute decides the questions of package lightcone the slow way: from the paper's definitions alone, over all
// causal graphs of up to four messages, as bits. It shares nothing with that package but the shape of a configuration,
// and is what tests, and the tables of hence bench, hold it to. Nothing that decides uses it.
package brute

import (
	"iter"
	"math/bits"

	"github.com/hence-dev/hence/topology/lightcone"
)

// World is a causal graph of at most four messages with objects, sessions and a resolved order.
type World struct {
	N       int
	Causes  [4]uint8 // direct predecessors
	Past    [4]uint8 // all ancestors
	Object  [4]uint8 // classes
	Session [4]uint8
	Order   [4]uint8 // position in the resolved order
}

// Graphs are all causal graphs of n messages whose edges go forward.
func Graphs(n int) iter.Seq[World] {
	return func(yield func(World) bool) {
		for edges := range 1 << (n * (n - 1) / 2) {
			w, bit := World{N: n}, 0
			for m := range n {
				for cause := range m {
					if edges>>bit&1 == 1 {
						w.Causes[m] |= 1 << cause
						w.Past[m] |= 1<<cause | w.Past[cause]
					}
					bit++
				}
				w.Order[m] = uint8(m)
			}
			if !yield(w) {
				return
			}
		}
	}
}

// Partitions are all ways to sort n messages into classes.
func Partitions(n int) (all [][4]uint8) {
	var grow func(p [4]uint8, at int, classes uint8)
	grow = func(p [4]uint8, at int, classes uint8) {
		if at == n {
			all = append(all, p)
			return
		}
		for c := range classes + 1 {
			p[at] = c
			grow(p, at+1, max(classes, c+1))
		}
	}
	grow([4]uint8{}, 0, 0)
	return all
}

// Permutations are all orders of the members of a set, as lists.
func Permutations(set uint8) (all [][]int) {
	if set == 0 {
		return [][]int{nil}
	}
	for m := range 8 {
		if set>>m&1 == 1 {
			for _, rest := range Permutations(set &^ (1 << m)) {
				all = append(all, append([]int{m}, rest...))
			}
		}
	}
	return all
}

// Labelled are all worlds of n messages; ordered says whether with every order, or with one that respects causes.
func Labelled(n int, ordered bool) iter.Seq[World] {
	return func(yield func(World) bool) {
		orders := Permutations(1<<n - 1)
		if !ordered {
			orders = orders[:1]
		}
		for w := range Graphs(n) {
			for _, w.Object = range Partitions(n) {
				for _, w.Session = range Partitions(n) {
					for _, order := range orders {
						for at, m := range order {
							w.Order[m] = uint8(at)
						}
						if !yield(w) {
							return
						}
					}
				}
			}
		}
	}
}

// Demands says whether the closure filter, by its place among the five, makes a cause a duty of its effect.
func (w *World) Demands(filter int, cause, effect int) bool {
	switch filter {
	case 1:
		return w.Object[cause] == w.Object[effect]
	case 2:
		return w.Session[cause] == w.Session[effect]
	case 3:
		return true
	case 4: // object or session
		return w.Object[cause] == w.Object[effect] || w.Session[cause] == w.Session[effect]
	}
	return false
}

// Classed says whether the scope of the order, by its place among the three, holds both messages in one class.
func (w *World) Classed(scope int, a, b int) bool {
	return scope == 2 || scope == 1 && w.Object[a] == w.Object[b]
}

// Closed says of a cut that it has, with each message, the causes that the filter demands.
func (w *World) Closed(filter int, cut uint8) bool {
	for m := range w.N {
		for c := range w.N {
			if cut>>m&1 == 1 && w.Past[m]>>c&1 == 1 && w.Demands(filter, c, m) && cut>>c&1 == 0 {
				return false
			}
		}
	}
	return true
}

// Prefix says that within each class the cut is a prefix of the order.
func (w *World) Prefix(scope int, cut uint8) bool {
	for m := range w.N {
		for e := range w.N {
			if cut>>m&1 == 1 && w.Classed(scope, e, m) && w.Order[e] < w.Order[m] && cut>>e&1 == 0 {
				return false
			}
		}
	}
	return true
}

// Admissible are the cuts that the filter, and those that the scope, lets an observer hold: one bit for each cut.
func (w *World) Admissible() (byFilter [5]uint16, byScope [3]uint16) {
	for cut := range uint8(1 << w.N) {
		for f := range byFilter {
			if w.Closed(f, cut) {
				byFilter[f] |= 1 << cut
			}
		}
		for s := range byScope {
			if w.Prefix(s, cut) {
				byScope[s] |= 1 << cut
			}
		}
	}
	return byFilter, byScope
}

// Causal says whether the order puts no cause after its effect.
func (w *World) Causal() bool {
	for m := range w.N {
		for c := range w.N {
			if w.Past[m]>>c&1 == 1 && w.Order[c] > w.Order[m] {
				return false
			}
		}
	}
	return true
}

// Relation is which of the configurations, filter by filter and scope by scope, is readable under which.
type Relation [15][15]bool

// Relate is the relation over all worlds of two to most messages, at most four, and how many these are; of those of
// four, over each one in step.
func Relate(everyOrder bool, most, step int) (r Relation, worlds int) {
	for a := range r {
		for b := range r {
			r[a][b] = true
		}
	}
	for n := 2; n <= most; n++ {
		for w := range Labelled(n, everyOrder) {
			if worlds++; n == 4 && worlds%step != 0 {
				continue
			}
			filters, scopes := w.Admissible()
			for a := range r {
				may := filters[a/3] & scopes[a%3]
				for b := range r {
					if may&^(filters[b/3]&scopes[b%3]) != 0 {
						r[a][b] = false
					}
				}
			}
		}
	}
	return r, worlds
}

// Filters are the closure filters in the brute force's numbering.
func Filters() []lightcone.Set { return append(lightcone.Filters(), lightcone.ObjectAndSession()) }

// History is a world in the package's shape.
func (w *World) History() lightcone.History {
	h := lightcone.History{Order: make([]int, w.N), Messages: make([]lightcone.Message, w.N)}
	for m := range w.N {
		h.Order[w.Order[m]] = m
		h.Messages[m].Labels = map[lightcone.Label]string{
			lightcone.Object:  string('a' + rune(w.Object[m])),
			lightcone.Session: string('a' + rune(w.Session[m])),
		}
		h.Messages[m].Causes = Listed(w.Causes[m])
	}
	return h
}

// Of is a history in the brute force's shape.
func Of(h lightcone.History) World {
	w := World{N: len(h.Messages)}
	for at, m := range h.Order {
		w.Order[m] = uint8(at)
	}
	classes := func(l lightcone.Label) (p [4]uint8) {
		for m := range w.N {
			p[m] = uint8(m)
			for other := range m {
				if v, has := h.Messages[m].Labels[l]; has && v == h.Messages[other].Labels[l] {
					p[m] = p[other]
				}
			}
		}
		return p
	}
	w.Object, w.Session = classes(lightcone.Object), classes(lightcone.Session)
	for m := range w.N {
		for _, c := range h.Messages[m].Causes {
			w.Causes[m] |= 1 << c
			w.Past[m] |= 1<<c | w.Past[c]
		}
	}
	return w
}

// Listed are the members of a set.
func Listed(set uint8) (list []int) {
	for set != 0 {
		m := bits.TrailingZeros8(set)
		list, set = append(list, m), set&^(1<<m)
	}
	return list
}

// SetOf is a list as a set.
func SetOf(list []int) (set uint8) {
	for _, m := range list {
		set |= 1 << m
	}
	return set
}
