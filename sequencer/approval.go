package sequencer

import (
	"cmp"
	"slices"
)

// Approvals, since logic 4. A seal may require that a held effect is approved before the transaction commits. It
// then waits, sealed, for a yes on each such effect; a no ends it at once, and so does the bound. A word is about the
// arguments that the approver has seen, and names them by their hash.

// Approval is an approver's word on one effect that needs a yes.
type Approval struct {
	Index uint32 // of the effect
	Yes   bool
	By    string // who said it; empty in the outcome of one that still waits
	Args  Hash   // SHA-256 of the arguments that it is about
}

// approvalBytes is what an effect that needs a yes keeps beyond what any effect does: the hash of its arguments, and
// the word that may come.
const approvalBytes = 32 + 40 + maxNameBytes

// The bounds of Rules.ApprovalTicks.
const (
	defaultApprovalTicks = hourTicks
	maxApprovalTicks     = 365 * dayTicks
)

// approves: the record is an approver's yes or no, and not a hook's.
func (in *Intent) approves() bool {
	return in.Kind == IntentVerdict && in.Verdict != nil && len(in.Verdict.Approvals) > 0
}

func (v *Verdict) readable() bool {
	// A word without a name cannot be traced to an approver.
	return !slices.ContainsFunc(v.Approvals, func(a Approval) bool { return a.By == "" })
}

// badApproval: what an effect says of approval means nothing.
func (e *Effect) badApproval() bool {
	named := e.Args != Hash{}
	return e.Approve != named || e.Approve && !e.Class.Gated()
}

// asksApproval: some effect needs a yes.
func (s *Seal) asksApproval() bool {
	return slices.ContainsFunc(s.Effects, func(e Effect) bool { return e.Approve })
}

// askApproval sets the bound of a seal that needs approvals.
func (f *Fold) askApproval(t *tx) {
	if !t.Seal.asksApproval() {
		return
	}
	t.ApprovalDue = f.time + f.rules.ApprovalTicks
	// People take longer than a transaction may: a deadline before the bound would end what nobody has denied, and say
	// that it may be tried again (holes 27c).
	t.Due = max(t.Due, t.ApprovalDue)
}

// said is where the word on an effect is among those that were said, or has its place.
func (t *tx) said(index uint32) (at int, found bool) {
	return slices.BinarySearchFunc(t.Approvals, index, func(a Approval, i uint32) int { return cmp.Compare(a.Index, i) })
}

// applyApprovals takes words on the held effects of a sealed transaction. They may come through any live sidecar, so
// they have no common count: a copy is known by saying nothing new.
func (f *Fold) applyApprovals(t *tx, in *Intent) {
	if !t.undecided() {
		// It is decided, and its effects have left or never will.
		f.repeat(t.Decision)
		return
	}
	if why := f.unfitApproval(t, in.Verdict); why.found() {
		// Taken whole or not at all; see there.
		f.refuse(in, nil, why)
		return
	}
	f.look(len(in.Verdict.Approvals))
	for _, a := range in.Verdict.Approvals {
		at, found := t.said(a.Index)
		switch {
		case !found:
			t.Approvals = slices.Insert(t.Approvals, at, a)
		case !a.Yes && t.Approvals[at].Yes:
			// Who sees the danger last must still be heard: nothing has left yet (holes 27b).
			t.Approvals[at] = a
		default:
			// The first word counts: of two that race to agree, one did.
			continue
		}
		f.step.heard = true
	}
	if no := slices.IndexFunc(t.Approvals, func(a Approval) bool { return !a.Yes }); no >= 0 {
		// At once, and not when all that it waits for is over: others wait behind its claims.
		a := &t.Approvals[no]
		f.abort(t, finding{code: CodeDenied, scope: firstScope(t.Seal.Effects[a.Index].Scopes),
			detail: a.By + " has denied an effect of it"})
		return
	}
	if f.step.heard {
		f.wakeTx(t)
	}
}

// unfitApproval finds why words are not about what was sealed.
func (f *Fold) unfitApproval(t *tx, v *Verdict) finding {
	if t.Phase == PhaseOpen {
		// What the seal will list is not known: a yes would be to whatever comes.
		return finding{code: CodeNotSealed, detail: "the approval is of a transaction that is not sealed"}
	}
	wrong := func(detail string) finding { return finding{code: CodeWrongFootprint, detail: detail} }
	if named := v.Footprint != (Hash{}); named && v.Footprint != t.Footprint {
		// Another footprint than the one that would commit.
		return wrong("the approval is not on the footprint that was sealed")
	}
	for _, a := range v.Approvals {
		if why := f.nameTooLong(a.By); why.found() {
			return why
		}
		if int64(a.Index) >= int64(len(t.Seal.Effects)) || !t.Seal.Effects[a.Index].Approve {
			// Nobody asked: taken, it would stand in the decision as if it had been needed.
			return wrong("the approval names an effect that needs none")
		}
		if a.Yes && a.Args != t.Seal.Effects[a.Index].Args {
			// Agreed to was another call than the one that would leave (holes 27).
			return wrong("the approval is on other arguments than those that were sealed")
		}
	}
	return finding{}
}

// judgeApproval is the last part of check 6: each effect that needs a yes has one. A no has ended it before.
func (f *Fold) judgeApproval(t *tx, j *judgement, collect bool) {
	if !t.unapproved() {
		return
	}
	// A commit before the yes would release an effect that is not approved (holes 27d).
	j.blocked = true
	if collect {
		j.blockers = append(j.blockers, Blocker{Tx: t.ID, Why: "approval"})
	}
}

// unapproved: an effect of a sealed transaction still needs a word.
func (t *tx) unapproved() bool {
	if t.Phase != PhaseSealed || t.ApprovalDue == 0 {
		return false
	}
	return slices.ContainsFunc(t.Seal.Effects, func(e Effect) bool {
		_, found := t.said(e.Index)
		return e.Approve && !found
	})
}

// approvals is what a waiting transaction's outcome says: each effect that needs a yes, and what was said of it.
func (t *tx) approvals() []Approval {
	if t.Phase != PhaseSealed || t.ApprovalDue == 0 {
		return nil
	}
	var out []Approval
	for i := range t.Seal.Effects {
		e := &t.Seal.Effects[i]
		if !e.Approve {
			continue
		}
		a := Approval{Index: e.Index, Args: e.Args}
		if at, found := t.said(e.Index); found {
			a = t.Approvals[at]
		}
		out = append(out, a)
	}
	return out
}

func putApproval(e *encoder, a Approval) {
	e.num(uint64(a.Index))
	e.flag(a.Yes)
	e.str(a.By)
	e.hash(&a.Args)
}
