package settle

import (
	"context"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

// Bounds of what a retraction's answer says of calls.
const (
	maxConeLooks   = 64 // members whose calls are looked up
	maxConeEffects = 64 // of one member
)

// Retract asks the log to undo a committed transaction, anybody's, and all that follows from it.
func (s *Settler) Retract(ctx context.Context, id sequencer.TxID, dry bool) (*api.Retraction, error) {
	if seen, ok := s.view.Transaction(id); ok && seen.Retraction.Of != "" {
		return s.retraction(id), nil // it runs, or is done
	}
	cone, err := loop.Do(s.Loop, func() (*topology.Cone, error) { return s.Events.Cone(ctx, s.Workspace, id) })
	if err != nil {
		return nil, api.Problemf(api.CodeLog, "what follows from %s cannot be found out: %v", id, err)
	}
	if cone.Code != "" {
		return nil, api.Problemf(string(cone.Code), "%s cannot be retracted: %s", id, cone.Detail)
	}
	if len(cone.Members) == 0 {
		return s.retractedBefore(ctx, id)
	}
	out := s.coneOf(ctx, cone)
	if dry {
		return out, nil
	}
	if err := s.session.Await(ctx); err != nil {
		return nil, err
	}
	inc := s.now()
	in := &sequencer.Intent{Kind: sequencer.IntentRetract, Tx: id, N: uint32(s.view.At()) + 1, Agent: s.agent,
		Incarnation: inc}
	s.askedToRetract(id)
	o, err := s.session.Ask(ctx, in, func() bool {
		seen, _ := s.view.Transaction(id)
		return seen.Retraction.Of != "" || s.now() != inc
	})
	if err != nil {
		return nil, err
	}
	if o != nil && o.Kind == sequencer.OutcomeRefused {
		return nil, words.NotTaken(o, "%s is not retracted", id)
	}
	if seen, _ := s.view.Transaction(id); o == nil && seen.Retraction.Of == "" {
		return nil, api.Problemf(api.CodeNotReady, "the session ended before the log answered: send it again")
	}
	now := s.retraction(id)
	if out.State, out.Seq = now.State, now.Seq; o != nil {
		out.BlockedBy = words.Blockers(o)
	}
	return out, nil
}

// retractedBefore says how a retraction stands that the view does not remember.
func (s *Settler) retractedBefore(ctx context.Context, id sequencer.TxID) (*api.Retraction, error) {
	out := s.retraction(id)
	c, err := loop.Do(s.Loop, func() (*topology.Closure, error) { return s.Events.Closure(ctx, s.Workspace, id, 1) })
	if err != nil {
		return nil, api.Problemf(api.CodeLog, "how far the retraction of %s is cannot be found out: %v", id, err)
	}
	if c != nil && len(c.Rows) > 0 && c.Rows[0].Status == api.RetractDone {
		out.State = api.RetractDone
	}
	return out, nil
}

// retraction says how a retraction stands, as far as the view shows it.
func (s *Settler) retraction(id sequencer.TxID) *api.Retraction {
	seen, _ := s.view.Transaction(id)
	out := &api.Retraction{Tx: string(id), State: api.RetractRunning, Seq: uint64(seen.Retraction.Seq),
		Through: uint64(s.view.At()), Cone: []api.ConeMember{}}
	if seen.Retraction.Undone {
		out.State = api.RetractDone
	}
	out.BlockedBy = words.Blockers(&sequencer.Outcome{BlockedBy: seen.Retraction.Waits})
	for _, m := range s.view.Cone(seen.Retraction.Of) {
		if len(out.BlockedBy) == 0 && !m.Retraction.Undone { // the most recent one that waits is the next
			out.BlockedBy = words.Blockers(&sequencer.Outcome{BlockedBy: m.Retraction.Waits})
		}
		out.Cone = append(out.Cone, api.ConeMember{Tx: string(m.Tx), Agent: m.Agent, Seq: uint64(m.Decision.Seq)})
	}
	out.Total = len(out.Cone)
	return out
}

// coneOf is a cone with what becomes of its members' calls.
func (s *Settler) coneOf(ctx context.Context, c *topology.Cone) *api.Retraction {
	out := words.Cone(c)
	for i := range c.Members {
		m, one := &c.Members[i], &out.Cone[i]
		if m.Effects && i < maxConeLooks {
			one.Effects, one.MoreEffects = s.fates(ctx, m.Tx)
		} else {
			one.MoreEffects = m.Effects
		}
	}
	return out
}

// fates are what becomes of a transaction's calls when it is retracted. more: not all of them are known here.
func (s *Settler) fates(ctx context.Context, id sequencer.TxID) (out []api.ConeEffect, more bool) {
	events, err := s.Effects(ctx, id)
	if err != nil {
		return nil, true
	}
	effects, err := s.FromLog(id, events)
	if err != nil {
		return nil, true
	}
	for _, p := range effects {
		if len(out) == maxConeEffects {
			return out, true
		}
		one := api.ConeEffect{Index: p.Index, Tool: p.Tool.Name, Class: p.Tool.Class.String(), Fate: fateOf(p)}
		for _, scope := range p.Tool.Scopes {
			one.Scopes = append(one.Scopes, string(scope))
		}
		out = append(out, one)
	}
	for _, ev := range events {
		if ev.Kind == topology.EventTouch {
			out = append(out, api.ConeEffect{Index: behind(effects), Tool: OwnTool,
				Class: sequencer.ClassReversible.String(), Scopes: []string{string(ev.Scope)}, Fate: api.FateUnknown})
		}
	}
	return out, len(out) == 0
}

// fateOf: what ran before the commit can be taken back, what left after it only where a compensation is declared.
func fateOf(p gate.Progress) string {
	if p.Tool.Class.Eager() || p.Tool.Undo {
		return api.FateCompensated
	}
	return api.FateLeft
}
