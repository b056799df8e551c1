package sequencer

import "slices"

// tx is a transaction that the fold remembers, with what is derived from its state.
type tx struct {
	TxState
	room [2]Answer // of Answers, while it has no more
	size int       // bytes accounted for it in Fold.open. Invariant: zero once it is settled
	// A write of this step overtook a read or an expected version. Invariant: nil between steps while it waits, for the
	// same step aborts it (overtake wakes it, advanceSeal ends it). A later look at the window could miss the write:
	// holes 5b.
	stale  *finding
	fresh  bool    // it has no outcome yet. Invariant: false between steps
	wake   bool    // it is in the step's queue. Invariant: false between steps
	late   bool    // it is among the late ones of what is retained
	queued bool    // between steps: it is sealed. Invariant: set exactly while its asks and claims are in the indexes
	scopes []Scope // of a sealed one, what writeScopes found. Invariant: its grants do not change while it is sealed
	// ops are what deltas found. Invariant: of the seal, or where there is none of the past.
	ops      map[Scope]Op
	opsKnown bool
	// added and ended are net hold changes since its last outcome. Invariant: empty between steps: what views know of
	// holds is what outcomes carried (Fold.finish panics otherwise).
	added, ended holdList
}

// bound is one entry of the index of holds.
// Invariant: an undecided transaction has Granted and Claimed ones, a decided one Granted for writing and Held, a
// member of a cone what it wrote as Granted until its turn is settled, and any other final one none.
type bound struct {
	t *tx
	Hold
}

// askKind says why a waiting transaction looks at a scope.
type askKind uint8

const (
	askTouch askKind = iota
	askRead
	askWrite
	askExpect
)

// ask is one entry of the index of asks.
// Invariant: only a transaction that waits has any. What moves at a scope finds here all that it may have to wake.
type ask struct {
	t    *tx
	kind askKind
}

func (t *tx) undecided() bool { return t.Phase == PhaseOpen || t.Phase == PhaseSealed }

func (t *tx) final() bool {
	return t.Phase == PhaseFinalCommitted || t.Phase == PhaseFinalAborted || t.Phase == PhaseRetracted
}

// settledOnce: its own settlement is done, whether or not a retraction has brought it back.
func (t *tx) settledOnce() bool { return t.final() || t.Phase == PhaseRetracting }

func (t *tx) aborted() bool { return t.Phase == PhaseAborted || t.Phase == PhaseFinalAborted }

// waits: a decision or a grant may come in a later step.
func (t *tx) waits() bool { return t.Phase == PhaseSealed || t.Phase == PhaseOpen && t.Waiting != nil }

// olderThan compares ages; a transaction without an epoch is younger than any that has one.
func (t *tx) olderThan(u *tx) bool {
	if t.Epoch == 0 || u.Epoch == 0 {
		return t.Epoch != 0
	}
	return t.Epoch < u.Epoch
}

// sameSession: who works on one of them cannot end the other while it waits. An agent's conversations do not wait for
// each other outside the log, so each is a session of its own; under logic 1 and 2 all of them are the default one.
func (f *Fold) sameSession(t, u *tx) bool {
	return t.Incarnation == u.Incarnation && t.Session == u.Session || t.Group != "" && t.Group == u.Group
}

func (t *tx) sibling(u *tx) bool { return t.Group != "" && t.Group == u.Group }

// answered returns what the transaction's latest intent of a kind was answered with; the zero answer: there was none.
func (t *tx) answered(kind IntentKind) Answer {
	for _, a := range t.Answers {
		if a.Kind == kind {
			return a
		}
	}
	return Answer{}
}

// duplicate: the intent was applied before.
func (a Answer) duplicate(in *Intent) bool { return a.Incarnation == in.Incarnation && in.N <= a.N }

// answer remembers what an intent was answered with.
func (t *tx) answer(in *Intent, seq Seq) { t.remember(Answer{in.Kind, in.Incarnation, in.N, seq}) }

// remember replaces the answer to the latest intent of its kind. One that waited while a later one was refused is
// answered after it: the greatest number stays, so that the later one's duplicate is known.
func (t *tx) remember(a Answer) {
	at, found := slices.BinarySearchFunc(t.Answers, a.Kind, func(a Answer, k IntentKind) int {
		return int(a.Kind) - int(k)
	})
	if !found {
		t.Answers = slices.Insert(t.Answers, at, a)
	}
	if last := t.Answers[at]; last.Incarnation != a.Incarnation || last.N <= a.N {
		t.Answers[at] = a
	}
}

// grantedForWriting: something may have run that a compensation has to undo.
func (t *tx) grantedForWriting() bool {
	return slices.ContainsFunc(t.Grants, func(g Hold) bool { return g.Access == WriteAccess })
}

// key is unique per transaction, kind and access in the indexes.
func (t *tx) key(kind, access uint8) uint64 { return t.Order<<4 | uint64(kind)<<1 | uint64(access) }

// hold enters a hold into the index and notes it for the next outcome.
func (f *Fold) hold(t *tx, h Hold) {
	b := &bound{t, h}
	f.holds.add(h.Scope, t.key(uint8(h.Kind), uint8(h.Access)), b)
	if h.Kind == Granted {
		f.grants.add(h.Scope, t.key(uint8(h.Kind), uint8(h.Access)), b)
		f.wakeAt(h.Scope)
	}
	if !t.ended.drop(h) {
		t.added.add(h)
	}
	f.step.touched = append(f.step.touched, t)
}

// release takes a hold out of the index, notes it and wakes who may have waited for it.
func (f *Fold) release(t *tx, h Hold) {
	if !f.holds.remove(h.Scope, t.key(uint8(h.Kind), uint8(h.Access))) {
		return
	}
	if h.Kind == Granted {
		f.grants.remove(h.Scope, t.key(uint8(h.Kind), uint8(h.Access)))
	}
	if !t.added.drop(h) {
		t.ended.add(h)
	}
	f.step.touched = append(f.step.touched, t)
	f.wakeAt(h.Scope)
}

// epochFor gives a transaction the next epoch, if it has none.
func (f *Fold) takeEpoch(t *tx) {
	if t.Epoch == 0 {
		f.lastEpoch++
		t.Epoch = f.lastEpoch
	}
}

// account brings the bytes kept for a transaction up to date.
func (f *Fold) account(t *tx) {
	f.open -= t.size
	t.size = 0
	if !t.settledOnce() {
		t.size = f.bytesOf(t)
	}
	f.open += t.size
}

// bytesOf estimates what a transaction that is not settled adds to a state record.
func (f *Fold) bytesOf(t *tx) int {
	n := t.bytes()
	if f.bounded() {
		n += len(t.Group) + len(t.VerdictWhy) + len(t.Retraction) + len(t.Session)
		n += scopeBytes(t.Shared) + scopeBytes(t.Sealed)
		n += 6 * len(t.Grants) // of Since
	}
	n += len(t.Signer) // empty before logic 5
	return n
}

// bytes is what of it the first logics count.
func (t *tx) bytes() int {
	n := 256 + len(t.ID) + len(t.Agent) + len(t.Group)
	for _, h := range t.Grants {
		n += 8 + len(h.Scope)
	}
	for _, s := range t.Gated {
		n += 8 + len(s)
	}
	n += 8*len(t.GrantedNs) + wantBytes(t.May)
	if t.Waiting != nil {
		n += wantBytes(t.Waiting.Wants)
	}
	for _, id := range t.RestsOn {
		n += 4 + len(id)
	}
	for _, id := range t.Residue {
		n += 4 + len(id)
	}
	if t.Seal != nil {
		n += t.Seal.bytes() + t.Seal.inline()
	}
	return n + t.Past.bytes()
}

func wantBytes(wants []Want) int {
	n := 0
	for _, w := range wants {
		n += 8 + len(w.Scope)
	}
	return n
}
