package lightcone

// Stack is orders of several labels over the same messages: each orders the messages that are alike in it.
type Stack []View

// Totals says whether the stack orders all messages of a history along its own order: each two that follow each other
// there must be ordered by one of the stack. Where it does not, the pair is the first that nothing orders. That labels
// join all messages is necessary and not sufficient.
func (h History) Totals(stack Stack) (gap *Pair) {
	for i := 1; i < len(h.Order); i++ {
		p := Pair{h.Order[i-1], h.Order[i]}
		ordered := false
		for _, v := range stack {
			ordered = ordered || v.By != "" && h.Alike(p.First, p.Second, v.By) && v.has(p)
		}
		if !ordered {
			return &p
		}
	}
	return nil
}

// has says whether the view has the first of a pair before the second.
func (v View) has(p Pair) bool {
	seen := false
	for _, m := range v.Seen {
		if m == p.Second {
			return seen
		}
		seen = seen || m == p.First
	}
	return false
}

// SingleObserver says what a configuration promises of real time, which no observer's own history shows: nothing. A
// store beside a serializer is two systems, and only both together are linearizable.
func (c Config) SingleObserver() string {
	switch {
	case c.Serializer:
		return "two systems: a store, and a serializer that orders by real time; together linearizable"
	case c.Order == Everything:
		return "one order of all, which need not be that of real time: sequential, not linearizable"
	}
	return ""
}
