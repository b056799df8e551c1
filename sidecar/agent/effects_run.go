package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/sidecar/words"
)

// runTool makes an eager call: what it moves is granted to the transaction, and the call is in the log. done gives the
// transaction back.
func (s *Agent) runTool(ctx context.Context, t *tx, e gate.Effect, slot *once.Slot,
	done func()) (*api.Receipt, error) {
	i, err := s.issue(ctx, t, e)
	if err == nil {
		slot.Calls(i)
		err = s.mayRun(ctx, t, i)
		if err != nil {
			s.withdraw(t, i)
		}
	}
	if err != nil {
		done()
		return nil, err
	}
	type result struct {
		answer gate.Answer
		err    error
	}
	ran := make(chan result, 1)
	started := s.tasks.start(func(ctx context.Context) {
		defer done()
		s.mu.Lock()
		under := s.under(ctx, t.incarnation)
		s.mu.Unlock()
		answer, err := s.engine.Run(under, i.effect)
		s.afterRun(t, i, err)
		ran <- result{answer, err}
	})
	if !started {
		s.withdraw(t, i)
		done()
		return nil, api.Problemf(api.CodeBusy, "the sidecar is stopping, or has too many calls under way")
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case r := <-ran:
		out, err := s.ranTool(ctx, t, i, r.err)
		if err == nil && r.err == nil {
			out.Result = r.answer.Result // whole, also when it is too large to be kept
		}
		return out, err
	}
}

// mayRun returns once an eager call may leave: its scopes are the transaction's own in the view, the events topic has
// it, and the lease lasts longer than it may take.
func (s *Agent) mayRun(ctx context.Context, t *tx, i *issued) error {
	scopes := i.effect.Tool.May
	if len(scopes) == 0 {
		scopes = i.effect.Tool.Scopes
	}
	if err := s.touchAll(ctx, t, scopes, sequencer.WriteAccess); err != nil {
		return err
	}
	if err := s.awaitAck(ctx, i); err != nil {
		return err
	}
	return s.stretchLease(ctx, i.effect.Tool.MaxTime)
}

func (s *Agent) awaitAck(ctx context.Context, i *issued) error {
	select {
	case <-i.acked:
		return nil
	case <-ctx.Done():
		return api.Problemf(api.CodeLog, "call %d of %s is not in the events topic yet: %v", i.effect.Index, i.effect.Tx,
			context.Cause(ctx))
	}
}

// touchAll asks for scopes that the transaction does not hold yet, all at once.
func (s *Agent) touchAll(ctx context.Context, t *tx, scopes []sequencer.Scope, access sequencer.Access) error {
	var wants []sequencer.Want
	s.mu.Lock()
	for _, scope := range scopes {
		if w := (sequencer.Want{Scope: scope, Access: access}); !t.holds(w) {
			wants = append(wants, w)
		}
	}
	s.mu.Unlock()
	if len(wants) == 0 {
		return nil
	}
	return s.touch(ctx, t, wants)
}

// withdraw takes a call back that never ran: the next one has its index.
func (s *Agent) withdraw(t *tx, i *issued) {
	s.mu.Lock()
	at := slices.Index(t.effects, i)
	if at >= 0 {
		t.effects = slices.Delete(t.effects, at, at+1)
	}
	s.mu.Unlock()
	if at < 0 {
		return
	}
	err := marks{s}.Mark(gate.Mark{Tx: t.id, Index: i.effect.Index, Step: gate.StepDropped, Detail: "it never ran"})
	if err != nil {
		s.log.Error("a call that never ran is still in the journal", "tx", string(t.id), "cause", err)
	}
}

// afterRun draws what follows from a call's end for its transaction.
func (s *Agent) afterRun(t *tx, i *issued, err error) {
	p, known := s.progress(t.id, i.effect.Index)
	switch {
	case err == nil || !known:
		if p.Answer != nil && p.Answer.Refused {
			s.metrics.Effect(i.effect.Tool.Class, "failed")
			return
		}
		s.metrics.Effect(i.effect.Tool.Class, "done")
	case p.GivenUp:
		s.metrics.Effect(i.effect.Tool.Class, "unknown")
		s.toolFailed(t, i.effect)
	case !p.Started:
		s.withdraw(t, i)
	}
}

// stillOpen answers a call with its receipt, or with how its transaction has ended meanwhile.
func (s *Agent) stillOpen(t *tx, p gate.Progress) (*api.Receipt, error) {
	s.mu.Lock()
	var err error
	if t.gone() || t.decided() && s.decision(t).State == api.StateAborted {
		err = s.usable(t)
	}
	s.mu.Unlock()
	if err == nil {
		return s.receiptNow(t, p), nil
	}
	over := api.AsProblem(err)
	over.Detail += fmt.Sprintf(" Call %d, %s, was made before that: it is undone.", p.Index, p.Tool.Name)
	return nil, over
}

// toolFailed ends a transaction whose call nobody knows the outcome of: it can never be sealed.
func (s *Agent) toolFailed(t *tx, e gate.Effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.decided() || t.phase != phaseOpen {
		return
	}
	detail := fmt.Sprintf("the outcome of %s, call %d, is not known", e.Tool.Name, e.Index)
	o := &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: t.id, Code: sequencer.CodeToolFailed,
		Detail: detail, Mode: t.begin.Mode}
	s.giveUp(t, o)
	s.abortInLog(t, o)
}

// errBrokenOff is what a request learns of a call that its first try has made.
var errBrokenOff = errors.New("the request that made the call ended before it")

// stands reports whether a call is one of its transaction's: it was not withdrawn.
func (s *Agent) stands(t *tx, i *issued) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(t.effects, i)
}

// ranTool is the answer to a call that was made.
func (s *Agent) ranTool(ctx context.Context, t *tx, i *issued, err error) (*api.Receipt, error) {
	p, known := s.progress(t.id, i.effect.Index)
	switch {
	case err == nil, p.Answer != nil, known && p.Tool.Class.Gated():
		return s.stillOpen(t, p)
	case known && p.GivenUp:
		_ = s.view.Waits.Until(ctx, view.WaitTx(t.id), func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return t.outcome != nil
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		return nil, words.Refusal(s.decision(t))
	case known && p.Started:
		return nil, api.Problemf(api.CodeUndecided, "the outcome of %s is not known yet: ask for it, do not call again (%v)",
			i.effect.Tool.Name, err)
	case errors.Is(err, context.Canceled):
		return nil, api.ErrStopped
	}
	return nil, api.Problemf(api.CodeToolUnreachable, "%s was not called: %v", i.effect.Tool.Name, err)
}
