package agent

import (
	"context"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/words"
	"github.com/hence-dev/hence/topology"
)

// asking is a touch as a request asks for it: by an agent that acts on the scopes by itself.
type asking struct {
	wants []sequencer.Want
	wait  time.Duration  // how long the answer may take
	bound sequencer.Tick // how long the log lets it wait; zero: the rules' default
}

// touchFor asks for scopes on the agent's behalf. Once it answers granted, the view shows that they are the
// transaction's own and the log says that the agent may act on them: from then on only the agent knows what it did.
func (s *Agent) touchFor(ctx context.Context, t *tx, a asking) (*api.Touched, error) {
	if err := s.otherTouch(t, a.wants); err != nil {
		return nil, err
	}
	if err := s.enter(ctx, t); err != nil {
		return nil, err
	}
	defer s.leave(t)
	if err := s.otherTouch(t, a.wants); err != nil {
		return nil, err
	}
	short, cancel := s.clock.Within(ctx, a.wait)
	defer cancel()
	if err := s.prepareWithin(ctx, short, t); err != nil {
		return s.stillAsking(ctx, short, t, err)
	}
	if err := s.touchWithin(ctx, short, t, a); err != nil {
		return s.stillAsking(ctx, short, t, err)
	}
	return s.handOver(ctx, t, a.wants)
}

// otherTouch: the log takes one touch of a transaction at a time.
func (s *Agent) otherTouch(t *tx, wants []sequencer.Want) error {
	if t.asking == nil || t.decided() || slices.Equal(t.asking.Touch.Wants, wants) {
		return nil
	}
	return api.Problemf(string(sequencer.CodeTouchWaiting), "an earlier touch of %s still waits, for %s: ask for the "+
		"same scopes again to wait for it, or abort", t.id, t.asking.Touch.Wants[0].Scope)
}

// prepareWithin takes what a successor must ask for first, as long as short lasts.
func (s *Agent) prepareWithin(ctx, short context.Context, t *tx) error {
	err := s.usable(t)
	first := t.first
	if err != nil || len(first) == 0 {
		return err
	}
	if err := s.touchWithin(ctx, short, t, asking{wants: first}); err != nil {
		return err
	}
	t.first = nil
	return nil
}

// touchWithin sends a touch unless everything is held or it is on its way, and waits until the log has answered it;
// for the grant of one that waits there only as long as short lasts.
func (s *Agent) touchWithin(ctx, short context.Context, t *tx, a asking) error {
	in, fresh := t.asking, t.asking == nil
	if fresh && !slices.ContainsFunc(a.wants, func(w sequencer.Want) bool { return !t.holds(w) }) {
		return nil
	}
	if fresh {
		in = t.intent(sequencer.IntentTouch, s.agent, api.SignerOf(ctx))
		in.Touch = &sequencer.Touch{Wants: a.wants, BoundTicks: a.bound}
		t.asking = in
	}
	if fresh {
		if err := s.send(ctx, t, in); err != nil {
			if ctx.Err() == nil { // it was not sent
				t.asking = nil
				s.loop.Moved(&t.changed)
			}
			return err
		}
	}
	answered := func(also bool) func() bool {
		return func() bool {
			return t.asking != in || t.phase != phaseOpen || also && t.waiting != nil && t.waiting.Intent == in.ID()
		}
	}
	if err := s.untilTx(ctx, t, answered(true)); err != nil {
		return err
	}
	if err := s.untilTx(short, t, answered(false)); err != nil {
		return err
	}
	done, err := s.touched(t, in, a.wants)
	if err == nil && !done {
		err = s.otherTouch(t, a.wants)
	}
	return err
}

// stillAsking is the answer of a touch that was not granted: it waits, or why there is nothing to wait for.
func (s *Agent) stillAsking(ctx, short context.Context, t *tx, err error) (*api.Touched, error) {
	if ctx.Err() != nil || short.Err() == nil || t.asking == nil {
		return nil, err
	}
	if err := s.usable(t); err != nil {
		return nil, err
	}
	out := s.touchedAs(t, api.TouchWaiting, t.asking.Touch.Wants)
	if t.waiting != nil {
		out.BlockedBy = words.Blockers(t.waiting)
	}
	return out, nil
}

func (s *Agent) touchedAs(t *tx, state string, wants []sequencer.Want) *api.Touched {
	out := &api.Touched{Tx: string(t.id), State: state, View: uint64(s.view.At()), WaitedMs: t.waited(s.clock.Now()),
		Overtaken: t.overtaken}
	for _, w := range wants {
		out.Wants = append(out.Wants, api.Want{Scope: string(w.Scope), Access: w.Access.String()})
	}
	return out
}

// handOver tells the log, the journal and then the agent that it may act on scopes by itself.
func (s *Agent) handOver(ctx context.Context, t *tx, wants []sequencer.Want) (*api.Touched, error) {
	var own []sequencer.Scope
	for _, w := range wants {
		if w.Access == sequencer.WriteAccess {
			own = append(own, w.Scope)
		}
	}
	if err := s.announceTouch(ctx, t, own); err != nil {
		return nil, err
	}
	if err := s.usable(t); err != nil {
		return nil, err
	}
	if len(own) > 0 {
		if err := s.delivery.Record(journal.RecordOwn, &journal.OwnRecord{Tx: t.id, Scopes: own}); err != nil {
			return nil, err
		}
		for _, scope := range own {
			t.own = api.AddScope(t.own, scope)
		}
		var err error
		s.loop.Do(func() { err = s.delivery.Sync() }) // what the agent does there, only it and the disk know
		if err != nil {
			return nil, err
		}
		// The agent is told even if its transaction was decided meanwhile: the settlement waits for its word from now on.
	}
	return s.touchedAs(t, api.TouchGranted, wants), nil
}

// announceTouch returns once the events topic says what the agent is about to act on.
func (s *Agent) announceTouch(ctx context.Context, t *tx, own []sequencer.Scope) error {
	var events []*topology.Event
	for _, scope := range own {
		if slices.Contains(t.own, scope) {
			continue
		}
		events = append(events, &topology.Event{
			Kind: topology.EventTouch, Workspace: s.workspace, Tx: t.id, Agent: s.agent, Incarnation: t.incarnation,
			AtMs: s.clock.Now().UnixMilli(), Scope: scope, View: s.view.At(), Traceparent: traceOf(ctx),
		})
	}
	var err error
	s.loop.Do(func() { err = s.delivery.PublishAll(ctx, events) }) // the topic has them first
	if err != nil && ctx.Err() != nil {
		return api.Problemf(api.CodeLog, "the touch is granted, and not in the events topic yet: ask again before acting")
	}
	return err
}

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
