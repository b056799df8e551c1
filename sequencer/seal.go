package sequencer

import "fmt"

// applySeal freezes a footprint and decides it, or makes it wait. The order: what refuses the record and leaves the
// transaction open; what the record alone shows to be wrong; the epoch; what it must not wait for; checks 1 to 3,
// which are made once; and checks 4 to 7 (judgeSeal), which every later step asks again.
func (f *Fold) applySeal(t *tx, in *Intent) {
	s := in.Seal
	footprint := s.hash(&f.scratch)
	if t.Phase != PhaseOpen {
		f.sealAgain(t, in, footprint)
		return
	}
	if t.Waiting != nil {
		// Its grant would come after the seal, and a call could run under it that no footprint lists.
		f.refuse(in, t, finding{code: CodeTouchWaiting, detail: "a touch of the transaction still waits"})
		return
	}
	if why := f.oversize(s); why.found() {
		f.refuse(in, t, why) // refused and not aborted: the agent may write by reference, or less, and seal again
		return
	}
	if why := f.incomplete(t, s); why.found() {
		f.abort(t, why) // a sidecar that lists wrongly does not know what ran: it must undo, and not seal again
		t.answer(in, t.Decision)
		return
	}
	keptEpoch, keptLast := t.Epoch, f.lastEpoch
	f.takeEpoch(t)
	t.Seal, t.Signer, t.scopes, t.opsKnown = s, in.Signer, nil, false
	t.SealLevels = f.rules.Levels
	if t.Levels != nil {
		t.SealLevels = *t.Levels
	}
	f.derive(t)
	asked := f.askAgain(t)
	why := f.derivedTooMuch(t)
	if !why.found() && !t.Free {
		why = f.ownTransaction(t, f.inTheWay(t, asked))
	}
	if why.found() {
		// Only the intent is refused, so nothing of it stays: an epoch kept here would make the next try older than it is.
		t.Epoch, f.lastEpoch = keptEpoch, keptLast
		t.Seal, t.Signer, t.RestsOn, t.Residue, t.Would, t.opsKnown = nil, "", nil, nil, "", false
		f.refuse(in, t, why)
		return
	}
	t.Phase, t.Footprint = PhaseSealed, footprint
	if s.Hook {
		t.VerdictDue = f.time + orDefault(s.VerdictTicks, f.rules.VerdictTicks)
	}
	f.askApproval(t)
	t.answer(in, 0)
	for _, w := range t.May { // the footprint says now what it needs: the rest must not bind younger ones any longer
		f.release(t, Hold{w.Scope, Claimed, w.Access})
	}
	// What was read under a younger one's grant, or would be written over it, is refused before the window is asked:
	// nothing has been written there yet, and it may be undone later (holes 2).
	why = f.enforced(t, asked.refused)
	// Checks 1 to 3. They are made here only: a later look would miss what the window has forgotten meanwhile (holes 5b).
	if !why.found() {
		why = f.enforced(t, f.phantomTool(t))
	}
	if !why.found() {
		why = f.enforced(t, f.staleRead(t))
	}
	if !why.found() {
		why = f.enforced(t, f.versionMismatch(t))
	}
	if why.found() {
		f.abort(t, why)
		return
	}
	if t.Free && len(asked.wounds) > 0 {
		t.Would, asked.wounds = firstCode(t.Would, CodeWaiting), nil // observing wounds none: it only says so
	}
	// While an older one in the queue may still be decided in this step, it goes first: the fixpoint is by epoch.
	if len(asked.wounds) == 0 && (t.Free || f.woken() == 0) && f.tryDecide(t) {
		return
	}
	f.account(t)
	f.enqueueSeal(t) // its claims before the wounds: what these release must not go to a younger one
	f.wound(t, asked.wounds)
	f.wakeTx(t)
}

// sealAgain answers a second seal.
func (f *Fold) sealAgain(t *tx, in *Intent, footprint Hash) {
	// A copy of the seal that was taken is answered with what that one came to; a second footprint cannot be: one of the
	// two was never checked.
	seq := t.answered(IntentSeal).Seq
	if t.Decision != 0 {
		seq = t.Decision
	} else if footprint != t.Footprint {
		f.refuse(in, t, finding{code: CodeLateEffect, detail: "the transaction is sealed with another footprint"})
		return
	}
	t.answer(in, seq)
	f.repeat(seq)
}

// tryDecide commits or aborts a sealed transaction if its time has come.
func (f *Fold) tryDecide(t *tx) bool {
	j := f.judgeSeal(t, false)
	switch {
	case j.refused.found() && !t.Free:
		f.abort(t, j.refused)
	case j.blocked && !t.Free:
		// It waits, with its claims: to commit now would overwrite, or rest on, what an older or decided one may still
		// change.
		return false
	default:
		t.Would = firstCode(t.Would, would(j))
		f.commit(t)
	}
	return true
}

// advanceSeal looks at a waiting sealed transaction again.
func (f *Fold) advanceSeal(t *tx) {
	var why finding
	// Refused by the write of this very step that overtook it. The window is not asked again: holes 5b.
	if t.stale != nil {
		why = *t.stale
	}
	if why.found() {
		f.abort(t, why)
		return
	}
	f.tryDecide(t)
}

// enforced drops a finding that the transaction's levels switch off, and one that it only observes, which it notes.
func (f *Fold) enforced(t *tx, why finding) finding {
	asked := why.level == 0 || t.SealLevels.has(why.level)
	if !why.found() || asked && !t.Free && (why.level == 0 || !t.Observe) {
		return why
	}
	// What is only observed must not refuse anything, and must be told: that is what observing is for.
	if asked {
		t.Would = firstCode(t.Would, why.code)
	}
	return finding{}
}

func firstCode(a, b Code) Code {
	if a != "" {
		return a
	}
	return b
}

// enqueueSeal makes a sealed transaction wait: it claims its gated scopes and shard writes, and is found by what moves
// its reads.
func (f *Fold) enqueueSeal(t *tx) {
	t.queued = true
	for _, r := range t.Seal.Reads {
		f.asks.add(r.Scope, t.key(uint8(askRead), 0), &ask{t, askRead})
	}
	for _, s := range t.writeScopes() {
		f.asks.add(s, t.key(uint8(askWrite), 0), &ask{t, askWrite})
	}
	for _, w := range t.Seal.Shards {
		if w.Expect != nil {
			f.asks.add(w.Scope, t.key(uint8(askExpect), 0), &ask{t, askExpect})
		}
	}
	// Claimed from the seal on: else a younger touch is granted the shard and its live effect is overwritten (holes 1e).
	for _, s := range f.claimedBySeal(t) {
		f.hold(t, Hold{s, Claimed, WriteAccess})
	}
	f.dependOn(t)
}

// dependOn files a sealed transaction under those that it reads from, also under one that is still to come: what the
// index holds must follow from the state alone.
func (f *Fold) dependOn(t *tx) {
	// Without it a seal that waits for a writer would not be looked at when that one is decided.
	for _, id := range t.RestsOn {
		f.deps[id] = append(f.deps[id], t)
	}
}

// dequeueSeal undoes enqueueSeal.
func (f *Fold) dequeueSeal(t *tx) {
	if !t.queued {
		return
	}
	t.queued = false
	for _, r := range t.Seal.Reads {
		f.asks.remove(r.Scope, t.key(uint8(askRead), 0))
		if t.Mode == Ordered {
			f.wakeAt(r.Scope) // its sealed reads bound younger writers
		}
	}
	for _, s := range t.writeScopes() {
		f.asks.remove(s, t.key(uint8(askWrite), 0))
	}
	for _, w := range t.Seal.Shards {
		f.asks.remove(w.Scope, t.key(uint8(askExpect), 0))
	}
	for _, s := range f.claimedBySeal(t) {
		f.release(t, Hold{s, Claimed, WriteAccess})
	}
	for _, id := range t.RestsOn {
		f.forgetDependent(id, t)
	}
}

func (f *Fold) forgetDependent(id TxID, t *tx) {
	kept := f.deps[id][:0]
	for _, d := range f.deps[id] {
		if d != t {
			kept = append(kept, d)
		}
	}
	if len(kept) == 0 {
		delete(f.deps, id)
		return
	}
	f.deps[id] = kept
}

// derivedTooMuch: the writers that a seal rests on are kept while it waits, and are known only now.
func (f *Fold) derivedTooMuch(t *tx) finding {
	if f.open-t.size+f.bytesOf(t) > f.openBudget() {
		// Over the budget a state record could outgrow what the broker takes, which would stop the workspace.
		return finding{code: CodeLimit, detail: "the workspace's open transactions keep as many bytes as its rules allow"}
	}
	return finding{}
}

// oversize holds a footprint against the caps; an intent beyond one is refused and the transaction stays open.
func (f *Fold) oversize(s *Seal) finding {
	limit := func(format string, args ...any) finding {
		return finding{code: CodeLimit, detail: fmt.Sprintf(format, args...)}
	}
	// Each decision repeats the footprint, and each later step may compare it: without the caps one record could make a
	// decision too large to be written, or a step too long (holes 14).
	if n := s.scopes(); n > int(f.rules.MaxScopes) {
		return limit("the footprint has %d scopes; the rules allow %d", n, f.rules.MaxScopes)
	}
	if n := s.bytes(); n > int(f.rules.MaxBytes) {
		return limit("the footprint has %d bytes without contents; the rules allow %d", n, f.rules.MaxBytes)
	}
	if n := s.inline(); n > int(f.rules.MaxInlineTotal) {
		return limit("the inline contents have %d bytes; the rules allow %d: write some by reference", n,
			f.rules.MaxInlineTotal)
	}
	for _, w := range s.Shards {
		if len(w.Content) > int(f.rules.MaxInline) {
			return limit("%s has %d bytes inline; the rules allow %d: write it by reference", w.Scope, len(w.Content),
				f.rules.MaxInline)
		}
		if w.Former != nil && len(w.Former.Content) > int(f.rules.MaxInline) {
			return limit("the former content of %s has %d bytes inline; the rules allow %d: say it by reference", w.Scope,
				len(w.Former.Content), f.rules.MaxInline)
		}
		if w.Ref != nil && w.Ref.Size > int64(f.rules.MaxContent) {
			return limit("%s has %d bytes; the rules allow %d", w.Scope, w.Ref.Size, f.rules.MaxContent)
		}
	}
	// The footprint is kept in the state until its decision; a state record beyond the broker's limit stops the
	// workspace.
	if f.open+s.bytes()+s.inline() > f.openBudget() {
		return limit("the workspace's open transactions keep as many bytes as its rules allow")
	}
	return finding{}
}
