package sequencer

import "slices"

// commit decides a sealed transaction. Its writes enter the window at the decision's seq, and transactions that
// wait with a read of them are refused in this very step.
func (f *Fold) commit(t *tx) {
	s := t.Seal
	f.dequeueSeal(t)
	f.endReadGrants(t)
	t.Gated = s.gated()
	seq := f.seq + 1
	f.keepShards(t, seq)
	o := Outcome{Kind: OutcomeCommitted, Intent: f.sealID(t), Shards: s.Shards, RestsOn: t.RestsOn, Residue: t.Residue,
		Would: t.Would, At: s.At, Final: len(t.Gated) == 0, Approvals: t.Approvals,
		Signer: t.Signer}
	// Before the phase changes: the writers that it covers are looked up as they stand, and who read them is refused in
	// this very step (holes 5b).
	o.Writes = f.write(t, t.committedScopes(), func(Scope, Writer) Writer { return Writer{Seq: seq, Tx: t.ID} })
	t.Decision = seq
	f.shareWrites(t, o.Writes)
	f.keepPast(t, o.Writes)
	f.undecided--
	if o.Final {
		t.Phase = PhaseFinalCommitted
		f.endGrants(t)
	} else {
		t.Phase = PhaseCommitted
		// Not yet in the world: until they are released nothing may run over them.
		for _, g := range t.Gated {
			f.hold(t, Hold{g, Held, WriteAccess})
		}
	}
	f.emitTx(t, o)
	f.decided(t)
}

// abort ends an undecided transaction. What it was granted for writing stays its own until it is settled.
func (f *Fold) abort(t *tx, why finding) {
	why = f.complete(t, why)
	if t.Phase == PhaseOpen {
		for _, w := range t.May {
			f.release(t, Hold{w.Scope, Claimed, w.Access})
		}
		if t.Waiting != nil {
			f.unqueueTouch(t)
		}
	} else {
		f.dequeueSeal(t)
	}
	f.endReadGrants(t)
	f.keepSealed(t)
	t.Code = why.code
	t.Decision = f.seq + 1
	t.Phase = PhaseAborted
	// Nothing ran under it, so there is nothing to settle and nothing to keep others from.
	if !t.grantedForWriting() {
		t.Phase = PhaseFinalAborted
	}
	f.undecided--
	f.emitTx(t, Outcome{Kind: OutcomeAborted, Code: why.code, Detail: why.detail, Scope: why.scope, Moved: why.moved,
		BlockedBy: why.blockers, Would: t.Would, Final: t.final(), By: why.by, Tool: why.tool, MovedAgent: why.agent,
		Approvals: t.Approvals, Signer: f.sealSigner(t)})
	f.decided(t)
}

// decided is what a commit and an abort have in common.
func (f *Fold) decided(t *tx) {
	for i := range t.Answers {
		if t.Answers[i].Kind == IntentSeal {
			t.Answers[i].Seq = t.Decision
		}
	}
	t.Seal, t.scopes, t.opsKnown = nil, nil, false
	t.May, t.RestsOn, t.Residue, t.VerdictWhy = nil, nil, nil, "" // its outcome has what of it is worth knowing
	t.Session = ""                                                // only an open one is refused for it
	t.Approvals, t.ApprovalDue, t.Signer = nil, 0, ""
	f.settled.push(t)
	f.account(t)
	f.wakeDependents(t)
}

func (f *Fold) sealID(t *tx) string { return f.intentID(IntentSeal, t.ID, t.answered(IntentSeal).N) }

// wound aborts the younger transactions that stand in an older one's way.
func (f *Fold) wound(by *tx, younger []*bound) {
	for _, u := range younger {
		// The list was made before: it may name one that has ended meanwhile.
		if u.t.undecided() {
			f.abort(u.t, finding{code: CodeWounded, scope: u.Scope, moved: Writer{Tx: by.ID}, met: u,
				detail: "an older transaction asks for what this one was granted"})
		}
	}
}

// write enters scopes into the window at the next seq and marks the waiting reads and expected versions that they
// overtake. The writer of each scope may depend on who wrote it before.
func (f *Fold) write(t *tx, scopes []Scope, writer func(Scope, Writer) Writer) []Write {
	if len(scopes) == 0 {
		return nil
	}
	out := make([]Write, len(scopes))
	for i, s := range scopes {
		_, seq, former := f.window.latest(s)
		former.Seq = seq
		out[i] = Write{Scope: s, Former: former, Writer: writer(s, former)}
	}
	// Entered only when all are looked up: overlapping scopes of one commit must not cover each other.
	for _, w := range out {
		by := TxID("")
		if f.bounded() && w.Writer.Tx != t.ID {
			by = t.ID
		}
		f.window.put(w.Scope, f.seq+1, w.Writer, by)
		f.overtake(t, w)
	}
	return out
}

// overtake marks the waiting transactions whose reads or expected versions a write has passed.
func (f *Fold) overtake(t *tx, w Write) {
	f.asks.visit(w.Scope, func(at Scope, a *ask) bool {
		u := a.t
		if u == t {
			// A transaction does not make itself stale.
			return true
		}
		if f.bounded() {
			at = w.Scope // what moved, and not what was read
		}
		moved := Writer{Seq: f.seq + 1, Tx: t.ID}
		f.wakeTx(u)
		// The first write that overtook it is the one it is told of.
		if u.stale != nil {
			return true
		}
		switch a.kind {
		case askRead:
			f.makeStale(u, finding{code: CodeStaleRead, level: A1, scope: at, moved: moved})
		case askExpect:
			f.makeStale(u, finding{code: CodeVersionMismatch, scope: at, moved: moved})
		}
		return true
	})
}

// makeStale notes what refuses a transaction in this step, unless its levels switch that off.
func (f *Fold) makeStale(t *tx, why finding) {
	if why = f.enforced(t, why); why.found() {
		t.stale = &why
	}
}

// ownersAnswer: what the owner's settlement or adoption was answered with stays when another sidecar's comes. A
// retraction waits for a second settlement, and a late copy of the first must be known as that; so must a copy of the
// adoption that made it the owner.
func (f *Fold) ownersAnswer(t *tx, in *Intent) bool {
	last := t.answered(in.Kind)
	if last.N == 0 || last.Incarnation == in.Incarnation || in.Incarnation == t.Owner {
		return false
	}
	switch in.Kind {
	case IntentSettle:
		// See above: the later turn needs its own settlement.
		return f.retracts()
	case IntentAdopt:
		return f.bounded() && last.Incarnation == t.Owner
	}
	return false
}

func (f *Fold) applySettle(t *tx, in *Intent) {
	switch {
	case t.undecided():
		// What is settled is what a decision left to do; before it calls may still come.
		f.refuse(in, t, finding{code: CodeNotDecided, detail: "the transaction is not decided"})
	case t.Phase == PhaseRetracting:
		f.settleTurn(t, in)
	case t.final():
		seq := max(t.Decision, t.answered(IntentSettle).Seq, t.Past.undone()) // its settlement, where it had one
		if !f.ownersAnswer(t, in) {
			t.answer(in, seq)
		}
		f.repeat(seq)
	case t.Owner != in.Incarnation:
		// Another one releases or undoes now: two settlements would say two things of one call (holes 8b).
		f.refuse(in, t, finding{code: CodeLeaseExpired, detail: "the settlement has another owner, or none: adopt it first"})
	default:
		s, why := f.owned(t, in.Settle)
		if why.found() {
			// It names what is not its own; see owned.
			f.refuse(in, t, why)
			return
		}
		f.settle(t, in, s)
	}
}

// settle ends a decided transaction. It counts as a write of what it settled, so no transaction commits on a
// value that was compensated away, or that was read before a release that came after.
func (f *Fold) settle(t *tx, in *Intent, s *Settle) {
	seq := f.seq + 1
	o := Outcome{Kind: OutcomeSettled, Final: true}
	unclean := f.unclean(s)
	t.Unclean = t.Unclean || unclean.any
	committed := t.Phase == PhaseCommitted
	o.Writes = f.write(t, t.settledScopes(s), func(scope Scope, former Writer) Writer {
		switch {
		// What stands there is not what the transaction meant to leave, nor what was there before: readers must be able to
		// see it.
		case unclean.at(scope):
			return Writer{Seq: seq, Tx: t.ID, Residue: true}
		case f.sharedAt(t, scope):
			t.Unclean = true
			return Writer{Seq: seq, Tx: t.ID, Residue: true}
		case committed:
			// A release changes the world after the commit, so who read in between read what is not so any more (holes 3a).
			return Writer{Seq: seq, Tx: t.ID}
		}
		return former
	})
	var held []Hold
	if t.Retraction != "" {
		held = f.writtenHolds(t)
	}
	t.Phase = PhaseFinalAborted
	if committed {
		t.Phase = PhaseFinalCommitted
		f.addWrites(t.Past, o.Writes)
	}
	f.endGrants(t)
	for _, g := range t.Gated {
		f.release(t, Hold{g, Held, WriteAccess})
	}
	t.Gated, t.Sealed = nil, nil
	// It keeps its holds: its compensation must not run over what others do there (holes 7b).
	if t.Retraction != "" { // a cone has it: what comes next is its turn
		t.Phase, o.Final = PhaseRetracting, false
		f.undoneWrites(t)
		f.holdWritten(t, held)
	}
	if t.Unclean {
		o.Residue = []TxID{t.ID}
	}
	t.answer(in, f.emitTx(t, o))
	f.settled.retire(t)
	f.account(t)
}

// settledScopes are the scopes that a settlement moves: those of the effects it names, the gated ones of a commit, and
// what an abort was granted unless nothing else ran.
func (t *tx) settledScopes(s *Settle) []Scope {
	out := slices.Clone(t.Gated)
	for _, e := range s.Effects {
		out = append(out, e.Scopes...)
	}
	// A call under a grant may have left no trace but the grant; unless that is ruled out, all of it counts as moved.
	if t.Phase == PhaseAborted && !s.NoneElse {
		for _, g := range t.Grants {
			if g.Access == WriteAccess {
				out = append(out, g.Scope)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// uncleanScopes are where the effects of a settlement could not be made clean.
type uncleanScopes struct {
	any    bool // there is such an effect, with scopes or without
	scopes trie[struct{}]
	f      *Fold
}

func (f *Fold) unclean(s *Settle) *uncleanScopes {
	u := &uncleanScopes{f: f}
	for _, e := range s.Effects {
		if e.Result == ResultClean {
			continue
		}
		u.any = true
		for _, x := range e.Scopes {
			u.scopes.grow(x).scope = x
		}
		f.look(len(e.Scopes))
	}
	return u
}

// at reports whether such an effect was at a scope.
func (u *uncleanScopes) at(s Scope) (found bool) {
	before := u.scopes.visited
	u.scopes.visit(s, func(*trieNode[struct{}]) bool { found = true; return false })
	u.f.look(u.scopes.visited - before)
	return found
}

// endReadGrants ends the shared grants of a transaction that is decided.
func (f *Fold) endReadGrants(t *tx) {
	kept, since := t.Grants[:0], t.Since[:0]
	for i, g := range t.Grants {
		if g.Access == WriteAccess {
			kept = append(kept, g)
			if i < len(t.Since) {
				since = append(since, t.Since[i])
			}
			continue
		}
		// A read needs no compensation, so nothing has to stay away from it.
		f.release(t, g)
	}
	t.Grants, t.Since = kept, since
}

// endGrants ends all grants of a transaction that is final.
func (f *Fold) endGrants(t *tx) {
	for _, g := range t.Grants {
		f.release(t, g)
	}
	t.Grants, t.GrantedNs, t.Since = nil, nil, nil
}
