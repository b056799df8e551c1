package agent

import (
	"context"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
)

// Effect makes one tool call of an open transaction, or holds it until the commit.
func (s *Agent) Effect(ctx context.Context, c once.Call, id string, in *api.Effect) (*api.Receipt, error) {
	return flow(s, func() (*api.Receipt, error) {
		what, err := callOf(in.Tool, in.Args, in.Key)
		if err != nil {
			return nil, err
		}
		if what.call = in.Call; what.call != "" {
			if err := validCall(what.call); err != nil {
				return nil, err
			}
		}
		t, err := s.find(sequencer.TxID(id))
		if err != nil {
			return nil, err
		}
		out, err := s.effect(ctx, t, what, c.Slot)
		if out != nil && out.Call == "" { // of a read and a shard's write no index says it
			out.Call = what.call
		}
		return out, err
	})
}

// Effects lists a transaction's tool calls as they stand.
func (s *Agent) Effects(ctx context.Context, id string) (*api.Effects, error) {
	return flow(s, func() (*api.Effects, error) {
		t, err := s.find(sequencer.TxID(id))
		if err != nil {
			return nil, err
		}
		return s.effects(ctx, t), nil
	})
}

// OneShot makes one tool call in a transaction of its own and seals it; ctx bounds how long it waits for the decision.
func (s *Agent) OneShot(ctx context.Context, c once.Call, in *api.OneShot) (*api.Done, error) {
	return flow(s, func() (*api.Done, error) {
		what, err := callOf(in.Tool, in.Args, in.Key)
		if err != nil {
			return nil, err
		}
		mode, err := modeOf(in.Mode, s.mode)
		if err != nil {
			return nil, api.Problemf(api.CodeBadRequest, "%v", err)
		}
		t, err := s.resume(ctx, c.Slot)
		if err == nil && t == nil {
			t, err = s.start(ctx, sequencer.Begin{Mode: mode, Observe: s.observes, Session: c.Session}, nil)
		}
		if err != nil {
			return nil, err
		}
		return s.do(ctx, t, what, c.Slot)
	})
}

// do makes one call in a transaction of its own and seals it. Asked again with the same transaction it goes on.
func (s *Agent) do(ctx context.Context, t *tx, what toolCall, slot *once.Slot) (*api.Done, error) {
	slot.Set(t.id)
	if err := slot.Save(); err != nil {
		return nil, err
	}
	open := t.phase == phaseOpen && !t.decided()
	first := slot.Kept()
	if open && first == nil {
		var err error
		if first, err = s.effect(ctx, t, what, slot); err != nil {
			calls := len(t.effects)
			if slot == nil { // no request names it again, whatever the error
				s.breakOff(t)
			} else if p := api.AsProblem(err); calls == 0 && !p.SafeSameKey {
				s.drop(t, "its only request was refused")
			}
			return nil, err
		}
		if first.Index == nil {
			slot.Keep(first)
		}
	}
	if err := slot.Save(); err != nil {
		return nil, err
	}
	d, err := s.sealOnly(ctx, t, slot)
	if err != nil {
		return nil, err
	}
	out := &api.Done{Tx: string(t.id), Decision: *d}
	if now := s.effects(ctx, t).Effects; len(now) > 0 {
		out.Effect = now[0]
	}
	if first != nil && first.Index == nil {
		out.Effect = *first
	}
	if out.Effect.Tool == "" {
		return nil, api.Problemf(api.CodeForgotten, "%s is %s, and what its call was answered is no longer remembered", t.id,
			d.State)
	}
	return out, nil
}

// Touch asks for scopes on which the agent acts by itself. Once it answers granted the agent may.
func (s *Agent) Touch(ctx context.Context, id string, in *api.Touch) (*api.Touched, error) {
	return flow(s, func() (*api.Touched, error) {
		wants, err := wantsOf(in.Wants)
		if err != nil {
			return nil, err
		}
		if most := s.view.FootprintLimit(); len(wants) > most {
			return nil, api.Problemf(api.CodeLimit, "the touch names %d scopes; at most %d go into one", len(wants), most)
		}
		most := int(s.limits.WaitMost.Milliseconds())
		wait := most
		if in.WaitMs != nil {
			wait = *in.WaitMs
		}
		if wait < 0 || wait > most {
			return nil, api.Problemf(api.CodeBadRequest, "wait_ms is %d: give 0 to %d", wait, most)
		}
		if in.BoundMs < 0 || in.BoundMs > maxDeadlineMs {
			return nil, api.Problemf(api.CodeBadRequest, "bound_ms is %d: give 0 to %d", in.BoundMs, maxDeadlineMs)
		}
		t, err := s.find(sequencer.TxID(id))
		if err != nil {
			return nil, err
		}
		if wants = s.view.Widen(wants); len(wants) > s.view.FootprintLimit() {
			return nil, api.Problemf(api.CodeLimit, "the touch names %d scopes, with those of stored names that are spelt "+
				"otherwise; at most %d go into one", len(wants), s.view.FootprintLimit())
		}
		return s.touchFor(ctx, t, asking{wants: wants, wait: time.Duration(wait) * time.Millisecond,
			bound: ticksOf(in.BoundMs)})
	})
}

// Settle takes what the agent says of what it did under its touches of a transaction that was aborted.
func (s *Agent) Settle(ctx context.Context, id string, in *api.Settlement) (*api.Decision, error) {
	return flow(s, func() (*api.Decision, error) {
		told, err := s.settleOf(in)
		if err != nil {
			return nil, err
		}
		t, err := s.find(sequencer.TxID(id))
		if err != nil {
			return nil, err
		}
		return s.tell(ctx, t, told)
	})
}

func (s *Agent) settleOf(in *api.Settlement) (*sequencer.Settle, error) {
	if len(in.Effects) == 0 && !in.NoneElse {
		return nil, api.Problemf(api.CodeBadRequest, "effects is empty and none_else is not true: say what was done, "+
			"or that nothing was")
	}
	if most := s.view.FootprintLimit(); len(in.Effects) > most {
		return nil, api.Problemf(api.CodeLimit, "%d effects; at most %d go into a settlement", len(in.Effects), most)
	}
	out := &sequencer.Settle{NoneElse: in.NoneElse}
	for _, e := range in.Effects {
		one := sequencer.Settled{}
		found := false
		for r := sequencer.ResultClean; r <= sequencer.ResultPartial; r++ {
			if r.String() == e.Result {
				one.Result, found = r, true
			}
		}
		if !found || len(e.Scopes) == 0 {
			return nil, api.Problemf(api.CodeBadRequest, "an effect of result %.20q with %d scopes: name scopes, and "+
				"as result clean, leaked, unresolved or partial", e.Result, len(e.Scopes))
		}
		for _, text := range e.Scopes {
			scope, err := sequencer.ParseScope(text)
			if err != nil {
				return nil, badScope(text, err)
			}
			one.Scopes = append(one.Scopes, scope)
		}
		out.Effects = append(out.Effects, one)
	}
	return out, nil
}

// effect makes one tool call of an open transaction, or holds it until the commit.
func (s *Agent) effect(ctx context.Context, t *tx, c toolCall, slot *once.Slot) (out *api.Receipt, err error) {
	if s.engine == nil {
		return nil, api.Problemf(api.CodeNoPolicy, "this sidecar was started without a policy file: it calls no tools")
	}
	tool, err := s.toolOf(ctx, c)
	if err != nil {
		return nil, err
	}
	came, first, err := s.comes(ctx, t, tool, c)
	if first != nil || err != nil {
		return first, err
	}
	defer func() { came(out, err) }()
	free := func() { s.leave(t) }
	defer func() { free() }()
	if i, _ := slot.Called().(*issued); i != nil && s.stands(t, i) { // the same request has made it: it has ended by now
		return s.ranTool(ctx, t, i, errBrokenOff)
	}
	if err := s.prepare(ctx, t); err != nil {
		return nil, err
	}
	if shard, ok := s.shardTool(c.tool); ok {
		return s.shardCall(ctx, t, tool, shard, c)
	}
	e, err := s.effectOf(ctx, t, tool, c)
	if err != nil {
		return nil, err
	}
	if first, err := s.sameKey(t, e); first != nil || err != nil {
		return first, err
	}
	switch tool.Class {
	case sequencer.ClassRead:
		return s.readTool(ctx, t, e)
	case sequencer.ClassBufferable, sequencer.ClassIrreversible:
		return s.hold(ctx, t, e, slot)
	}
	// The call goes on when the request ends; the transaction is its own until then.
	free = func() {}
	return s.runTool(ctx, t, e, slot, func() { s.leave(t) })
}
