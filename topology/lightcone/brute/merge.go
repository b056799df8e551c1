package brute

// View is what one observer has seen of a world, in an order that respects causes.
type View struct {
	Seen  []int
	Set   uint8
	Pairs uint16 // which message it has before which, a bit for each two
}

// PairBit is the bit of two messages, one before the other.
func PairBit(first, second int) uint16 { return 1 << (first*4 + second) }

// PairsOf are all pairs of an order.
func PairsOf(order []int) (p uint16) {
	for i, later := range order {
		for _, earlier := range order[:i] {
			p |= PairBit(earlier, later)
		}
	}
	return p
}

// Views are all non-empty cuts of a world with all orders of them that respect causes.
func (w *World) Views() (all []View) {
	for cut := uint8(1); cut < 1<<w.N; cut++ {
		for _, order := range Permutations(cut) {
			v := View{Seen: order, Set: cut, Pairs: PairsOf(order)}
			if v.Pairs&w.AgainstCauses() == 0 {
				all = append(all, v)
			}
		}
	}
	return all
}

// AgainstCauses are the pairs that have an effect before its cause.
func (w *World) AgainstCauses() (p uint16) {
	for m := range w.N {
		for _, c := range Listed(w.Past[m]) {
			p |= PairBit(m, c)
		}
	}
	return p
}

// Merges is the definition: there is an order of all messages that, within each class, keeps both views', and under
// which both together are closed and a prefix of each class. Clean: it respects causes too.
func (w *World) Merges(a, b View, filter, scope int, clean bool, orders []uint16) bool {
	union := a.Set | b.Set
	if !w.Closed(filter, union) {
		return false
	}
	var within, outside uint16
	for x := range w.N {
		for y := range w.N {
			if x != y && w.Classed(scope, x, y) {
				within |= PairBit(x, y)
				if union>>x&1 == 0 && union>>y&1 == 1 {
					outside |= PairBit(x, y)
				}
			}
		}
	}
	for _, order := range orders {
		if (a.Pairs|b.Pairs)&within&^order == 0 && order&outside == 0 && (!clean || order&w.AgainstCauses() == 0) {
			return true
		}
	}
	return false
}

// Theorem is what the paper's theorem says, to the letter: each view closed by itself, and no pair that both have in
// opposite order within a class.
func (w *World) Theorem(a, b View, filter, scope int) bool {
	if !w.Closed(filter, a.Set) || !w.Closed(filter, b.Set) {
		return false
	}
	for x := range w.N {
		for y := range w.N {
			if w.Classed(scope, x, y) && a.Pairs&PairBit(x, y) != 0 && b.Pairs&PairBit(y, x) != 0 {
				return false
			}
		}
	}
	return true
}
