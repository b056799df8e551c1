package lightcone_test

import (
	"iter"
	"math/bits"

	"github.com/hence-dev/hence/topology/lightcone"
)

// The brute force, from the paper's definitions alone and over bits: it shares nothing with the package but the shape
// of a configuration.

// world is a causal graph of at most four messages with objects, sessions and a resolved order.
type world struct {
	n       int
	causes  [4]uint8 // direct predecessors
	past    [4]uint8 // all ancestors
	object  [4]uint8 // classes
	session [4]uint8
	order   [4]uint8 // position in the resolved order
}

// graphs are all causal graphs of n messages whose edges go forward.
func graphs(n int) iter.Seq[world] {
	return func(yield func(world) bool) {
		for edges := range 1 << (n * (n - 1) / 2) {
			w, bit := world{n: n}, 0
			for m := range n {
				for cause := range m {
					if edges>>bit&1 == 1 {
						w.causes[m] |= 1 << cause
						w.past[m] |= 1<<cause | w.past[cause]
					}
					bit++
				}
				w.order[m] = uint8(m)
			}
			if !yield(w) {
				return
			}
		}
	}
}

// partitions are all ways to sort n messages into classes.
func partitions(n int) (all [][4]uint8) {
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

// permutations are all orders of the members of a set, as lists.
func permutations(set uint8) (all [][]int) {
	if set == 0 {
		return [][]int{nil}
	}
	for m := range 8 {
		if set>>m&1 == 1 {
			for _, rest := range permutations(set &^ (1 << m)) {
				all = append(all, append([]int{m}, rest...))
			}
		}
	}
	return all
}

// labelled are all worlds of n messages; ordered says whether with every order, or with one that respects causes.
func labelled(n int, ordered bool) iter.Seq[world] {
	return func(yield func(world) bool) {
		orders := permutations(1<<n - 1)
		if !ordered {
			orders = orders[:1]
		}
		for w := range graphs(n) {
			for _, w.object = range partitions(n) {
				for _, w.session = range partitions(n) {
					for _, order := range orders {
						for at, m := range order {
							w.order[m] = uint8(at)
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

// demands says whether the closure filter, by its place among the five, makes a cause a duty of its effect.
func (w *world) demands(filter int, cause, effect int) bool {
	switch filter {
	case 1:
		return w.object[cause] == w.object[effect]
	case 2:
		return w.session[cause] == w.session[effect]
	case 3:
		return true
	case 4: // object or session
		return w.object[cause] == w.object[effect] || w.session[cause] == w.session[effect]
	}
	return false
}

// classed says whether the scope of the order, by its place among the three, holds both messages in one class.
func (w *world) classed(scope int, a, b int) bool {
	return scope == 2 || scope == 1 && w.object[a] == w.object[b]
}

// closed: whoever holds a message holds the causes that the filter demands.
func (w *world) closed(filter int, cut uint8) bool {
	for m := range w.n {
		for c := range w.n {
			if cut>>m&1 == 1 && w.past[m]>>c&1 == 1 && w.demands(filter, c, m) && cut>>c&1 == 0 {
				return false
			}
		}
	}
	return true
}

// prefix: within each class the cut is a prefix of the order.
func (w *world) prefix(scope int, cut uint8) bool {
	for m := range w.n {
		for e := range w.n {
			if cut>>m&1 == 1 && w.classed(scope, e, m) && w.order[e] < w.order[m] && cut>>e&1 == 0 {
				return false
			}
		}
	}
	return true
}

// admissible are the cuts that the filter, and those that the scope, lets an observer hold: one bit for each cut.
func (w *world) admissible() (byFilter [5]uint16, byScope [3]uint16) {
	for cut := range uint8(1 << w.n) {
		for f := range byFilter {
			if w.closed(f, cut) {
				byFilter[f] |= 1 << cut
			}
		}
		for s := range byScope {
			if w.prefix(s, cut) {
				byScope[s] |= 1 << cut
			}
		}
	}
	return byFilter, byScope
}

// causal says whether the order puts no cause after its effect.
func (w *world) causal() bool {
	for m := range w.n {
		for c := range w.n {
			if w.past[m]>>c&1 == 1 && w.order[c] > w.order[m] {
				return false
			}
		}
	}
	return true
}

// relation is which of the configurations, filter by filter and scope by scope, is readable under which.
type relation [15][15]bool

// brute is the relation over all worlds of two to four messages, and how many these are; of those of four, over each
// one in step.
func brute(everyOrder bool, step int) (r relation, worlds int) {
	for a := range r {
		for b := range r {
			r[a][b] = true
		}
	}
	for n := 2; n <= 4; n++ {
		for w := range labelled(n, everyOrder) {
			if worlds++; n == 4 && worlds%step != 0 {
				continue
			}
			filters, scopes := w.admissible()
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

// five are the closure filters in the brute force's numbering.
func five() []lightcone.Set { return append(lightcone.Filters(), lightcone.ObjectAndSession()) }

// history is a world in the package's shape.
func (w *world) history() lightcone.History {
	h := lightcone.History{Order: make([]int, w.n), Messages: make([]lightcone.Message, w.n)}
	for m := range w.n {
		h.Order[w.order[m]] = m
		h.Messages[m].Labels = map[lightcone.Label]string{
			lightcone.Object:  string('a' + rune(w.object[m])),
			lightcone.Session: string('a' + rune(w.session[m])),
		}
		h.Messages[m].Causes = listed(w.causes[m])
	}
	return h
}

// worldOf is a history in the brute force's shape.
func worldOf(h lightcone.History) world {
	w := world{n: len(h.Messages)}
	for at, m := range h.Order {
		w.order[m] = uint8(at)
	}
	classes := func(l lightcone.Label) (p [4]uint8) {
		for m := range w.n {
			p[m] = uint8(m)
			for other := range m {
				if v, has := h.Messages[m].Labels[l]; has && v == h.Messages[other].Labels[l] {
					p[m] = p[other]
				}
			}
		}
		return p
	}
	w.object, w.session = classes(lightcone.Object), classes(lightcone.Session)
	for m := range w.n {
		for _, c := range h.Messages[m].Causes {
			w.causes[m] |= 1 << c
			w.past[m] |= 1<<c | w.past[c]
		}
	}
	return w
}

func listed(set uint8) (list []int) {
	for set != 0 {
		m := bits.TrailingZeros8(set)
		list, set = append(list, m), set&^(1<<m)
	}
	return list
}

func setOf(list []int) (set uint8) {
	for _, m := range list {
		set |= 1 << m
	}
	return set
}
