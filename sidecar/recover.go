package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// learn finds out how a transaction was decided whose decision this view has not seen.
func (s *session) learn(ctx context.Context, d *debt) error {
	s.mu.Lock()
	known := d.known
	s.mu.Unlock()
	if known {
		return nil
	}
	committed := false
	if seen, ok := s.view.transaction(d.tx); ok && seen.decision != nil {
		committed = seen.decision.Kind == sequencer.OutcomeCommitted
	} else {
		c, err := s.events.Closure(ctx, s.workspace, d.tx, 1)
		if err != nil {
			return fmt.Errorf("find out how %s was decided: %w", d.tx, err)
		}
		if len(c.Rows) == 0 || c.Rows[0].Status != "committed" && c.Rows[0].Status != "aborted" {
			return fmt.Errorf("find out how %s was decided: the tables do not know it yet", d.tx)
		}
		committed = c.Rows[0].Status == "committed"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.committed, d.known = committed, true
	return nil
}

// owed is what is known of a transaction's calls, and the ground on which they are settled here: the incarnation that
// made them, alive; whoever holds its whole journal, whose process is dead; or only the log.
func (s *session) owed(ctx context.Context, d *debt, inc sequencer.Seq) ([]gate.Progress, gate.Claim, error) {
	effects, known, foreign := s.delivery.owed(d.tx)
	if known && !foreign {
		claim := gate.ClaimSuccessor
		if _, issuer, ok := ownerOf(d.tx); ok && issuer == inc {
			claim = gate.ClaimOwn
		}
		return effects, claim, nil
	}
	s.mu.Lock()
	d.stranger = true
	s.mu.Unlock()
	if known {
		return effects, gate.ClaimStranger, nil
	}
	events, err := s.events.Effects(ctx, s.workspace, d.tx)
	if err != nil {
		return nil, gate.ClaimStranger, fmt.Errorf("read what %s did from the log: %w", d.tx, err)
	}
	effects, err = s.fromLog(d.tx, events)
	if err != nil {
		return nil, gate.ClaimStranger, err
	}
	for i := range effects {
		if err := s.delivery.issue(&effects[i]); err != nil {
			return nil, gate.ClaimStranger, err
		}
	}
	return effects, gate.ClaimStranger, nil
}

// owed are a transaction's calls as the journal has them; foreign: they were taken from the log before.
func (d *delivery) owed(id sequencer.TxID) (out []gate.Progress, known, foreign bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out, known = d.ledger.effectsOf(id)
	return out, known, known && d.ledger.txs[id].Foreign
}

// fromLog folds a transaction's events into what is known of its calls. Of two calls with one index the last counts:
// the former never ran.
func (s *session) fromLog(id sequencer.TxID, events []*topology.Event) ([]gate.Progress, error) {
	t := &txRecord{}
	for _, ev := range events {
		x := ev.Effect
		if x == nil || ev.Tx != id {
			continue
		}
		if ev.Kind == topology.EventEffect {
			t.put(&gate.Progress{Effect: s.effectFrom(ev)})
			continue
		}
		at := t.effect(x.Index)
		if at < 0 {
			continue
		}
		m := gate.Mark{Tx: id, Index: x.Index, Step: gate.Step(x.Step), Detail: x.Detail}
		if len(x.Answer) > 0 {
			m.Answer = &gate.Answer{}
			if err := json.Unmarshal(x.Answer, m.Answer); err != nil {
				return nil, fmt.Errorf("read an answer of %s, call %d: %w", id, x.Index, err)
			}
		}
		if t.withdraws(at, m) {
			t.effects = t.effects[:at]
			continue
		}
		t.effects[at].Apply(m)
	}
	out := make([]gate.Progress, 0, len(t.effects))
	for _, p := range t.effects {
		out = append(out, *p)
	}
	return out, nil
}

// effectFrom is a call as its event has it. How it is tried and undone is what this sidecar's own policy says.
func (s *session) effectFrom(ev *topology.Event) gate.Effect {
	x := ev.Effect
	tool := gate.Tool{Name: x.Tool, Retry: gate.Retry{Attempts: 1}}
	if s.tools != nil {
		if found, err := s.tools.Find(x.Tool, x.Args); err == nil {
			tool = found
		}
	}
	tool.Name, tool.Class, tool.Cost, tool.Scopes, tool.May, tool.Pin = x.Tool, x.Class, x.Cost, x.Scopes, x.May, x.Pin
	tool.Keyed = x.Key != ""
	tool.MaxTime = time.Duration(x.MaxTimeMs) * time.Millisecond
	return gate.Effect{Tx: ev.Tx, Incarnation: ev.Incarnation, Index: x.Index, Tool: tool, Key: x.Key, Args: x.Args,
		Traceparent: ev.Traceparent}
}

// mustWait holds a settlement back as long as a call that its former owner made may still land. What it lets go on has
// waited: the gate need not.
func (s *session) mustWait(d *debt, effects []gate.Progress, claim gate.Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if claim != gate.ClaimOwn && !d.waited {
		d.waited = true
		from, takes := now, s.mayTake(effects, claim)
		if claim == gate.ClaimStranger && s.strangersUntil.After(now) {
			from = s.strangersUntil // until then one may begin
		}
		d.notBefore = from.Add(takes)
	}
	if d.notBefore.After(now) {
		return true
	}
	for i := range effects {
		effects[i].Waited = d.tries == 0 // a call of this process that was broken off may be under way, too
	}
	d.tries++
	return false
}

// mayTake is how long calls of a former owner may take that are perhaps under way; s.mu is held.
func (s *session) mayTake(effects []gate.Progress, claim gate.Claim) (longest time.Duration) {
	for _, p := range effects {
		flying := p.Started && p.Answer == nil || p.Undoing && p.UndoDone == nil && !p.UndoLost
		if claim != gate.ClaimStranger && (!flying || !s.isFormer(p.Incarnation)) {
			continue
		}
		longest = max(longest, p.Tool.MaxTime)
		if !p.Tool.Undo || s.tools == nil {
			continue
		}
		answer := gate.Answer{}
		if p.Answer != nil {
			answer = *p.Answer
		}
		if c, err := s.tools.Undo(p.Effect, answer); err == nil {
			if undo, err := s.tools.Find(c.Tool, c.Args); err == nil {
				longest = max(longest, undo.MaxTime)
			}
		}
	}
	return longest
}

// isFormer reports whether an incarnation is one of a process before this one; s.mu is held.
func (s *session) isFormer(inc sequencer.Seq) bool { return inc < s.first }

// cannot refuses to settle calls that only a policy knows how to settle.
func (s *session) cannot(effects []gate.Progress, did bool) error {
	if did && s.engine == nil {
		return fmt.Errorf("%d calls wait for a policy file: start the sidecar with one", len(effects))
	}
	return nil
}

func (s *session) stopped() bool { return s.tasks.ctx.Err() != nil }

// claimJoined takes over what the join has made this sidecar's; s.mu is held. The join lists it.
func (s *session) claimJoined(o *sequencer.Outcome) {
	for _, id := range o.RestsOn {
		s.owe(id, o.Seq, true, true)
	}
	for _, id := range o.Residue {
		s.owe(id, o.Seq, false, true)
	}
}
