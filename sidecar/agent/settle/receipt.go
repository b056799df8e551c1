package settle

import (
	"context"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
)

// Standing is what a call's state depends on beside its own marks.
type Standing struct {
	State string // of the transaction
	Over  bool   // the transaction was settled: nothing of it is tried any more, but a compensation
	Clean bool   // its release left no residue, so each held call has left, whatever is not heard of it here
	Back  bool   // its retraction is over: what has left may be undone
	Idle  string // committed and not over: why this sidecar does not release; empty: it does

	Unapproved []uint32 // calls that are neither approved nor denied yet
}

// Receipt says how a call stands in its transaction.
func Receipt(p gate.Progress, st Standing) *api.Receipt {
	index := p.Index
	out := &api.Receipt{Tx: string(p.Tx), Index: &index, Tool: p.Tool.Name, Class: p.Tool.Class.String(), Key: p.Key}
	for _, scope := range p.Tool.Scopes {
		out.Scopes = append(out.Scopes, string(scope))
	}
	if p.Tool.Class.Gated() {
		out.State, out.Note = heldState(p, st)
	} else {
		out.State = ranState(p, st)
	}
	switch {
	case p.Answer != nil:
		out.Result, out.Detail = p.Answer.Result, p.Answer.Detail
	case out.State == api.EffectNotSent:
		out.Detail = p.Unsent
	case out.State == api.EffectUnknown:
		out.Detail = p.Why
		out.Note = "it may have happened: do not call it again before its sink was looked at"
	}
	return out
}

// ranState is the state of a call that runs before the commit.
func ranState(p gate.Progress, st Standing) string {
	switch {
	case p.UndoLost: // refused, and its answer is kept
		return api.EffectUndoLost
	case p.UndoDone != nil:
		return api.EffectUndone
	case p.Undoing:
		return api.EffectUndoing
	case p.GivenUp:
		return api.EffectUnknown
	case p.Answer != nil && (p.Answer.Refused || p.Answer.Absent):
		return api.EffectFailed
	case p.Answer != nil:
		return api.EffectDone
	case st.Over: // it was settled elsewhere, or is forgotten here
		return api.EffectUnknown
	case p.Started:
		return api.EffectRunning
	}
	return api.EffectIssued
}

// heldState is the state of a call that waits for the commit, with what a model should be told of it. It is released
// when its sink has said so, and not sent when its owner knows so; what neither is known of is unknown.
func heldState(p gate.Progress, st Standing) (string, string) {
	note := fmt.Sprintf("%s is accepted and is made once the transaction has committed; do not call it again",
		p.Tool.Name)
	switch {
	case slices.Contains(st.Unapproved, p.Index):
		return api.EffectUnapproved, fmt.Sprintf("an approver has to approve %s before the transaction commits; "+
			"do not call it again", p.Tool.Name)
	case p.UndoLost:
		return api.EffectUndoLost, ""
	case p.UndoDone != nil:
		return api.EffectUndone, ""
	case p.Answer != nil && p.Answer.Absent:
		return api.EffectNotSent, ""
	case p.Answer != nil && p.Answer.Refused:
		return api.EffectFailed, ""
	case p.Answer != nil:
		return api.EffectReleased, ""
	case p.GivenUp:
		return api.EffectUnknown, ""
	case st.State == api.StateAborted:
		return api.EffectDropped, "the transaction was aborted: the call was never made"
	case st.Over && (st.State == api.StateOpen || st.State == api.StateSealed): // how it was decided was never read
		return api.EffectUnknown, ""
	case st.Over && st.Clean && !st.Back:
		return api.EffectReleased, ""
	case st.Over && st.Clean:
		return api.EffectUnknown, ""
	case st.Over && p.Unsent != "":
		return api.EffectNotSent, "it did not leave, and is not tried again unless an operator does so (hence residue)"
	case st.Over && p.Dropped:
		return api.EffectDropped, "the transaction was retracted: the call was never made"
	case st.Over:
		return api.EffectUnknown, ""
	case st.State == api.StateCommitted && st.Idle == "":
		return api.EffectReleasing, "the transaction is committed: the call is being made"
	case st.State == api.StateCommitted:
		note = fmt.Sprintf("the transaction is committed and the call is still to be made: %s; do not call it again",
			st.Idle)
	}
	if p.Tool.Class == sequencer.ClassBufferable {
		return api.EffectStaged, note
	}
	return api.EffectHeld, note
}

// SinceSettled adds what the log says of a settled transaction's calls: others may have settled it, or have tried
// again by hand what was left.
func (s *Settler) SinceSettled(ctx context.Context, id sequencer.TxID,
	known []gate.Progress) ([]gate.Progress, error) {
	ctx, cancel := s.clock.Within(ctx, view.TableWait)
	defer cancel()
	events, err := s.Effects(ctx, id)
	if err != nil {
		return known, err
	}
	logged, err := s.FromLog(id, events)
	if err != nil {
		return known, err
	}
	all := merge(known, logged)
	for i := range all {
		p := &all[i]
		by, err := madeByHand(p, events)
		if err != nil {
			return known, err
		}
		if by.undone != nil {
			p.UndoDone, p.UndoLost = by.undone, false
		}
	}
	return all, nil
}
