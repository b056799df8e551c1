package lightcone

import "slices"

// Message is one event of a causal graph.
type Message struct {
	Name   string
	Labels map[Label]string // a message without a value of a label is alone in it
	Causes []int            // what its creator had seen, by index; what these had seen need not be repeated
}

// History is a causal graph and the order that a system has given its messages.
type History struct {
	Messages []Message
	Order    []int // indices of all messages
}

// Alike says whether two messages have the same value of a label.
func (h History) Alike(a, b int, l Label) bool {
	if l == Everything {
		return true
	}
	x, has := h.Messages[a].Labels[l]
	y, also := h.Messages[b].Labels[l]
	return has && also && x == y
}

func (h History) alike(a, b int, s Set) bool {
	return slices.ContainsFunc(s, func(l Label) bool { return h.Alike(a, b, l) })
}

// Ancestors are all that a message follows from.
func (h History) Ancestors(m int) []int {
	var out []int
	left := slices.Clone(h.Messages[m].Causes)
	for len(left) > 0 {
		c := left[0]
		left = left[1:]
		if !slices.Contains(out, c) {
			out = append(out, c)
			left = append(left, h.Messages[c].Causes...)
		}
	}
	return out
}

// unclosed finds a message of a cut and a cause of it, alike in the set, that the cut does not have.
func (h History) unclosed(cut []int, closure Set) (cause, effect int, found bool) {
	if len(closure) == 0 {
		return 0, 0, false
	}
	for _, m := range cut {
		for _, c := range h.Ancestors(m) {
			if h.alike(c, m, closure) && !slices.Contains(cut, c) {
				return c, m, true
			}
		}
	}
	return 0, 0, false
}

// Admits says whether an observer under a configuration may hold a cut: it is closed over the causes that the filter
// asks for, and within each class of the order it is a prefix.
func (h History) Admits(cut []int, c Config) bool {
	if _, _, open := h.unclosed(cut, c.Closure); open {
		return false
	}
	for i, m := range h.Order {
		for _, earlier := range h.Order[:i] {
			if slices.Contains(cut, m) && !slices.Contains(cut, earlier) && c.Order != "" && h.Alike(earlier, m, c.Order) {
				return false
			}
		}
	}
	return true
}

// Pair is two messages by index.
type Pair struct{ First, Second int }

// Scars are the pairs that the order has the wrong way round: First is a cause of Second and comes after it. They say
// nothing of causes that were not recorded.
func (h History) Scars() (scars []Pair) {
	at := make([]int, len(h.Messages))
	for i, m := range h.Order {
		at[m] = i
	}
	for m := range h.Messages {
		for _, c := range h.Ancestors(m) {
			if at[c] > at[m] {
				scars = append(scars, Pair{c, m})
			}
		}
	}
	return scars
}
