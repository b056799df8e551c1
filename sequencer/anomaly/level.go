package anomaly

import "strings"

// Point is one of the sixteen sets of anomalies of the catalogue that a runtime can exclude.
type Point struct{ A1, A2, A3, A6 bool }

// Lattice are the four that make up a Point, in their order.
func Lattice() []Kind { return []Kind{A1, A2, A3, A6} }

// part is where a point keeps one of the four; nil for another kind.
func (p *Point) part(k Kind) *bool {
	switch k {
	case A1:
		return &p.A1
	case A2:
		return &p.A2
	case A3:
		return &p.A3
	case A6:
		return &p.A6
	}
	return nil
}

// Has reports whether the point contains one of the four.
func (p Point) Has(k Kind) bool { return *p.part(k) }

// String is the point as a set, such as {A1,A3}.
func (p Point) String() string {
	var names []string
	for _, k := range Lattice() {
		if p.Has(k) {
			names = append(names, k.String())
		}
	}
	return "{" + strings.Join(names, ",") + "}"
}

// Level is the greatest n of the chain L0 = ∅, L1 = {A1}, L2 = {A1,A3}, L3 = {A1,A3,A6}, L4 = {A1,A2,A3,A6} that the
// point contains.
func (p Point) Level() int {
	for n, excluded := range []bool{p.A1, p.A3, p.A6, p.A2} {
		if !excluded {
			return n
		}
	}
	return 4
}

// And is what both points contain.
func (p Point) And(q Point) Point {
	return Point{p.A1 && q.A1, p.A2 && q.A2, p.A3 && q.A3, p.A6 && q.A6}
}

// Or is what either point contains.
func (p Point) Or(q Point) Point {
	return Point{p.A1 || q.A1, p.A2 || q.A2, p.A3 || q.A3, p.A6 || q.A6}
}

func (p *Point) drop(k Kind) {
	if part := p.part(k); part != nil {
		*part = false
	}
}

// Points are what the history leaves: most has every anomaly but those that were found for certain, least also lacks
// those that are possible or that the history cannot show. They are the same where all is decided.
func (r *Report) Points() (least, most Point) {
	least = Point{true, true, true, true}
	most = least
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Certain {
			most.drop(f.Kind)
		}
		least.drop(r.Findings[i].Kind)
	}
	for _, u := range r.Undecided {
		if u.Open {
			least.drop(u.Kind)
		}
	}
	return least, most
}

// Serializable is the other verdict: whether some serial order explains the history. It is no where operations depend
// on each other in a cycle.
func (r *Report) Serializable() bool {
	for i := range r.Findings {
		if r.Findings[i].Kind == Cycle {
			return false
		}
	}
	return true
}

// Certain is how many findings are certain.
func (r *Report) Certain() (n int) {
	for i := range r.Findings {
		n += btoi(r.Findings[i].Certain)
	}
	return n
}
