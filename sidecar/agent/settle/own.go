package settle

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

// OwnTool is what residue calls the acts that an agent did by itself under a touch.
const OwnTool = "touch"

// Told takes what the agent says of what it did under its own touches of a transaction that is to be undone. The first
// that says something counts: the same said again is answered, anything else is refused. Nothing gives way between the
// look at what was said before and the record: nor does the settlement as it goes on without the agent (noWord).
func (s *Settler) Told(id sequencer.TxID, told *sequencer.Settle) error {
	if _, before := s.delivery.OwnOf(id); before == nil {
		if err := s.delivery.Record(journal.RecordOwn, &journal.OwnRecord{Tx: id, Told: told}); err != nil {
			return err
		}
	} else if !sameTold(before, told) {
		return api.Problemf(api.CodeSettlementTold, "what became of the acts in %s was said before, or taken as "+
			"unresolved after %s without a word: it is settled by that; look at the list of residues", id,
			s.limits.SettlementWait)
	}
	if d := s.unsettled[id]; d != nil {
		d.agentUntil = time.Time{}
	}
	return nil
}

func sameTold(a, b *sequencer.Settle) bool {
	return a.NoneElse == b.NoneElse && slices.EqualFunc(a.Effects, b.Effects, func(x, y sequencer.Settled) bool {
		return x.Result == y.Result && slices.Equal(x.Scopes, y.Scopes)
	})
}

// ownSettled is what the agent's own acts add to the settlement of an aborted transaction. wait: the agent has not
// said yet, and may still; after the bound its acts are unresolved.
func (s *Settler) ownSettled(ctx context.Context, d *unsettled, effects []gate.Progress,
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
			Index: e.Index, Tool: gate.Tool{Name: OwnTool, Class: sequencer.ClassReversible, Scopes: e.Scopes}}})
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

// noWord is what a settlement goes by when the agent has said nothing in time: its acts are unresolved. Nil: the
// agent may still say it. The end of the wait is journalled first, so that a later word is refused.
func (s *Settler) noWord(d *unsettled, own []sequencer.Scope, journalled bool) (*sequencer.Settle, error) {
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
func (s *Settler) ownInLog(ctx context.Context, id sequencer.TxID) (own []sequencer.Scope, err error) {
	events, err := s.Effects(ctx, id)
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
