package lightcone

// Hop is a copy of data into a place: read there at the place's configuration and written as a fresh datum, which
// knows of no more than its reader had to see.
type Hop struct {
	Place  string
	Config Config
	// Append: what is written names what it was copied from, and that is kept, so that a reader can go back to it. Such
	// a copy loses nothing.
	Append bool
}

// Fall is where a pipeline lost something for good, on one axis or both.
type Fall struct {
	Hop         int // by index
	Before, Now Level
	LostOrder   bool
	LostClosure bool
}

// Carried is what data of a source carries after each hop, and where it lost something. No later hop brings back what
// an earlier one did not observe.
func (s Scheme) Carried(source Config, hops []Hop) (levels []Level, falls []Fall) {
	now := s.Level(source)
	for i, hop := range hops {
		next := now
		if !hop.Append {
			next = s.Both(now, s.Level(hop.Config))
		}
		fall := Fall{Hop: i, Before: now, Now: next, LostOrder: !s.Below(now.Order, next.Order),
			LostClosure: !s.Below(now.Closure, next.Closure)}
		if fall.LostOrder || fall.LostClosure {
			falls = append(falls, fall)
		}
		levels = append(levels, next)
		now = next
	}
	return levels, falls
}

// Provenance is the least cut with a message that an observer under a configuration may hold: what a copy of the
// message made there can say that it rests on. The difference of two is what a copy loses.
func (h History) Provenance(m int, c Config) []int {
	in := make([]bool, len(h.Messages))
	in[m] = true
	for grown := true; grown; {
		grown = false
		take := func(x int) { grown, in[x] = grown || !in[x], true }
		for i, x := range h.Order {
			if !in[x] {
				continue
			}
			for _, cause := range h.Ancestors(x) {
				if h.alike(cause, x, c.Closure) {
					take(cause)
				}
			}
			for _, earlier := range h.Order[:i] {
				if c.Order != "" && h.Alike(earlier, x, c.Order) {
					take(earlier)
				}
			}
		}
	}
	var cut []int
	for x, is := range in {
		if is {
			cut = append(cut, x)
		}
	}
	return cut
}
