package sequencer

import (
	"cmp"
	"slices"
)

// maxBlockers is how many transactions an answer names.
const maxBlockers = 16

// block notes that a hold of another transaction is in the way.
func (j *judgement) block(b *bound, collect bool) {
	j.blocked = true
	if collect {
		j.blockers = append(j.blockers, blockerOf(b))
	}
}

// refuse keeps the reason with the oldest transaction in it, of one transaction that with the smallest scope: what is
// answered must not depend on the order in which the index is walked.
func (j *judgement) refuse(by Epoch, why finding) {
	// Map and trie order must not reach an answer: it is hashed.
	if !j.refused.found() || cmp.Or(cmp.Compare(by, j.by), cmp.Compare(why.scope, j.refused.scope)) < 0 {
		j.by, j.refused = by, why
	}
}

func (j *judgement) wound(b *bound) { j.wounds = append(j.wounds, b) }

// done puts what was collected in an order that does not depend on how it was found. Of the holds of one transaction
// that is wounded the smallest scope is named.
func (j judgement) done() judgement {
	slices.SortFunc(j.wounds, func(a, b *bound) int {
		return cmp.Or(cmp.Compare(a.t.Epoch, b.t.Epoch), cmp.Compare(a.t.Order, b.t.Order), cmp.Compare(a.Scope, b.Scope))
	})
	j.wounds = slices.CompactFunc(j.wounds, func(a, b *bound) bool { return a.t == b.t })
	slices.SortStableFunc(j.blockers, compareBlockers)
	j.blockers = slices.Compact(j.blockers)
	return j
}

func compareBlockers(a, b Blocker) int {
	return cmp.Or(cmp.Compare(a.Tx, b.Tx), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Why, b.Why))
}

// named is what an answer shows of the blockers.
func (j judgement) named() []Blocker { return j.blockers[:min(len(j.blockers), maxBlockers)] }

func blockerOf(b *bound) Blocker {
	return Blocker{Tx: b.t.ID, Scope: b.Scope, Why: b.t.why(b.Kind.String())}
}

// whyOrphan is how a decided transaction is in the way that nobody settles.
const whyOrphan = "orphan"

// why says how a transaction is in the way.
func (t *tx) why(kind string) string {
	if !t.undecided() && t.Owner == 0 {
		return whyOrphan
	}
	return kind
}

// would is what an observing workspace reports instead of doing it.
func would(j judgement) Code {
	switch {
	case j.refused.found():
		return j.refused.code
	case j.blocked, len(j.wounds) > 0:
		return CodeWaiting
	}
	return ""
}
