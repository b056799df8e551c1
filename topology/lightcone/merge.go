package lightcone

import "slices"

// View is what one observer has seen, in the order that it has given it.
type View struct {
	Seen []int // by index, first to last
	By   Label // within messages alike in it the order is the observer's; between others it says nothing
}

// Merged is whether two views can be one, and how or why not.
type Merged struct {
	Order []int // all messages, those of the views first in their classes; nil: the views do not merge
	// Missing: a view has Second and neither has First, a cause of it that the target asks for.
	Missing *Pair
	// Cycle: messages that each have to come before the next one, and the last before the first. Two of them are a pair
	// that the views order oppositely.
	Cycle []int
}

// Merge says whether what two observers have seen, taken together, is something that an observer under the target may
// hold, in an order that keeps those of both views within the target's classes. The history's own order plays no part.
// Clean asks for an order that respects causes too.
func (h History) Merge(a, b View, target Config, clean bool) Merged {
	union := slices.Clone(a.Seen)
	for _, m := range b.Seen {
		if !slices.Contains(union, m) {
			union = append(union, m)
		}
	}
	closure := target.Closure
	if clean && target.Order != "" { // an order that respects causes brings those of its classes
		closure = append(slices.Clone(closure), target.Order)
	}
	if cause, effect, open := h.unclosed(union, closure); open {
		return Merged{Missing: &Pair{cause, effect}}
	}
	mustPrecede := newPairs(len(h.Messages))
	together := func(x, y int) bool { return target.Order != "" && h.Alike(x, y, target.Order) }
	for _, v := range []View{a, b} {
		for i, later := range v.Seen {
			for _, earlier := range v.Seen[:i] {
				if together(earlier, later) && v.By != "" && h.Alike(earlier, later, v.By) {
					mustPrecede.add(earlier, later)
				}
			}
		}
	}
	for _, seen := range union { // what the views have is a prefix of each class
		for other := range h.Messages {
			if together(seen, other) && !slices.Contains(union, other) {
				mustPrecede.add(seen, other)
			}
		}
	}
	if clean {
		for m := range h.Messages {
			for _, c := range h.Messages[m].Causes {
				mustPrecede.add(c, m)
			}
		}
	}
	if order := mustPrecede.sorted(); order != nil {
		return Merged{Order: order}
	}
	return Merged{Cycle: mustPrecede.shortestCycle()}
}

// pairs says of each message which others have to come after it.
type pairs struct {
	n     int
	after []bool
}

func newPairs(n int) pairs { return pairs{n, make([]bool, n*n)} }

func (p pairs) add(first, second int) { p.after[first*p.n+second] = true }

// of is which messages have to come after one, by index.
func (p pairs) of(first int) []bool { return p.after[first*p.n : (first+1)*p.n] }

// sorted is an order that keeps all pairs; nil: there is none.
func (p pairs) sorted() []int {
	waits, order := make([]int, p.n), make([]int, 0, p.n)
	for first := range p.n {
		for m, after := range p.of(first) {
			if after {
				waits[m]++
			}
		}
	}
	for m := range p.n {
		if waits[m] == 0 {
			order = append(order, m)
		}
	}
	for i := 0; i < len(order); i++ {
		for m, after := range p.of(order[i]) {
			if !after {
				continue
			}
			if waits[m]--; waits[m] == 0 {
				order = append(order, m)
			}
		}
	}
	if len(order) < p.n {
		return nil
	}
	return order
}

// shortestCycle is one of the fewest messages.
func (p pairs) shortestCycle() (shortest []int) {
	for start := range p.n {
		from := make([]int, p.n) // by message: whence it was first reached, counted from 1
		next := []int{start}
		for i := 0; i < len(next); i++ {
			m := next[i]
			if p.of(m)[start] {
				cycle := []int{m}
				for m != start {
					m = from[m] - 1
					cycle = append(cycle, m)
				}
				slices.Reverse(cycle)
				if shortest == nil || len(cycle) < len(shortest) {
					shortest = cycle
				}
				break
			}
			for to, after := range p.of(m) {
				if after && to != start && from[to] == 0 {
					from[to] = m + 1
					next = append(next, to)
				}
			}
		}
	}
	return shortest
}

// Contradiction is a cycle in what several observers have each committed to: messages that one of them has in this
// order, and another one the other way round. No order of all extends them, though each may respect causes. Nil: there
// is none. It finds contradictions of committed orders; whether some history is sequentially consistent it cannot say.
func Contradiction(messages int, committed ...[]int) []int {
	mustPrecede := newPairs(messages)
	for _, order := range committed {
		for i, later := range order {
			for _, earlier := range order[:i] {
				mustPrecede.add(earlier, later)
			}
		}
	}
	if mustPrecede.sorted() != nil {
		return nil
	}
	return mustPrecede.shortestCycle()
}
