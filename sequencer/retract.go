package sequencer

import (
	"cmp"
	"fmt"
	"slices"
)

// maxCone bounds the members of one retraction: each makes outcomes of one step.
const maxCone = 256

// noRetraction is what logic 1 answers, word for word: it is in the chains of old logs.
const noRetraction = "this version does not retract"

// retraction is one that was accepted: it is queued until it starts, and runs until its cone is undone.
type retraction struct {
	RetractionState
	size int           // bytes accounted for it in Fold.undoing
	in   map[TxID]bool // the members, once they were asked for
	done int           // the first ones that had their turn. Invariant: none of them gets another
}

func (r *retraction) running() bool { return len(r.Cone) > 0 }

// has reports whether a transaction is in the cone of a running retraction.
func (r *retraction) has(id TxID) bool {
	if r.in == nil {
		r.in = make(map[TxID]bool, len(r.Cone))
		for _, id := range r.Cone {
			r.in[id] = true
		}
	}
	return r.in[id]
}

func (r *retraction) clone() RetractionState {
	s := r.RetractionState
	s.Ground = slices.Clone(s.Ground)
	return s
}

func (r *retraction) scope(s Scope) *ConeScope {
	i, found := slices.BinarySearchFunc(r.Ground, s, func(g ConeScope, s Scope) int { return cmp.Compare(g.Scope, s) })
	if !found {
		return nil
	}
	return &r.Ground[i]
}

// accountRetraction brings the bytes kept for a retraction up to date.
func (f *Fold) accountRetraction(r *retraction) {
	f.undoing -= r.size
	r.size = 32 + len(r.Tx)
	if r.Named != nil {
		r.size += 16 + len(r.Named.Tx) + len(r.Named.Scope)
	}
	for _, id := range r.Cone {
		r.size += 4 + len(id)
	}
	for _, g := range r.Ground {
		r.size += 16 + len(g.Scope) + len(g.Writer.Tx)
		if g.Shard != nil {
			r.size += g.Shard.bytes()
		}
	}
	f.undoing += r.size
}

// applyRetract accepts a retraction, which starts in this step or later.
func (f *Fold) applyRetract(t *tx, in *Intent) {
	q := f.queuedRetraction(t.ID)
	switch {
	case !f.retracts():
		// Word for word what logic 1 answers, which does not keep what a retraction needs.
		f.refuse(in, t, finding{code: CodeUnknownIntent, detail: noRetraction})
	case t.undecided() || t.aborted():
		// An undecided one is aborted by its own sidecar; an aborted one is undone already, or by its settlement.
		f.refuse(in, t, finding{code: CodeNotCommitted, detail: "the transaction is not committed"})
	case t.Phase == PhaseRetracted:
		// Done: a second compensation would put an older value over what was written since.
		t.answer(in, t.Past.Undone)
		f.repeat(t.Past.Undone)
	case t.Retraction != "":
		// In a cone already, so its turn comes with that one.
		q = f.retractions[0]
		fallthrough
	case q != nil:
		t.answer(in, q.Seq)
		f.repeat(q.Seq)
	case t.Past == nil || t.Decision <= f.horizon:
		// Who rests on it is forgotten, so its cone cannot be told: a part of it would be undone and the rest not.
		f.refuse(in, t, f.notKept(t))
	case f.retractRefused().found():
		// See there: holes 16.
		f.refuse(in, t, f.retractRefused())
	case len(f.coneOf(t).members) > maxCone:
		// All members enter in one step, each with an outcome: more would not fit into what one step may decide.
		f.refuse(in, t, f.coneTooLarge())
	default:
		f.acceptRetraction(t, in)
	}
}

// notKept: what a retraction would need of the transaction is not remembered.
func (f *Fold) notKept(t *tx) finding {
	why := finding{code: CodeTooOld, detail: "the transaction was decided before the undo horizon"}
	if slices.ContainsFunc(f.tombs, func(b Tombstone) bool { return b.Tx == t.ID }) {
		why.detail = "the transaction took shards away, and what they held is not kept"
	}
	return why
}

func (f *Fold) coneTooLarge() finding {
	return finding{code: CodeLimit, detail: fmt.Sprintf("more than %d transactions follow from this one", maxCone)}
}

func (f *Fold) acceptRetraction(t *tx, in *Intent) {
	t.answer(in, 0)
	r := &retraction{RetractionState: RetractionState{Tx: t.ID}}
	running := len(f.retractions) > 0 && f.retractions[0].running()
	f.retractions = append(f.retractions, r)
	f.accountRetraction(r)
	if t.final() && !running {
		return // it starts in this step
	}
	o := Outcome{Kind: OutcomeRetracting, Retraction: t.ID}
	// Its release or compensation is under way: undone now, that would land behind the compensation (holes 8b).
	if !t.final() {
		o.BlockedBy = append(o.BlockedBy, Blocker{Tx: t.ID, Why: t.why("settlement")})
	}
	if running {
		o.BlockedBy = append(o.BlockedBy, Blocker{Tx: f.retractions[0].Tx, Why: "retraction"})
	}
	r.Seq = f.emitTx(t, o)
	t.answer(in, r.Seq)
}

// queuedRetraction returns the accepted retraction of a transaction that waits to be started, or nil. One that runs is
// found by its members: the record of the transaction that it is named after may be forgotten before its end.
func (f *Fold) queuedRetraction(id TxID) *retraction {
	for _, r := range f.retractions {
		if r.Tx == id && !r.running() {
			return r
		}
	}
	return nil
}

// advanceRetractions gives turns, and starts the next retraction when none runs.
func (f *Fold) advanceRetractions() {
	for len(f.retractions) > 0 {
		if r := f.retractions[0]; r.running() {
			// One cone at a time: two could each put back what the other takes away.
			if !f.advanceCone(r) {
				return
			}
			f.dropRetraction(r)
			continue
		}
		i := slices.IndexFunc(f.retractions, func(r *retraction) bool { return f.txs[r.Tx].final() })
		// None of the queued ones is settled yet; each is held until it is.
		if i < 0 {
			return
		}
		f.startRetraction(f.retractions[i])
	}
}

func (f *Fold) dropRetraction(r *retraction) {
	f.undoing -= r.size
	f.retractions = slices.DeleteFunc(f.retractions, func(q *retraction) bool { return q == r })
}

// startRetraction takes the cone: its members count again as decided and not final, and what undecided transactions
// would lose with it is refused in this step.
func (f *Fold) startRetraction(r *retraction) {
	root := f.txs[r.Tx]
	c := f.coneOf(root)
	if len(c.members) > maxCone { // it has grown while it was queued
		// Refused now though it was accepted: while it waited others have read or overwritten what it is to take back.
		f.refuseRetraction(r, f.coneTooLarge())
		return
	}
	r.Ground = c.ground(f)
	for _, m := range c.members {
		r.Cone = append(r.Cone, m.ID)
	}
	f.retractions = slices.DeleteFunc(f.retractions, func(q *retraction) bool {
		if _, in := c.why[f.txs[q.Tx]]; !in {
			return false
		}
		if q != r {
			f.undoing -= q.size // it is undone with this one
		}
		return true
	})
	f.retractions = slices.Insert(f.retractions, 0, r)
	f.accountRetraction(r)
	for _, m := range c.members {
		f.enterCone(m, r)
	}
	seq := f.emitTx(root, Outcome{Kind: OutcomeRetracting, Intent: f.retractID(root), Agent: root.Agent,
		Incarnation: root.Owner, Retraction: r.Tx, Cone: r.Cone})
	if r.Seq == 0 {
		r.Seq = seq
	}
	a := root.answered(IntentRetract)
	root.remember(Answer{IntentRetract, a.Incarnation, a.N, r.Seq})
	for _, m := range c.members {
		if m != root {
			f.emitTx(m, Outcome{Kind: OutcomeRetracting, Agent: m.Agent, Incarnation: m.Owner, Retraction: r.Tx})
		}
	}
	// After all members hold their scopes: one that is let in later would have its live effect compensated over
	// (holes 7b).
	f.refuseUnder(c)
}

func (f *Fold) retractID(t *tx) string {
	return f.intentID(IntentRetract, t.ID, t.answered(IntentRetract).N)
}

// enterCone brings a member back: it holds what it wrote, and the live sidecar of its agent owns its compensation.
func (f *Fold) enterCone(m *tx, r *retraction) {
	m.Retraction = r.Tx
	f.enterUndone(m)
	if m.final() {
		m.Phase = PhaseRetracting
	}
	if f.sidecars.live(m.Owner) == nil {
		// An orphan is adopted; kept, the name of an ended incarnation would be an owner that never comes.
		m.Owner = 0
		if sc := f.sidecars.ofAgent(m.Agent); sc != nil {
			m.Owner = sc.Incarnation
		}
	}
	f.holdWritten(m, nil)
	f.account(m)
}

// holdWritten holds for a member of a cone what it wrote, against everybody; but for what it holds already.
func (f *Fold) holdWritten(m *tx, held []Hold) {
	holds := f.writtenHolds(m)
	already := among(f, held, len(holds))
	for _, h := range holds {
		if !already(h) {
			f.hold(m, h)
		}
	}
}

// writtenHolds are the holds that a member of a cone has beyond those it is not settled without.
func (f *Fold) writtenHolds(t *tx) []Hold {
	var out []Hold
	granted := among(f, t.Grants, len(t.Past.Writes))
	for _, w := range t.Past.Writes {
		if h := (Hold{w.Scope, Granted, WriteAccess}); !granted(h) {
			out = append(out, h)
		}
	}
	return out
}

// refuseUnder aborts the undecided transactions that hold, claim or wait for what the cone wrote, at every level, and
// those that read from it.
func (f *Fold) refuseUnder(c *cone) {
	open := f.inOrder((*tx).undecided)
	slices.SortStableFunc(open, func(a, b *tx) int { return cmp.Compare(a.Epoch, b.Epoch) })
	for _, t := range open {
		why := f.bindsUnder(t, c)
		if !why.found() && t.Phase == PhaseSealed {
			why = f.readUnder(t, c)
		}
		if why = f.enforced(t, why); why.found() {
			// It cannot wait: the turn waits for what it holds, and it would wait for the turn.
			f.abort(t, why)
		}
	}
}

// bindsUnder finds the scope of a cone that a transaction holds, claims or waits for.
func (f *Fold) bindsUnder(t *tx, c *cone) (why finding) {
	for _, h := range f.boundBy(t) {
		c.written.visit(h, func(at Scope, m *tx) bool {
			if f.mergesUnder(t, h, m, at) {
				// It is right before the member's delta is taken out and after.
				return true
			}
			if !why.found() || m.Decision > why.moved.Seq {
				why = finding{code: CodeCascade, scope: h, moved: Writer{Seq: m.Decision, Tx: m.ID},
					detail: "a retraction takes back what was written at a scope that it holds, claims or waits for"}
			}
			return true
		})
		if why.found() {
			break
		}
	}
	return why
}

// boundBy are the scopes that an undecided transaction holds, claims or waits for, sorted.
func (f *Fold) boundBy(t *tx) []Scope {
	var out []Scope
	for _, g := range t.Grants {
		out = append(out, g.Scope)
	}
	wants := t.May
	if t.Phase == PhaseSealed {
		wants = nil
		out = append(out, f.claimedBySeal(t)...)
	}
	for _, w := range wants {
		out = append(out, w.Scope)
	}
	if t.Waiting != nil {
		for _, w := range t.Waiting.Wants {
			out = append(out, w.Scope)
		}
	}
	slices.Sort(out)
	return out
}

// readUnder finds the member of a cone, the most recent one, that a sealed transaction has read from.
func (f *Fold) readUnder(t *tx, c *cone) finding {
	var last *tx
	met := func(m *tx) {
		if last == nil || m.Decision > last.Decision {
			last = m
		}
	}
	for _, id := range t.RestsOn {
		if m := c.byID[id]; m != nil {
			met(m)
		}
	}
	for _, r := range t.Seal.Reads {
		c.written.visit(r.Scope, func(at Scope, m *tx) bool {
			if m.shownAt(r.View) && !f.buried(m, at, r.View) {
				met(m)
			}
			return true
		})
	}
	f.look(len(t.RestsOn) + len(t.Seal.Reads))
	if last == nil {
		return finding{}
	}
	return finding{code: CodeCascade, moved: Writer{Seq: last.Decision, Tx: last.ID}, level: A3, from: last,
		detail: "it read from a transaction that is retracted"}
}

// refuseRetraction gives up an accepted retraction that has not started.
func (f *Fold) refuseRetraction(r *retraction, why finding) {
	t := f.txs[r.Tx]
	f.dropRetraction(r)
	seq := f.emitTx(t, Outcome{Kind: OutcomeRefused, Intent: f.retractID(t), Code: why.code, Detail: why.detail})
	a := t.answered(IntentRetract)
	t.remember(Answer{IntentRetract, a.Incarnation, a.N, seq})
}

// giveUpRetraction refuses the first queued retraction that keeps more of the past than the rules allow.
func (f *Fold) giveUpRetraction() bool {
	for _, r := range f.retractions {
		// A queued one keeps pasts above the horizon; one that runs has all it needs in its cone.
		if !r.running() && f.txs[r.Tx].Decision <= f.horizon {
			f.refuseRetraction(r, finding{code: CodeTooOld,
				detail: "the retraction has waited while the workspace's past grew to what its rules allow"})
			return true
		}
	}
	return false
}

// restoreRetractions files retractions and contents as a state has them.
func (f *Fold) restoreRetractions(st *State) {
	for _, s := range st.Retractions {
		r := &retraction{RetractionState: s}
		r.Ground = slices.Clone(s.Ground)
		f.retractions = append(f.retractions, r)
		f.accountRetraction(r)
	}
	f.shards.forgotten = st.Unversioned
	for _, v := range st.Versions {
		f.shards.put(v)
	}
	for _, b := range st.Tombs {
		f.tombs = append(f.tombs, b)
		f.tombBytes += b.bytes()
	}
}
