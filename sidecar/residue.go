package sidecar

import (
	"context"

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
	if s.isToUndo(r, &p) {
		if !p.Tool.Undo {
			return none, problem(codeTool, "%s happened, and no compensation of it is declared: undo it by hand, then accept",
				p.Tool.Name)
		}
		answer := none
		if p.Answer != nil {
			answer = *p.Answer
		}
		if what, _, err = gate.Compensation(s.tools, s.where(), &p, answer); err != nil {
			return none, problem(codeTool, "%v", err)
		}
		// The log may lack the answer of a call that its settlement knew to have happened.
		what.ForbidOnly = what.ForbidOnly && r.Result != sequencer.ResultLeaked
	}
	adapter, err := capped{s.tools, s}.Adapter(what.Tool)
	if err != nil {
		return none, problem(codeTool, "%v", err)
	}
	t, err := s.start(ctx, sequencer.Begin{Mode: sequencer.Optimistic}, nil)
	if err != nil {
		return none, err
	}
	open := func(ctx context.Context) error { return s.stillResidue(ctx, r) }
	answer, called, err := s.tryUnderTouch(ctx, t, p.Tool, open, func(ctx context.Context) (gate.Answer, error) {
		answer, err := adapter.Call(ctx, what)
		if err != nil {
			return answer, problem(codeToolUnreachable, "%s was tried again without an answer: %v", p.Tool.Name, err)
		}
		return answer, s.noteTry(ctx, r, answer)
	})
	if !called {
		_, _ = s.abort(ctx, t, "the residue could not be tried again")
		return none, err
	}
	// Whatever came of it, it may have moved what it names: that counts as written, also when nobody waits any more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTry)
	defer cancel()
	if d, err := s.seal(ctx, t); err != nil || d.State == api.StateAborted {
		s.log.Warn("a residue was tried again, its transaction did not commit", "tx", string(t.id), "cause", err)
	}
	return answer, err
}

// isToUndo reports whether what is left of a call is to undo it: it ran before the commit, was retracted, or is known
// to have happened although it should not have.
func (s *session) isToUndo(r *topology.Residue, p *gate.Progress) bool {
	seen, _ := s.view.transaction(r.Tx)
	return p.Tool.Class.Eager() || r.Result == sequencer.ResultLeaked || p.UndoLost || p.UndoDone != nil ||
		seen.retraction.of != ""
}

// stillResidue refuses to try a residue again that somebody else has dealt with.
func (s *session) stillResidue(ctx context.Context, r *topology.Residue) error {
	list, _, err := s.residue(ctx)
	if err != nil {
		return err
	}
	for _, now := range list {
		if now.Tx == r.Tx && now.Index == r.Index && now.State != topology.ResidueOpen {
			return problem(codeNotResidue, "effect %d of %s is %s meanwhile: nothing is left to do", r.Index, r.Tx, now.State)
		}
	}
	return nil
}

// noteTry puts what came of another try on the list, before anybody else can make one.
func (s *session) noteTry(ctx context.Context, r *topology.Residue, answer gate.Answer) error {
	r.Tries++
	if answer.Refused {
		r.Detail = "tried again and refused: " + answer.Detail
	} else {
		r.State, r.Result, r.Detail = topology.ResidueResolved, sequencer.ResultClean, "tried again, and answered"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTry)
	defer cancel()
	return s.listResidue(ctx, r)
}

// listResidue puts a residue back on the list as it is now.
func (s *session) listResidue(ctx context.Context, r *topology.Residue) error {
	r.AtMs, r.Incarnation = s.clock.Now().UnixMilli(), s.now()
	if err := s.events.PublishResidue(ctx, r); err != nil {
		return problem(codeLog, "the list of residues cannot be written: %v", err)
	}
	return nil
}

// tryUnderTouch makes a call while the transaction holds what it moves, if it is still to be made then. called: it may
// have left. The log and the journal say so before: whoever finds the transaction after a crash does not
// know what it did.
func (s *session) tryUnderTouch(ctx context.Context, t *tx, tool gate.Tool, open func(context.Context) error,
	call func(context.Context) (gate.Answer, error)) (answer gate.Answer, called bool, err error) {
	if err := t.enter(ctx); err != nil {
		return answer, false, err
	}
	defer t.leave()
	if err := s.touchAll(ctx, t, tool.Scopes, sequencer.WriteAccess); err != nil {
		return answer, false, err
	}
	if err := open(ctx); err != nil {
		return answer, false, err
	}
	var wants []sequencer.Want
	for _, scope := range tool.Scopes {
		wants = append(wants, sequencer.Want{Scope: scope, Access: sequencer.WriteAccess})
	}
	if err := s.stretchLease(ctx, tool.MaxTime); err != nil {
		return answer, false, err
	}
	if _, err := s.handOver(ctx, t, wants); err != nil {
		return answer, false, err
	}
	bound, cancel := context.WithTimeout(ctx, tool.MaxTime)
	defer cancel()
	answer, err = call(bound)
	return answer, true, err
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
