package agent

import (
	"context"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
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

// noteWait keeps how long a transaction has waited for others.
func (t *tx) noteWait(o *sequencer.Outcome, now time.Time) {
	switch o.Kind {
	case sequencer.OutcomeWaiting:
		if t.waitingSince.IsZero() {
			t.waitingSince = now
		}
	case sequencer.OutcomeGranted, sequencer.OutcomeCommitted, sequencer.OutcomeAborted, sequencer.OutcomeRefused:
		if !t.waitingSince.IsZero() {
			t.waitedFor += now.Sub(t.waitingSince)
			t.waitingSince = time.Time{}
		}
	}
}

// waited is how long a transaction has waited for others, in milliseconds.
func (t *tx) waited(now time.Time) int64 {
	d := t.waitedFor
	if !t.waitingSince.IsZero() {
		d += now.Sub(t.waitingSince)
	}
	return d.Milliseconds()
}
