package sidecar

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// untold keeps what came of further tries as long as the list of residues does not say it, by record key: the call was
// made, so whoever asks again only has the list written.
type untold struct {
	mu    sync.Mutex
	byKey map[string]topology.Residue
}

func (u *untold) keep(r *topology.Residue) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byKey == nil {
		u.byKey = map[string]topology.Residue{}
	}
	u.byKey[r.RecordKey()] = *r
}

func (u *untold) has(r *topology.Residue) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.byKey[r.RecordKey()]
	return ok
}

// forget drops what the list says by now; it reports whether there was anything.
func (u *untold) forget(r *topology.Residue) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.byKey[r.RecordKey()]
	delete(u.byKey, r.RecordKey())
	return ok
}

// listUntold puts what came of a try on the list, and into r, if the list does not say it yet.
func (s *session) listUntold(ctx context.Context, u *untold, r *topology.Residue) (told bool, err error) {
	u.mu.Lock() // also while it is written: what is listed later must not be written over
	defer u.mu.Unlock()
	kept, ok := u.byKey[r.RecordKey()]
	if !ok {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, appendTry)
	defer cancel()
	if err := s.listResidue(ctx, &kept); err != nil {
		return false, err
	}
	delete(u.byKey, r.RecordKey())
	*r = kept
	return true, nil
}

// leftover is what is left to do of a residue.
type leftover struct {
	tool    gate.Tool // what the residue is of
	call    gate.Call // the same, or its compensation
	adapter gate.Adapter
}

// tryResidue makes the call, or the compensation, that could not be made before. It holds what the call moves until it
// is answered, and its commit counts as a write of it: nobody commits on what was read before.
func (s *session) tryResidue(ctx context.Context, u *untold, r *topology.Residue, force bool) error {
	if s.engine == nil {
		return problem(codeNoPolicy, "this sidecar was started without a policy file: it calls no tools")
	}
	left, err := s.leftOf(ctx, r, force)
	if err != nil {
		return err
	}
	t, err := s.start(ctx, sequencer.Begin{Mode: sequencer.Optimistic}, nil)
	if err != nil {
		return err
	}
	open := func(ctx context.Context) error {
		if u.has(r) {
			return problem(codeLog, "it was tried again a moment ago, and the list does not say so yet: ask again")
		}
		if err := s.stillResidue(ctx, r); err != nil {
			return err
		}
		left, err = s.leftOf(ctx, r, force) // a retraction may have had its turn while the touch waited
		return err
	}
	_, called, err := s.tryUnderTouch(ctx, t, left.tool, open, func(ctx context.Context) (gate.Answer, error) {
		return s.tryCall(ctx, u, r, left)
	})
	if !called {
		_, _ = s.abort(ctx, t, "the residue could not be tried again")
		return err
	}
	// Whatever came of it, it may have moved what it names: that counts as written, also when nobody waits any more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTry)
	defer cancel()
	if d, err := s.seal(ctx, t); err != nil || d.State == api.StateAborted {
		s.log.Warn("a residue was tried again, its transaction did not commit", "tx", string(t.id), "cause", err)
	}
	return err
}

// leftOf finds out from the log what is left to do of a residue.
func (s *session) leftOf(ctx context.Context, r *topology.Residue, force bool) (leftover, error) {
	p, err := s.callOfResidue(ctx, r)
	if err != nil {
		return leftover{}, err
	}
	call := gate.Call{Tool: p.Tool.Name, Tx: p.Tx, Index: p.Index, Key: p.Key, Args: p.Args, Traceparent: traceOf(ctx)}
	if s.isToUndo(r, &p) {
		switch {
		case p.Tool.Class.Gated() && r.Result == sequencer.ResultPartial:
			return leftover{}, problem(codeTool, "%s did not leave, and its transaction is retracted: it is not made any "+
				"more, accept it", p.Tool.Name)
		case !p.Tool.Undo && r.Result == sequencer.ResultUnresolved:
			return leftover{}, problem(codeTool, "%s may have happened, should not have, and no compensation of it is "+
				"declared: look at the sink, undo it by hand, then accept", p.Tool.Name)
		case !p.Tool.Undo:
			return leftover{}, problem(codeTool, "%s happened, and no compensation of it is declared: undo it by hand, then "+
				"accept", p.Tool.Name)
		}
		answer := gate.Answer{}
		if p.Answer != nil {
			answer = *p.Answer
		}
		if call, _, err = gate.Compensation(s.tools, s.where(), &p, answer); err != nil {
			return leftover{}, problem(codeTool, "%v", err)
		}
		// The log may lack the answer of a call that its settlement knew to have happened.
		call.ForbidOnly = call.ForbidOnly && r.Result != sequencer.ResultLeaked
	}
	if call.Key == "" && !force {
		return leftover{}, unkeyed(call.Tool)
	}
	adapter, err := capped{s.tools, s}.Adapter(call.Tool)
	if err != nil {
		return leftover{}, problem(codeTool, "%v", err)
	}
	return leftover{p.Tool, call, adapter}, nil
}

func unkeyed(tool string) error {
	return problem(codeUnkeyed, "the sink of %s takes no key: if it has happened, it happens a second time. "+
		"Look there first, then send force", tool)
}

// isToUndo reports whether what is left of a call is to undo it: it ran before the commit, was retracted, or is known
// to have happened although it should not have.
func (s *session) isToUndo(r *topology.Residue, p *gate.Progress) bool {
	seen, _ := s.view.transaction(r.Tx)
	return p.Tool.Class.Eager() || p.Tool.Class.Gated() && p.Dropped || r.Result == sequencer.ResultLeaked ||
		p.UndoLost || p.UndoDone != nil || seen.retraction.of != ""
}

// stillResidue refuses to try a residue again that somebody else has dealt with, or has tried since it was looked at.
func (s *session) stillResidue(ctx context.Context, r *topology.Residue) error {
	list, _, err := s.residue(ctx)
	if err != nil {
		return err
	}
	for _, now := range list {
		switch {
		case now.Tx != r.Tx || now.Index != r.Index:
		case now.State != topology.ResidueOpen:
			return problem(codeNotResidue, "effect %d of %s is %s meanwhile: nothing is left to do", r.Index, r.Tx, now.State)
		case now.Tries != r.Tries || now.Result != r.Result:
			return problem(codeNotResidue, "effect %d of %s was tried meanwhile: look at the list, then ask again", r.Index,
				r.Tx)
		}
	}
	return nil
}

// tryCall makes the call. One that its sink knows by no key is announced on the list before: should this process end,
// nobody is told that it never left.
func (s *session) tryCall(ctx context.Context, u *untold, r *topology.Residue, left leftover) (gate.Answer, error) {
	announced := left.call.Key == ""
	if announced {
		now := *r
		now.Tries++
		now.Detail = fmt.Sprintf("tried again (call %d), and no answer is known: it may have happened, look at the sink",
			now.Tries)
		if now.Result == sequencer.ResultPartial {
			now.Result = sequencer.ResultUnresolved
		}
		if err := s.listResidue(ctx, &now); err != nil {
			return gate.Answer{}, err
		}
	}
	answer, err := left.adapter.Call(ctx, left.call)
	if err == nil {
		return answer, s.noteTry(ctx, u, r, answer)
	}
	if announced && errors.Is(err, gate.ErrNotSent) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTry)
		defer cancel()
		if err := s.listResidue(ctx, r); err != nil {
			s.log.Warn("the list does not say that a further try did not leave", "tx", string(r.Tx), "cause", err)
		}
	}
	return answer, problem(codeToolUnreachable, "%s was tried again without an answer: %v", left.tool.Name, err)
}

// noteTry puts what came of another try on the list, before anybody else can make one.
func (s *session) noteTry(ctx context.Context, u *untold, r *topology.Residue, answer gate.Answer) error {
	r.Tries++
	if answer.Refused {
		r.Detail = "tried again and refused: " + answer.Detail
	} else {
		r.State, r.Result, r.Detail = topology.ResidueResolved, sequencer.ResultClean, "tried again, and answered"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTry)
	defer cancel()
	err := s.listResidue(ctx, r)
	if err != nil {
		u.keep(r)
	}
	return err
}

// listResidue puts a residue back on the list as it is now.
func (s *session) listResidue(ctx context.Context, r *topology.Residue) error {
	r.AtMs, r.Incarnation = s.clock.Now().UnixMilli(), s.now()
	if err := s.events.PublishResidue(ctx, r); err != nil {
		return problem(codeLog, "the list of residues cannot be written: %v", err)
	}
	return nil
}
