package sidecar

import (
	"context"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

// Bounds of what a retraction's answer says of calls.
const (
	maxConeLooks   = 64 // members whose calls are looked up
	maxConeEffects = 64 // of one member
)

// retracting is where a transaction stands in a retraction.
type retracting struct {
	of     sequencer.TxID // whose cone it is in; empty: none
	seq    sequencer.Seq  // when that was decided
	undone bool
	over   sequencer.Seq       // undone: the decision that said so
	queued bool                // it waits for its start, and may still be given up
	final  bool                // queued: the transaction is final if it is given up
	waits  []sequencer.Blocker // what its start, or its turn, waits for
}

// observe takes over a decision about the transaction; final: nothing of it is pending.
func (r *retracting) observe(o *sequencer.Outcome, final *bool) {
	if o.Final {
		*final, r.final = true, true
	}
	if r.queued && o.Kind == sequencer.OutcomeRefused && gaveUp(o) {
		*final, *r = r.final, retracting{}
		return
	}
	if o.Retraction == "" {
		return
	}
	if r.of == "" {
		r.of, r.seq = o.Retraction, o.Seq
		r.queued, r.final = len(o.BlockedBy) > 0 && asksToRetract(o), *final // else a turn waits, in one that has started
	} else if o.Kind == sequencer.OutcomeRetracting {
		r.queued = false
	}
	r.waits = o.BlockedBy
	switch o.Kind {
	case sequencer.OutcomeSettled:
		r.of, r.undone, r.over = o.Retraction, true, o.Seq
	case sequencer.OutcomeRetracting, sequencer.OutcomeTurn:
		*final = false // until its turn is settled
	}
}

// tell gives what is known of a transaction what is known of its retraction.
func (r *retracting) tell(d *api.Decision) {
	d.Retraction, d.Undone, d.UndoneSeq = string(r.of), r.undone, uint64(r.over)
}

// gaveUp: the log will not start a retraction that it had accepted. Whoever else asked may be refused for himself.
func gaveUp(o *sequencer.Outcome) bool {
	return asksToRetract(o) && (o.Code == sequencer.CodeLimit || o.Code == sequencer.CodeTooOld)
}

// asksToRetract: the decision answers a request to retract its transaction.
func asksToRetract(o *sequencer.Outcome) bool {
	asked := sequencer.Intent{Kind: sequencer.IntentRetract, Tx: o.Tx}
	return strings.HasPrefix(o.Intent, strings.TrimSuffix(asked.ID(), "0"))
}

// revisionOf is the revision that a decision makes of a shard. A retraction restores what stands: its writer is the
// one who counts as it now, and the shard may not be there any more.
func revisionOf(o *sequencer.Outcome, w *sequencer.ShardWrite) revision {
	r := revision{version: o.Seq, at: o.Seq, writer: o.Tx, by: o.Tx, media: w.Type, content: w.Content, ref: w.Ref}
	if o.Retraction == "" {
		return r
	}
	for i := range o.Writes {
		if o.Writes[i].Scope == w.Scope {
			r.writer = o.Writes[i].Writer.Tx
		}
	}
	if w.Absent {
		return revision{at: o.Seq, by: o.Tx}
	}
	r.from, r.lacks = w.Restored, w.Restored != 0
	return r
}

// retract asks the log to undo a committed transaction, anybody's, and all that follows from it.
func (s *session) retract(ctx context.Context, id sequencer.TxID, dry bool) (*api.Retraction, error) {
	if seen, ok := s.view.transaction(id); ok && seen.retraction.of != "" {
		return s.retraction(id), nil // it runs, or is done
	}
	cone, err := s.events.Cone(ctx, s.workspace, id)
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
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	inc := s.now()
	in := &sequencer.Intent{Kind: sequencer.IntentRetract, Tx: id, N: uint32(s.view.at()) + 1, Agent: s.agent,
		Incarnation: inc}
	s.mu.Lock()
	s.askedToRetract(id)
	s.mu.Unlock()
	o, err := s.ask(ctx, in, func() bool {
		seen, _ := s.view.transaction(id)
		return seen.retraction.of != "" || s.now() != inc
	})
	if err != nil {
		return nil, err
	}
	if o != nil && o.Kind == sequencer.OutcomeRefused {
		return nil, notTaken(o, "%s is not retracted", id)
	}
	if seen, _ := s.view.transaction(id); o == nil && seen.retraction.of == "" {
		return nil, api.Problemf(api.CodeNotReady, "the session ended before the log answered: send it again")
	}
	now := s.retraction(id)
	if out.State, out.Seq = now.State, now.Seq; o != nil {
		out.BlockedBy = words.Blockers(o)
	}
	return out, nil
}

// retractedBefore says how a retraction stands that the view does not remember.
func (s *session) retractedBefore(ctx context.Context, id sequencer.TxID) (*api.Retraction, error) {
	out := s.retraction(id)
	c, err := s.events.Closure(ctx, s.workspace, id, 1)
	if err != nil {
		return nil, api.Problemf(api.CodeLog, "how far the retraction of %s is cannot be found out: %v", id, err)
	}
	if c != nil && len(c.Rows) > 0 && c.Rows[0].Status == api.RetractDone {
		out.State = api.RetractDone
	}
	return out, nil
}

// retraction says how a retraction stands, as far as the view shows it.
func (s *session) retraction(id sequencer.TxID) *api.Retraction {
	seen, _ := s.view.transaction(id)
	out := &api.Retraction{Tx: string(id), State: api.RetractRunning, Seq: uint64(seen.retraction.seq),
		Through: uint64(s.view.at()), Cone: []api.ConeMember{}}
	if seen.retraction.undone {
		out.State = api.RetractDone
	}
	out.BlockedBy = words.Blockers(&sequencer.Outcome{BlockedBy: seen.retraction.waits})
	for _, m := range s.view.cone(seen.retraction.of) {
		if len(out.BlockedBy) == 0 && !m.retraction.undone { // the most recent one that waits is the next
			out.BlockedBy = words.Blockers(&sequencer.Outcome{BlockedBy: m.retraction.waits})
		}
		out.Cone = append(out.Cone, api.ConeMember{Tx: string(m.tx), Agent: m.agent, Seq: uint64(m.decision.Seq)})
	}
	out.Total = len(out.Cone)
	return out
}

// cone are the members of a retraction that the view remembers, the most recent first.
func (v *view) cone(of sequencer.TxID) (out []txState) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, t := range v.txs {
		if t.retraction.of == of && of != "" && t.decision != nil {
			out = append(out, *t)
		}
	}
	sortByDecision(out)
	return out
}

// members are all of a cone, also those that were decided before the view began.
func (v *view) members(of sequencer.TxID) (out []sequencer.TxID) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, t := range v.txs {
		if t.retraction.of == of && of != "" {
			out = append(out, t.tx)
		}
	}
	slices.Sort(out)
	return out
}

// coneOf is a cone with what becomes of its members' calls.
func (s *session) coneOf(ctx context.Context, c *topology.Cone) *api.Retraction {
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
func (s *session) fates(ctx context.Context, id sequencer.TxID) (out []api.ConeEffect, more bool) {
	events, err := s.events.Effects(ctx, s.workspace, id)
	if err != nil {
		return nil, true
	}
	effects, err := s.fromLog(id, events)
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
			out = append(out, api.ConeEffect{Index: uint32(len(effects)), Tool: ownTool,
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
