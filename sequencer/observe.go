package sequencer

import "slices"

// While a workspace observes, everything is granted and commits at once, so transactions run over each other: what one
// compensates may be what another has written. Observing takes that for granted and only says what would have been
// refused. Two things must not rest on it: a retraction, which puts back what stood before, and whatever is enforced
// afterwards.

// rulesRefused finds why rules cannot come into force now.
func (f *Fold) rulesRefused(next *Rules) finding {
	switch {
	case next.Logic < 3:
	case next.Observe && len(f.retractions) > 0:
		return finding{code: CodeNotWhileObserving, // what is observed would commit over what a turn is to put back
			detail: "a retraction is queued or runs: begin to observe when it is done"}
	case f.stateBytesUnder(next) > maxStateBytes:
		return finding{code: CodeLimit, // a state record that is too large stops the workspace
			detail: "what the workspace keeps now does not fit beside what these rules allow"}
	}
	return finding{}
}

// stateBytesUnder is what a state record may come to under other rules, with what there is now that they would not
// admit.
func (f *Fold) stateBytesUnder(r *Rules) uint64 {
	more := func(now int, allowed uint64) uint64 {
		if now < 0 || uint64(now) < allowed {
			return 0
		}
		return uint64(now) - allowed
	}
	return r.stateBytes() + more(len(f.sidecars.list)*sidecarBytes, uint64(r.MaxSidecars)*sidecarBytes) +
		more(f.open, uint64(r.MaxKept)/2) + more(f.catalogues.bytes+f.listed, uint64(r.MaxKept)/4)
}

// observed ends what was observed, in the step in which the workspace begins to enforce. What is undecided was granted
// without a question to anybody, or had others run over it, so it cannot be judged any more; what is decided and not
// settled holds what it touched, as ever.
func (f *Fold) observed(former Rules) {
	if !f.bounded() || f.rules.Observe {
		return
	}
	if former.Logic < 3 {
		f.shareUnnoted()
	}
	undecided := f.inOrder((*tx).undecided)
	if !former.Observe && !slices.ContainsFunc(undecided, func(t *tx) bool { return t.Free }) {
		return
	}
	at := f.seq
	for _, t := range undecided {
		// Two of them may have been granted one scope; let go on, both would commit and the world keep one (holes 16b).
		f.abort(t, finding{code: CodeRulesChanged, moved: Writer{Seq: at},
			detail: "the workspace began to enforce while the transaction was undecided"})
	}
}

// shareUnnoted makes up for an older logic, which did not note who shared a scope: all that an observed transaction
// touched counts as shared.
func (f *Fold) shareUnnoted() {
	for _, t := range f.inOrder(func(t *tx) bool { return t.Free && !t.undecided() }) {
		settled := t.settledOnce()
		if settled {
			f.settled.bytes -= t.pastBytes()
		}
		for _, g := range t.Grants {
			if g.Access == WriteAccess {
				f.share(t, g.Scope)
			}
		}
		for _, s := range t.Gated {
			f.share(t, s)
		}
		if t.Past != nil {
			for _, w := range t.Past.Writes {
				f.share(t, w.Scope)
			}
		}
		if settled {
			f.settled.bytes += t.pastBytes()
		}
	}
}

// shareGrants notes, for a touch that is granted while the workspace observes, who holds what it asks for.
func (f *Fold) shareGrants(t *tx, wants []Want) {
	if !t.Free || !f.bounded() {
		return
	}
	for _, w := range wants {
		if w.Access == WriteAccess {
			f.shareAt(t, w.Scope)
		}
	}
}

// shareWrites notes, for a commit while the workspace observes, who holds what it writes or will release.
func (f *Fold) shareWrites(t *tx, writes []Write) {
	if !t.Free || !f.bounded() {
		return
	}
	for _, w := range writes {
		f.shareAt(t, w.Scope)
	}
}

// shareAt marks a scope of a transaction, and what others hold of it for writing: calls of both may have run there, in
// an unknown order.
func (f *Fold) shareAt(t *tx, s Scope) {
	var met []*bound
	f.holds.visit(s, func(_ Scope, b *bound) bool {
		// Claims and reads have changed nothing.
		if b.t != t && b.Kind != Claimed && b.Access == WriteAccess {
			met = append(met, b)
		}
		return true
	})
	for _, b := range met {
		f.share(b.t, b.Scope)
	}
	if len(met) > 0 {
		f.share(t, s)
	}
}

// share marks one scope.
func (f *Fold) share(t *tx, s Scope) {
	at, found := slices.BinarySearch(t.Shared, s)
	if found {
		return
	}
	t.Shared = slices.Insert(slices.Clip(t.Shared), at, s)
	f.account(t)
}

// sharedAt: what a settlement says of a scope cannot be believed, because another transaction ran there too.
func (f *Fold) sharedAt(t *tx, s Scope) bool {
	return len(t.Shared) > 0 && !f.rules.Observe && slices.ContainsFunc(t.Shared, s.Overlaps)
}

// retractRefused finds why a retraction cannot be accepted beside what is, or was, only observed.
func (f *Fold) retractRefused() finding {
	if !f.bounded() {
		return finding{}
	}
	unfinished := f.rules.Observe
	for _, t := range f.txs {
		unfinished = unfinished || t.Free && !t.final()
	}
	if !unfinished {
		return finding{}
	}
	// What is observed runs over the cone without a question, and a compensation would run over it (holes 16).
	return finding{code: CodeNotWhileObserving,
		detail: "the workspace observes, or a transaction that opened while it did is not final"}
}
