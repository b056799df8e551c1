package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/sidecar/words"
)

// standing is what a call's state depends on beside its own marks.
type standing struct {
	state string // of the transaction
	over  bool   // the transaction was settled: nothing of it is tried any more, but a compensation
	clean bool   // its release left no residue, so each held call has left, whatever is not heard of it here
	back  bool   // its retraction is over: what has left may be undone
	idle  string // committed and not over: why this sidecar does not release; empty: it does

	unapproved []uint32 // calls that nobody has approved or denied yet
}

// standing is how a transaction stands for its calls.
func (s *Agent) standing(t *tx) standing {
	now := s.decision(t)
	st := standing{state: now.State, over: t.final || t.retraction.Final, clean: t.clean,
		back: t.retraction.Undone, unapproved: unapproved(now)}
	if st.over || st.state != api.StateCommitted {
		return st
	}
	switch d := s.debts[t.id]; {
	case s.engine == nil:
		st.idle = "this sidecar was started without a policy file"
	case !s.live:
		st.idle = "this sidecar has no session"
	case d == nil || d.theirs || d.parked == s.incarnation:
		st.idle = "this sidecar does not settle the transaction now"
	}
	return st
}

// receipt says how a call stands in its transaction.
func receipt(p gate.Progress, st standing) *api.Receipt {
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
func ranState(p gate.Progress, st standing) string {
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
	case st.over: // it was settled elsewhere, or is forgotten here
		return api.EffectUnknown
	case p.Started:
		return api.EffectRunning
	}
	return api.EffectIssued
}

// heldState is the state of a call that waits for the commit, with what a model should be told of it. It is released
// when its sink has said so, and not sent when its owner knows so; what neither is known of is unknown.
func heldState(p gate.Progress, st standing) (string, string) {
	note := fmt.Sprintf("%s is accepted and is made once the transaction has committed; do not call it again",
		p.Tool.Name)
	switch {
	case slices.Contains(st.unapproved, p.Index):
		return api.EffectUnapproved, fmt.Sprintf("somebody has to approve %s before the transaction commits; "+
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
	case st.state == api.StateAborted:
		return api.EffectDropped, "the transaction was aborted: the call was never made"
	case st.over && (st.state == api.StateOpen || st.state == api.StateSealed): // how it was decided was never read
		return api.EffectUnknown, ""
	case st.over && st.clean && !st.back:
		return api.EffectReleased, ""
	case st.over && st.clean:
		return api.EffectUnknown, ""
	case st.over && p.Unsent != "":
		return api.EffectNotSent, "it did not leave, and is not tried again unless an operator does so (hence residue)"
	case st.over && p.Dropped:
		return api.EffectDropped, "the transaction was retracted: the call was never made"
	case st.over:
		return api.EffectUnknown, ""
	case st.state == api.StateCommitted && st.idle == "":
		return api.EffectReleasing, "the transaction is committed: the call is being made"
	case st.state == api.StateCommitted:
		note = fmt.Sprintf("the transaction is committed and the call is still to be made: %s; do not call it again",
			st.idle)
	}
	if p.Tool.Class == sequencer.ClassBufferable {
		return api.EffectStaged, note
	}
	return api.EffectHeld, note
}

// receiptNow is a call's receipt as its transaction stands now.
func (s *Agent) receiptNow(t *tx, p gate.Progress) *api.Receipt {
	out := receipt(p, s.standing(t))
	out.Overtaken, out.Call = t.overtaken, t.callAt(p.Index)
	return out
}

// unreadNote is what is said of a call that the log may know more of.
const unreadNote = "the log cannot be read now, so what was done about it since is not known"

// effects lists a transaction's calls as they stand. The log is read only where it may know more than the journal, and
// for so long only: it reads from the transaction's first event on, or fails to while the log is away.
func (s *Agent) effects(ctx context.Context, t *tx) *api.Effects {
	d, st := s.decision(t), s.standing(t)
	var issued []gate.Progress
	here := t.incarnation >= s.first // all that it called was issued by this process
	for _, i := range t.effects {
		issued = append(issued, gate.Progress{Effect: i.effect})
	}
	known, kept, shared := s.delivery.Calls(t.id)
	if !kept { // the journal has dropped it: only what was issued is still remembered
		known, shared = issued, len(issued) > 0 || !here
	}
	var unread error
	if st.over && (shared || slices.ContainsFunc(known, isLeft)) {
		known, unread = s.sinceSettled(ctx, t.id, known)
		if unread != nil {
			s.log.Warn("what others did about calls cannot be read from the log", "tx", string(t.id), "cause", unread)
		}
	}
	out := &api.Effects{Tx: d.Tx, State: d.State, Final: d.Final, Effects: []api.Receipt{}}
	for _, p := range known {
		r := receipt(p, st)
		r.Call = t.callAt(p.Index)
		if unread != nil && (shared || isLeft(p)) {
			r.Note = fmt.Sprintf("%s: %v", unreadNote, unread)
		}
		out.Effects = append(out.Effects, *r)
	}
	return out
}

// isLeft reports whether a call of a settled transaction may be residue. Any sidecar may have tried it again since,
// and only the log says so.
func isLeft(p gate.Progress) bool {
	return !p.Ran() && (p.Tool.Class.Gated() || p.GivenUp || p.Answer == nil) || p.UndoLost
}

// sinceSettled adds what the log says of a settled transaction's calls: others may have settled it, or have tried
// again by hand what was left.
func (s *Agent) sinceSettled(ctx context.Context, id sequencer.TxID,
	known []gate.Progress) ([]gate.Progress, error) {
	ctx, cancel := s.clock.Within(ctx, view.TableWait)
	defer cancel()
	events, err := s.effectsInLog(ctx, id)
	if err != nil {
		return known, err
	}
	logged, err := s.fromLog(id, events)
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

// callsOf says how the calls of any agent's transaction stand, as far as the log says it.
func (s *Agent) callsOf(ctx context.Context, id sequencer.TxID, st standing) string {
	logged, err := s.sinceSettled(ctx, id, nil)
	if err != nil {
		return "" // how it was decided is worth saying without them
	}
	var list []api.Receipt
	for _, p := range logged {
		list = append(list, *receipt(p, st))
	}
	return words.Calls(list)
}
