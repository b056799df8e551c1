package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/topology"
)

// ownTool is what residue calls the acts that an agent did by itself under a touch.
const ownTool = "touch"

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

// takeTold notes what the agent says. Nothing gives way between the look at what was said before and the record: nor
// does the settlement as it goes on without the agent (noWord).
func (s *Agent) takeTold(t *tx, told *sequencer.Settle) error {
	own, before := s.delivery.OwnOf(t.id)
	if err := asHandedOver(told, own); err != nil {
		return err
	}
	if err := s.mayTell(t, own, told); err != nil {
		return err
	}
	if before == nil {
		if err := s.delivery.Record(journal.RecordOwn, &journal.OwnRecord{Tx: t.id, Told: told}); err != nil {
			return err
		}
	} else if !sameTold(before, told) {
		return api.Problemf(api.CodeSettlementTold, "what became of the acts in %s was said before, or taken as "+
			"unresolved after %s without a word: it is settled by that; look at the list of residues", t.id,
			s.limits.SettlementWait)
	}
	if d := s.debts[t.id]; d != nil {
		d.agentUntil = time.Time{}
	}
	return nil
}

func sameTold(a, b *sequencer.Settle) bool {
	return a.NoneElse == b.NoneElse && slices.EqualFunc(a.Effects, b.Effects, func(x, y sequencer.Settled) bool {
		return x.Result == y.Result && slices.Equal(x.Scopes, y.Scopes)
	})
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

// ownSettled is what the agent's own acts add to the settlement of an aborted transaction. wait: the agent has not
// said yet, and may still; after the bound nobody knows.
func (s *Agent) ownSettled(ctx context.Context, d *debt, effects []gate.Progress,
	claim gate.Claim) (made gate.Settlement, wait bool, err error) {
	own, told := s.delivery.OwnOf(d.tx)
	journalled := len(own) > 0
	if !journalled && claim == gate.ClaimStranger {
		own, err = s.ownInLog(ctx, d.tx)
	}
	if d.committed && !d.turn || len(own) == 0 || err != nil {
		return gate.Settlement{NoneElse: true}, false, err
	}
	if told == nil {
		if told, err = s.noWord(d, own, journalled); told == nil || err != nil {
			return gate.Settlement{}, err == nil, err
		}
	}
	made.NoneElse = told.NoneElse
	for i, e := range told.Effects {
		e.Index = behind(effects) + uint32(i)
		made.Effects = append(made.Effects, e)
		if e.Result == sequencer.ResultClean {
			continue
		}
		detail := "the agent acted under a touch and said: " + e.Result.String()
		if e.Result == sequencer.ResultUnresolved && len(told.Effects) == 1 && !told.NoneElse {
			detail = "the agent acted, or may have acted, under a touch, and what became of it is not known: look there"
		}
		made.Residue = append(made.Residue, gate.Residue{Result: e.Result, Detail: detail, Effect: gate.Effect{Tx: d.tx,
			Index: e.Index, Tool: gate.Tool{Name: ownTool, Class: sequencer.ClassReversible, Scopes: e.Scopes}}})
	}
	return made, false, nil
}

// behind is the index behind the calls of a transaction: that of the agent's own acts. A plan may have left gaps.
func behind(effects []gate.Progress) (next uint32) {
	for _, p := range effects {
		next = max(next, p.Index+1)
	}
	return next
}

// noWord is what a settlement goes by when the agent has said nothing in time: nobody knows. Nil: it may still say it.
// That it is not waited for any more is in the journal first, so that a word which comes later is refused.
func (s *Agent) noWord(d *debt, own []sequencer.Scope, journalled bool) (*sequencer.Settle, error) {
	if _, told := s.delivery.OwnOf(d.tx); told != nil {
		return told, nil
	}
	now := s.clock.Now()
	if !d.agentAsked {
		d.agentAsked, d.agentUntil = true, now.Add(s.limits.SettlementWait)
	}
	if now.Before(d.agentUntil) {
		return nil, nil
	}
	told := &sequencer.Settle{Effects: []sequencer.Settled{{Scopes: own, Result: sequencer.ResultUnresolved}}}
	if !journalled { // another sidecar's transaction: its agent says nothing here
		return told, nil
	}
	return told, s.delivery.Record(journal.RecordOwn, &journal.OwnRecord{Tx: d.tx, Told: told})
}

// ownInLog is what an agent acted on by itself in a transaction whose journal is not here.
func (s *Agent) ownInLog(ctx context.Context, id sequencer.TxID) (own []sequencer.Scope, err error) {
	events, err := s.effectsInLog(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read what was handed to the agent of %s from the log: %w", id, err)
	}
	for _, ev := range events {
		if ev.Kind == topology.EventTouch {
			own = api.AddScope(own, ev.Scope)
		}
	}
	return own, nil
}

// withOwn adds the agent's own acts to a settlement.
func withOwn(made, own gate.Settlement) gate.Settlement {
	made.Effects = append(made.Effects, own.Effects...)
	made.Residue = append(made.Residue, own.Residue...)
	made.NoneElse = made.NoneElse && own.NoneElse
	return made
}

// ownEffects are the agent's own acts as the footprint names them: one for all scopes that were handed to it, so that
// the commit counts as a write of them.
func (t *tx) ownEffects() []sequencer.Effect {
	if len(t.own) == 0 {
		return nil
	}
	return []sequencer.Effect{{Index: uint32(t.next()), Scopes: slices.Clone(t.own),
		Class: sequencer.ClassReversible, Tool: ownTool, Known: true}}
}
