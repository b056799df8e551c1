package brute

// Needs are, for each message, those that must be there with it under a filter and a scope.
func (w *World) Needs(filter, scope int) (of [4]uint8) {
	for m := range w.N {
		for c := range w.N {
			if w.Past[m]>>c&1 == 1 && w.Demands(filter, c, m) || c != m && w.Classed(scope, c, m) && w.Order[c] < w.Order[m] {
				of[m] |= 1 << c
			}
		}
	}
	return of
}

// Reach is the least set with a message that has what its members need, as far as it is known at all.
func Reach(m int, needs [4]uint8, known uint8) uint8 {
	set := uint8(1) << m
	for {
		more := set
		for _, x := range Listed(set) {
			more |= needs[x] & known
		}
		if more == set {
			return set
		}
		set = more
	}
}

// Totals says whether what objects and sessions order, and what follows, is the whole order.
func (w *World) Totals() bool {
	var before [4][4]bool
	for a := range w.N {
		for b := range w.N {
			before[a][b] = (w.Object[a] == w.Object[b] || w.Session[a] == w.Session[b]) && w.Order[a] < w.Order[b]
		}
	}
	for k := range w.N {
		for a := range w.N {
			for b := range w.N {
				before[a][b] = before[a][b] || before[a][k] && before[k][b]
			}
		}
	}
	for a := range w.N {
		for b := range w.N {
			if w.Order[a] < w.Order[b] && !before[a][b] {
				return false
			}
		}
	}
	return true
}

// Joined says whether objects and sessions together join all messages.
func (w *World) Joined() bool {
	set := uint8(1)
	for range w.N {
		for a := range w.N {
			for b := range w.N {
				if set>>a&1 == 1 && (w.Object[a] == w.Object[b] || w.Session[a] == w.Session[b]) {
					set |= 1 << b
				}
			}
		}
	}
	return set == 1<<w.N-1
}
