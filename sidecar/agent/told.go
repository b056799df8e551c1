package agent

import (
	"context"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// tell takes what an agent says of what it did under its own touches of a transaction that was aborted. The first
// that says something counts: the same said again is answered, anything else is refused.
func (s *Agent) tell(ctx context.Context, t *tx, told *sequencer.Settle) (*api.Decision, error) {
	if err := s.takeTold(t, told); err != nil {
		return nil, err
	}
	s.hurry()
	err := s.untilTx(ctx, t, func() bool {
		return t.final
	})
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	return s.decision(t), nil
}

// takeTold notes what the agent says, without giving way.
func (s *Agent) takeTold(t *tx, told *sequencer.Settle) error {
	own, _ := s.delivery.OwnOf(t.id)
	if err := asHandedOver(told, own); err != nil {
		return err
	}
	if err := s.mayTell(t, own, told); err != nil {
		return err
	}
	return s.settle.Told(t.id, told)
}

// asHandedOver spells the scopes of a settlement as they were handed over: by their bytes, which an older release may
// have written, else in the one spelling of their names.
func asHandedOver(told *sequencer.Settle, own []sequencer.Scope) error {
	for _, e := range told.Effects {
		for i, scope := range e.Scopes {
			if slices.ContainsFunc(own, func(o sequencer.Scope) bool { return o.Covers(scope) }) {
				continue
			}
			var err error
			if e.Scopes[i], err = topology.NormalScope(scope); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayTell says why there is nothing to tell of a transaction.
func (s *Agent) mayTell(t *tx, own []sequencer.Scope, told *sequencer.Settle) error {
	if !t.gone() {
		if !t.decided() {
			return api.Problemf(api.CodeNotAborted, "%s is not aborted: while it can commit, the seal says that the "+
				"outcome of every act is known; abort it first to take them back", t.id)
		}
		if s.decision(t).State == api.StateCommitted && t.retraction.Of == "" {
			return api.Problemf(api.CodeAlreadyCommitted, "%s is committed: what was done under its touches stands", t.id)
		}
	}
	if len(own) == 0 {
		return api.Problemf(api.CodeNothingOwed, "nothing was handed to the agent in %s to act on for writing, or it is "+
			"settled",
			t.id)
	}
	if t.final {
		return api.Problemf(api.CodeNothingOwed, "%s is settled already: look at the list of residues", t.id)
	}
	for _, e := range told.Effects {
		for _, scope := range e.Scopes {
			if !slices.ContainsFunc(own, func(o sequencer.Scope) bool { return o.Covers(scope) }) {
				return api.Problemf(api.CodeBadRequest, "%s was not handed to the agent in %s: name scopes within its own touches",
					scope, t.id)
			}
		}
	}
	return nil
}

// ownEffects are the agent's own acts as the footprint names them: one for all scopes that were handed to it, so that
// the commit counts as a write of them.
func (t *tx) ownEffects() []sequencer.Effect {
	if len(t.own) == 0 {
		return nil
	}
	return []sequencer.Effect{{Index: uint32(t.next()), Scopes: slices.Clone(t.own),
		Class: sequencer.ClassReversible, Tool: settle.OwnTool, Known: true}}
}
