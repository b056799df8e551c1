package sidecar

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// publishResidue puts what could not be made clean on the list before the log hears of the settlement: a crash in
// between writes it again under the same key.
func (s *session) publishResidue(ctx context.Context, d *debt, made gate.Settlement, inc sequencer.Seq) error {
	for _, r := range made.Residue {
		agent, _, ok := ownerOf(d.tx)
		if !ok {
			agent = s.agent
		}
		record := &topology.Residue{
			Workspace: s.workspace, Tx: d.tx, Index: r.Effect.Index, Agent: agent, Tool: r.Effect.Tool.Name,
			Class: r.Effect.Tool.Class, Key: r.Effect.Key, Scopes: r.Effect.Tool.Scopes, Result: r.Result, Detail: r.Detail,
			Tries: r.Tries, State: topology.ResidueOpen, Incarnation: inc, AtMs: s.clock.Now().UnixMilli(),
		}
		err := retry(ctx, func() error {
			try, cancel := context.WithTimeout(ctx, appendTry)
			defer cancel()
			failpoint.Hit(failpoint.ResidueBefore)
			defer failpoint.Hit(failpoint.ResidueAfter)
			return s.events.PublishResidue(try, record)
		}, func(err error) {
			s.log.Warn("a residue is not on the list yet: written again", "tx", string(d.tx), "cause", err)
		})
		if err != nil {
			return err
		}
		s.metrics.residue(r.Effect.Tool.Class, r.Result)
	}
	return nil
}

// tryResidue makes the call, or the compensation, that could not be made before. It holds what the call moves until it
// is answered, and its commit counts as a write of it: nobody commits on what was read before.
func (s *session) tryResidue(ctx context.Context, r *topology.Residue) (gate.Answer, error) {
	none := gate.Answer{}
	if s.engine == nil {
		return none, problem(codeNoPolicy, "this sidecar was started without a policy file: it calls no tools")
	}
	p, err := s.callOfResidue(ctx, r)
	if err != nil {
		return none, err
	}
	what := gate.Call{Tool: p.Tool.Name, Tx: p.Tx, Index: p.Index, Key: p.Key, Args: p.Args, Traceparent: traceOf(ctx)}
	if eager(p.Tool.Class) || p.Undoing {
		answer := none
		if p.Answer != nil {
			answer = *p.Answer
		}
		if what, err = s.undoOf(p, answer); err != nil {
			return none, problem(codeTool, "%v", err)
		}
	}
	adapter, err := s.tools.Adapter(what.Tool)
	if err != nil {
		return none, problem(codeTool, "%v", err)
	}
	t, err := s.start(ctx, sequencer.Begin{Mode: sequencer.Optimistic}, nil)
	if err != nil {
		return none, err
	}
	answer, err := s.tryUnderTouch(ctx, t, p.Tool, func(ctx context.Context) (gate.Answer, error) {
		return adapter.Call(ctx, what)
	})
	if err != nil {
		_, _ = s.abort(ctx, t, "the residue could not be tried again")
		return none, err
	}
	if d, err := s.seal(ctx, t); err != nil || d.State == api.StateAborted {
		s.log.Warn("a residue was tried again, its transaction did not commit", "tx", string(t.id), "cause", err)
	}
	return answer, nil
}

// undoOf is the call that compensates another one, under the key that the gate gives it.
func (s *session) undoOf(p gate.Progress, answer gate.Answer) (gate.Call, error) {
	c, err := s.tools.Undo(p.Effect, answer)
	if err != nil {
		return c, fmt.Errorf("make the compensation of %s: %w", p.Tool.Name, err)
	}
	tool, err := s.tools.Find(c.Tool, c.Args)
	if c.Key != "" || err == nil && tool.Keyed {
		c.Key = cmp.Or(p.Key, fmt.Sprintf("%s/%d", p.Tx, p.Index)) + "/undo"
	}
	c.Tx, c.Index, c.Traceparent, c.Compensates = p.Tx, p.Index, p.Traceparent, p.Key
	if c.Saved == nil {
		c.Saved = answer.Saved
	}
	return c, nil
}

// tryUnderTouch makes a call while the transaction holds what it moves, and notes it as one of its effects.
func (s *session) tryUnderTouch(ctx context.Context, t *tx, tool gate.Tool,
	call func(context.Context) (gate.Answer, error)) (gate.Answer, error) {
	if err := t.enter(ctx); err != nil {
		return gate.Answer{}, err
	}
	defer t.leave()
	if err := s.touchAll(ctx, t, tool.Scopes, sequencer.WriteAccess); err != nil {
		return gate.Answer{}, err
	}
	if err := s.stretchLease(ctx, tool.MaxTime); err != nil {
		return gate.Answer{}, err
	}
	bound, cancel := context.WithTimeout(ctx, tool.MaxTime)
	defer cancel()
	answer, err := call(bound)
	if err != nil {
		return answer, problem(codeToolUnreachable, "%s was tried again without an answer: %v", tool.Name, err)
	}
	tool.Class = sequencer.ClassKnownOutcome
	acked := make(chan struct{})
	close(acked)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.effects = append(t.effects, &issued{effect: gate.Effect{Tx: t.id, Tool: tool}, acked: acked})
	return answer, nil
}

// callOfResidue is the call of a residue, as the log has it.
func (s *session) callOfResidue(ctx context.Context, r *topology.Residue) (gate.Progress, error) {
	events, err := s.events.Effects(ctx, s.workspace, r.Tx)
	if err != nil {
		return gate.Progress{}, problem(codeLog, "what %s did cannot be read from the log: %v", r.Tx, err)
	}
	effects, err := s.fromLog(r.Tx, events)
	if err != nil {
		return gate.Progress{}, problem(codeLog, "%v", err)
	}
	for _, p := range effects {
		if p.Index == r.Index {
			return p, nil
		}
	}
	return gate.Progress{}, problem(codeForgotten, "the log has no call %d of %s any more", r.Index, r.Tx)
}
