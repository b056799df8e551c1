package sequencer

import "slices"

// judgement is what a waiting touch or seal comes to: nothing stands against it when refused, wounds and blocked are
// empty.
type judgement struct {
	refused  finding
	by       Epoch    // of the transaction that refused names
	wounds   []*bound // one per younger transaction that is in the way
	blocked  bool
	blockers []Blocker // collected on request
}

func (f *Fold) applyTouch(t *tx, in *Intent) {
	switch {
	case !t.undecided() || t.Phase == PhaseSealed:
		// A call under this grant would be in no footprint: it would neither be checked nor undone.
		f.refuse(in, t, finding{code: CodeLateEffect, detail: "the footprint is sealed", moved: Writer{Seq: t.Decision,
			Tx: t.ID}})
		return
	case t.Waiting != nil:
		// A transaction waits for one thing at a time: a second touch would be granted apart from the first, piece by piece
		// (holes 1b).
		f.refuse(in, t, finding{code: CodeTouchWaiting, detail: "another touch of the transaction still waits"})
		return
	}
	wants, why := f.stillWanted(t, in.Touch.Wants)
	if why.found() {
		f.refuse(in, t, why)
		return
	}
	kept := t.Epoch
	epochs := f.lastEpoch
	f.takeEpoch(t)
	j := f.judgeTouch(t, wants, true)
	// The intent alone is refused, so the epoch is given back: kept, it would make an untouched transaction older.
	if why := f.refusesTouch(t, wants, j); why.found() {
		t.Epoch, f.lastEpoch = kept, epochs
		f.refuse(in, t, why)
		return
	}
	if j.refused.found() && !t.Free {
		// Older than who was granted the scope, and optimistic: it may neither wait for a younger one (holes 1c) nor run
		// beside it (1a).
		f.abort(t, j.refused)
		t.answer(in, t.Decision)
		return
	}
	t.Waiting = &WaitingState{N: in.N, Wants: wants, Due: f.time + orDefault(in.Touch.BoundTicks, f.rules.BoundTicks)}
	if wantsWriting(in.Touch.Wants) { // also when all of it is held: a call runs under it all the same
		t.GrantedNs = append(t.GrantedNs, in.N)
	}
	t.answer(in, 0)
	f.account(t)
	if len(j.wounds) == 0 && !j.blocked || t.Free {
		f.grant(t, would(j))
		return
	}
	f.enqueueTouch(t, j.wounds)
}

// enqueueTouch makes a touch wait: it claims what it asks for, and those younger ones in its way are wounded.
func (f *Fold) enqueueTouch(t *tx, wounds []*bound) {
	may := among(f, t.May, len(t.Waiting.Wants))
	for _, w := range t.Waiting.Wants {
		f.asks.add(w.Scope, t.key(uint8(askTouch), uint8(w.Access)), &ask{t, askTouch})
		// All of it is claimed at once, so that no younger one is given a part meanwhile (holes 1b).
		if !may(w) {
			f.hold(t, Hold{w.Scope, Claimed, w.Access})
		}
	}
	// After the claims: what a wounded one lets go must find them.
	f.wound(t, wounds)
	f.wakeTx(t)
}

// stillWanted is what a touch asks for beyond what the transaction holds.
func (f *Fold) stillWanted(t *tx, asked []Want) ([]Want, finding) {
	if len(asked)+len(t.Grants) > int(f.rules.MaxScopes) || len(t.GrantedNs) >= int(f.rules.MaxScopes) {
		// What is granted has to fit into the seal, which lists it; refused now, the agent can still seal what it has.
		return nil, finding{code: CodeLimit, detail: "the footprint has more scopes than the rules allow"}
	}
	if f.open+wantBytes(asked) > f.openBudget() {
		// What waits and what is granted is kept in the state, whose record must fit into one of the broker's.
		return nil, finding{code: CodeLimit,
			detail: "the workspace's open transactions keep as many bytes as its rules allow"}
	}
	var wants []Want
	held := f.holding(t.Grants, len(asked))
	widest := map[Scope]Access{} // what earlier wants of the touch ask for
	for _, w := range asked {
		// Covered by what it has, a write only by a write: a read grant may be shared with others (holes 7d).
		if held(w) {
			continue
		}
		if a, asked := widest[w.Scope]; asked && a >= w.Access {
			continue
		}
		widest[w.Scope] = w.Access
		wants = append(wants, w)
	}
	return wants, finding{}
}

// refusesTouch finds what refuses a touch without ending its transaction.
func (f *Fold) refusesTouch(t *tx, wants []Want, j judgement) finding {
	if why := f.ownTransaction(t, j); why.found() {
		return why
	}
	if t.Group == "" || !wantsWriting(wants) {
		return finding{}
	}
	for _, w := range wants {
		var met *tx
		f.holds.visit(w.Scope, func(_ Scope, b *bound) bool {
			if b.t != t && b.t.sibling(t) && b.t.undecided() && (b.Kind == Granted || b.t.waitsFor(w.Scope)) {
				met = b.t
			}
			return met == nil
		})
		if met != nil {
			// Only one branch of a group commits, so the other would wait for a sibling that waits for the choice; and both
			// calls would run on one scope.
			return finding{code: CodeSibling, scope: w.Scope, detail: "a sibling branch holds or waits for the scope",
				blockers: []Blocker{{Tx: met.ID, Scope: w.Scope, Why: "sibling"}}}
		}
	}
	return finding{}
}

// waitsFor reports whether the transaction has a waiting touch that overlaps a scope.
func (t *tx) waitsFor(s Scope) bool {
	return t.Waiting != nil && slices.ContainsFunc(t.Waiting.Wants, func(w Want) bool { return w.Scope.Overlaps(s) })
}

// ownTransaction: waiting for an open transaction of the same session would be waiting for oneself. One of another
// conversation of the agent is waited for, as a stranger's is.
func (f *Fold) ownTransaction(t *tx, j judgement) finding {
	if t.Free {
		return finding{}
	}
	for _, b := range j.blockers {
		// Who would seal that one waits for this answer: both would last until the wait's bound (holes 20b). Only an open
		// one: a sealed or decided one needs nothing more from its session, but for its settlement.
		if u := f.txs[b.Tx]; u != nil && u != t && u.Phase == PhaseOpen && f.sameSession(t, u) {
			return f.heldBy(t, u, b)
		}
	}
	return finding{}
}

// heldBy names the open transaction of the same session that has what is asked for, and since when.
func (f *Fold) heldBy(t, u *tx, b Blocker) finding {
	why := finding{code: CodeOwnTransaction, scope: b.Scope, blockers: []Blocker{b},
		detail: "it would wait for an open transaction of the same session: seal or abort that one first"}
	if !f.bounded() {
		return why
	}
	why.moved.Tx = u.ID
	switch b.Why {
	case Granted.String():
		why.moved.Seq = f.heldSince(u, b.Scope, Granted)
	case Claimed.String():
		why.moved.Seq = f.heldSince(u, b.Scope, Claimed)
	default:
		why.from = u // its seal is taken back before it is told
		why = f.complete(t, why)
	}
	return why
}

func wantsWriting(wants []Want) bool {
	for _, w := range wants {
		if w.Access == WriteAccess {
			return true
		}
	}
	return false
}

// judgeTouch holds what a touch still wants against what others hold. Only what is granted refuses it, or is wounded;
// of the rest, which many may claim at once, the first in the way is enough unless all are to be named.
func (f *Fold) judgeTouch(t *tx, wants []Want, collect bool) judgement {
	var j judgement
	for _, w := range wants {
		meet := func(_ Scope, b *bound) bool {
			if b.t != t {
				f.meet(t, w, b, &j, collect)
			}
			return true
		}
		if collect {
			f.holds.visit(w.Scope, meet)
			continue
		}
		// Grants first and all of them, since any may refuse; of the claims, which only block, the first is enough.
		f.grants.visit(w.Scope, meet)
		if !j.blocked {
			f.holds.visit(w.Scope, func(at Scope, b *bound) bool {
				return b.Kind == Granted || meet(at, b) && !j.blocked
			})
		}
	}
	return j.done()
}

// meet is one row of the table of order modes: what a wanted scope comes to at one hold of another transaction.
func (f *Fold) meet(t *tx, w Want, b *bound, j *judgement, collect bool) {
	u := b.t
	if w.Access == ReadAccess && b.Access == ReadAccess {
		// Reads are shared.
		return
	}
	younger := u.undecided() && t.olderThan(u)
	switch {
	case younger && b.Kind != Granted:
		// A younger one's claim binds only those younger than itself: else an older one would wait for a younger one
		// (holes 1c).
	case !younger:
		// Waits run one way: for older ones, and for decided ones, which wait for none.
		j.block(b, collect)
	case t.Mode == Optimistic:
		// The younger one's calls may have run under its grant: to grant it here too would make two owners (holes 1a), to
		// wait for it could close a circle (1c). Its successor asks for the whole footprint at once (1d).
		j.refuse(u.Epoch, finding{code: CodeConflict, scope: b.Scope, moved: Writer{Tx: u.ID}, met: b,
			detail: "a younger transaction was granted the scope", blockers: []Blocker{blockerOf(b)}})
	default:
		// In ordered and locked the older one's place was promised at its begin, so the younger one gives way.
		j.wound(b)
	}
}

// advanceTouch looks at a waiting touch again.
func (f *Fold) advanceTouch(t *tx) {
	j := f.judgeTouch(t, t.Waiting.Wants, false)
	switch {
	case j.refused.found():
		f.abort(t, j.refused)
	case len(j.wounds) > 0:
		// As at the first look: the younger one gives way, and then its settlement is waited for.
		f.wound(t, j.wounds)
		f.wakeTx(t)
	case !j.blocked:
		f.grant(t, "")
	}
}

// grant gives a waiting touch all that it asks for.
func (f *Fold) grant(t *tx, would Code) {
	w := t.Waiting
	f.unqueueTouch(t)
	f.shareGrants(t, w.Wants)
	for _, x := range w.Wants {
		h := Hold{x.Scope, Granted, x.Access}
		t.Grants = append(t.Grants, h)
		f.hold(t, h)
	}
	f.account(t)
	seq := f.emitTx(t, Outcome{Kind: OutcomeGranted, Intent: f.touchID(t, w.N), Would: would})
	f.noteGrants(t, len(w.Wants), seq)
	t.remember(Answer{IntentTouch, t.Incarnation, w.N, seq})
}

// unqueueTouch ends the waiting of a touch: its asks and its claims, but for what begin has declared.
func (f *Fold) unqueueTouch(t *tx) {
	may := among(f, t.May, len(t.Waiting.Wants))
	for _, w := range t.Waiting.Wants {
		f.asks.remove(w.Scope, t.key(uint8(askTouch), uint8(w.Access)))
		// What begin declared stays claimed until the seal, whether or not this touch was granted.
		if !may(w) {
			f.release(t, Hold{w.Scope, Claimed, w.Access})
		}
	}
	t.Waiting = nil
}

func (f *Fold) touchID(t *tx, n uint32) string { return f.intentID(IntentTouch, t.ID, n) }
