package anomaly

import "slices"

// tool judges A2, which needs one record alone.
//
// Certain: planned ∈ registry at the read, ∉ registry at the commit; or the signature pinned at the read is another
// one at the commit, or gone. Where the registry at the commit is not recorded, a planned and visible
// tool that was not used makes it possible: the agent may have changed its mind.
func (h *History) tool(i uint32, p Plan) {
	found := Finding{Kind: A2, Certain: true, Records: []uint32{i}, Cell: p.Tool, Count: 1}
	switch {
	case !p.Known:
		h.undecided[noPlan]++
		return
	case p.Tool == "": // nothing was planned
		return
	case p.ChangedSince && (p.AtRead != Yes || p.AtWrite != No): // a pinned signature needs no list of names at the read
		found.how = bySignature
	case p.AtRead == No: // the agent made the name up: it was never there to vanish
		return
	case p.AtWrite == Yes: // whatever was visible at the read
		return
	case p.AtWrite == Unknown && p.Used == Yes: // it was called
		return
	case p.AtRead == Unknown:
		h.undecided[noRegistryRead]++
		return
	case p.AtWrite == No:
	case p.Used == No:
		found.Certain, found.how = false, byUse
	default:
		h.undecided[noRegistryWrite]++
		return
	}
	h.single = append(h.single, found)
}

// order judges A6, which needs one record alone: at least two effects were issued, and the same effects happened in
// another order. Effects that are missing or extra are a finding of their own.
func (h *History) order(i uint32, o *Op) {
	issued, happened := o.Order.Issued, o.Order.Happened
	if !o.Order.IssuedKnown || !o.Order.HappenedKnown {
		// Fewer than two effects have one order. What wrote nothing has no effects, unless the trace lists them.
		few := o.Order.IssuedKnown && len(issued) < 2 || o.Order.HappenedKnown && len(happened) < 2 ||
			!o.Order.HappenedKnown && len(o.Writes) == 0
		h.undecidedIf(!few, noOrder)
		return
	}
	switch {
	case slices.Equal(issued, happened):
	case !sameEffects(issued, happened):
		h.single = append(h.single, Finding{Kind: Effects, Certain: true, Records: []uint32{i}, Count: 1,
			Cell: differing(issued, happened)})
	default: // they are two at least: fewer have one order
		at := 0
		for issued[at] == happened[at] {
			at++
		}
		h.single = append(h.single, Finding{Kind: A6, Certain: true, Records: []uint32{i}, Count: 1,
			Cell: issued[at].Cell, Cell2: happened[at].Cell})
	}
}

// sameEffects reports whether one list is a permutation of the other.
func sameEffects(a, b []Write) bool {
	count := map[Write]int{}
	for _, e := range a {
		count[e]++
	}
	for _, e := range b {
		count[e]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// differing is the cell of the first effect that one of both lists has more often.
func differing(issued, happened []Write) string {
	for _, list := range [][]Write{issued, happened} {
		for _, e := range list {
			if countOf(issued, e) != countOf(happened, e) {
				return e.Cell
			}
		}
	}
	return ""
}

func countOf(list []Write, e Write) (n int) {
	for _, one := range list {
		if one == e {
			n++
		}
	}
	return n
}
