package sidecar

import (
	"fmt"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// receipt says how a call stands in a transaction of a state.
func receipt(p gate.Progress, state string) *api.Receipt {
	index := p.Index
	out := &api.Receipt{Tx: string(p.Tx), Index: &index, Tool: p.Tool.Name, Class: p.Tool.Class.String(), Key: p.Key}
	for _, scope := range p.Tool.Scopes {
		out.Scopes = append(out.Scopes, string(scope))
	}
	if p.Tool.Class.Gated() {
		out.State, out.Note = heldState(p, state)
	} else {
		out.State = ranState(p)
	}
	if p.Answer != nil {
		out.Result, out.Detail = p.Answer.Result, p.Answer.Detail
	}
	if p.GivenUp {
		out.Note = "nobody knows whether it happened: do not call it again before that is looked up"
	}
	return out
}

// ranState is the state of a call that runs before the commit.
func ranState(p gate.Progress) string {
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
	case p.Started:
		return api.EffectRunning
	}
	return api.EffectIssued
}

// heldState is the state of a call that waits for the commit, with what a model should be told of it.
func heldState(p gate.Progress, state string) (string, string) {
	switch {
	case p.UndoLost:
		return api.EffectUndoLost, ""
	case p.UndoDone != nil:
		return api.EffectUndone, ""
	case p.Answer != nil && (p.Answer.Refused || p.Answer.Absent):
		return api.EffectFailed, ""
	case p.Answer != nil:
		return api.EffectReleased, ""
	case p.GivenUp:
		return api.EffectUnknown, ""
	case state == api.StateAborted:
		return api.EffectDropped, "the transaction was aborted: the call was never made"
	case state == api.StateCommitted:
		return api.EffectReleasing, "the transaction is committed: the call is being made"
	}
	note := fmt.Sprintf("%s is accepted and is made once the transaction has committed; do not call it again",
		p.Tool.Name)
	if p.Tool.Class == sequencer.ClassBufferable {
		return api.EffectStaged, note
	}
	return api.EffectHeld, note
}

// receiptNow is a call's receipt as its transaction stands now.
func (s *session) receiptNow(t *tx, p gate.Progress) *api.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := receipt(p, s.decision(t).State)
	out.Overtaken = t.overtaken
	return out
}

// effects lists a transaction's calls as they stand.
func (s *session) effects(t *tx) *api.Effects {
	s.mu.Lock()
	d := s.decision(t)
	var list []gate.Effect
	for _, i := range t.effects {
		list = append(list, i.effect)
	}
	s.mu.Unlock()
	out := &api.Effects{Tx: d.Tx, State: d.State, Final: d.Final, Effects: []api.Receipt{}}
	known, _ := s.delivery.effects(t.id)
	for _, p := range known {
		out.Effects = append(out.Effects, *receipt(p, d.State))
	}
	for _, e := range list {
		if len(known) == 0 { // it is settled: only what was issued is still remembered
			out.Effects = append(out.Effects, *receipt(gate.Progress{Effect: e}, d.State))
		}
	}
	return out
}
