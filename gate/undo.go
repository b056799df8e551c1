package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
)

// Undo settles an aborted transaction, or takes a retraction's turn (the effects are then Committed): first it
// finds out what became of calls that nobody knows of, then it compensates those that ran, in reverse order, and
// drops what was held. One that cannot be undone stops those before it on the same scopes: its compensation may yet
// arrive, and would put back over theirs what they had written. It does not stop the rest. As Release it may be called
// anew, and keeps progress in place.
func (g *Engine) Undo(ctx context.Context, effects []Progress, claim Claim) (Settlement, error) {
	ordered(effects)
	if err := g.Wait(ctx, effects, claim, g.clock.Now()); err != nil {
		return Settlement{}, err
	}
	for i := range effects {
		p := &effects[i]
		var err error
		switch {
		case !mayHaveRun(p):
		case open(p, claim):
			// What nobody can take back is not made to happen only to be known.
			err = g.learn(ctx, p, p.Tool.Class.Eager() && p.Tool.Undo)
		case g.mayShowUp(p):
			err = g.lookAgain(ctx, p)
		}
		if err != nil {
			return Settlement{}, err
		}
	}
	s := Settlement{NoneElse: claim.whole()}
	var stuck []*Progress
	for i := range slices.Backward(effects) {
		p := &effects[i]
		if at := slices.IndexFunc(stuck, p.meets); at >= 0 && p.compensable() {
			g.behind(&s, p, stuck[at], claim)
			continue
		}
		if err := g.undo(ctx, &s, p, claim); err != nil {
			return Settlement{}, fmt.Errorf("undoing %s/%d (%s): %w", p.Tx, p.Index, p.Tool.Name, err)
		}
		if p.UndoLost && (p.Ran() || p.GivenUp) || p.notUndone() { // what never arrived wrote nothing
			stuck = append(stuck, p)
		}
	}
	slices.Reverse(s.Effects)
	slices.Reverse(s.Residue)
	return s, nil
}

// meets says that two effects move a scope in common.
func (p *Progress) meets(q *Progress) bool {
	return slices.ContainsFunc(p.Tool.Scopes, func(a sequencer.Scope) bool {
		return slices.ContainsFunc(q.Tool.Scopes, a.Overlaps)
	})
}

// compensable says that a compensation of the effect is still to be made.
func (p *Progress) compensable() bool {
	return p.Tool.Undo && p.UndoDone == nil && !p.UndoLost && (p.Ran() || p.GivenUp && p.Tool.Forbids)
}

// notUndone says that nobody knows of the call, and that nothing was sent to undo it: a person may still do that.
func (p *Progress) notUndone() bool { return p.GivenUp && p.Tool.Undo && p.UndoDone == nil }

// mayShowUp says that a call was looked up and had not arrived, or was given up, and that nothing keeps its sink from
// taking it later than its maximum time says.
func (g *Engine) mayShowUp(p *Progress) bool {
	unseen := p.GivenUp && p.Answer == nil || p.Answer != nil && p.Answer.Absent
	return unseen && !p.Undoing && p.UndoDone == nil && !p.UndoLost && !g.canForbid(p)
}

// lookAgain looks for such a call, a last time before it is settled. What shows up is undone like all that ran.
func (g *Engine) lookAgain(ctx context.Context, p *Progress) error {
	j, err := g.lookJob(p)
	if err != nil {
		return nil // nothing can be asked: what is known of the call stays
	}
	a, ok, err := g.look(ctx, j)
	if err != nil || !ok || a.Absent {
		return err
	}
	return g.answered(j, a)
}

// lookJob is a look-up of a call that some earlier job made: its key is as old as the effect.
func (g *Engine) lookJob(p *Progress) (*job, error) {
	j, err := g.callJob(p)
	if err == nil {
		j.foreign = true
	}
	return j, err
}

// behind is what is said of an effect whose compensation may not be made, because a later one's may be on its way.
func (g *Engine) behind(s *Settlement, p, stuck *Progress, claim Claim) {
	result, said := sequencer.ResultUnresolved, "it was not undone"
	switch {
	case !claim.whole() || p.Undoing:
		said += " by this sidecar (a former one may have done it)"
	case p.Ran():
		result = sequencer.ResultLeaked
	}
	g.residue(s, p, result, p.UndoTries, fmt.Sprintf("%s, because nobody knows that effect %d, which came after it on "+
		"the same scope, was: settle that one first, then retry or accept this one", said, stuck.Index))
}

// mayHaveRun says that the effect was of a kind that could run before it was to be undone.
func mayHaveRun(p *Progress) bool {
	return p.Tool.Class.Eager() || p.Tool.Class.Gated() && (p.Committed || p.Started)
}

func (g *Engine) undo(ctx context.Context, s *Settlement, p *Progress, claim Claim) error {
	switch {
	case p.Tool.Class == sequencer.ClassRead:
		return nil
	case p.GivenUp && p.Answer == nil:
		return g.undoUnknown(ctx, s, p, claim)
	case p.Answer == nil:
		return g.drop(p)
	case p.Answer.Absent:
		return g.undoAbsent(ctx, s, p, claim)
	case p.Answer.Refused:
		return nil // the sink did nothing and said so
	case p.UndoDone == nil && !p.UndoLost && !p.Tool.Undo:
		return g.undoNothing(ctx, s, p)
	}
	var why error
	if p.UndoDone == nil && !p.UndoLost {
		var err error
		if why, err = g.compensate(ctx, p, *p.Answer, claim); err != nil {
			return err
		}
	}
	switch {
	case !p.UndoLost:
		s.list(p, sequencer.ResultClean)
	case p.UndoDone != nil:
		g.residue(s, p, sequencer.ResultLeaked, p.UndoTries, "the sink refused to undo it"+colon(p.UndoDone.Detail)+
			": undo it by hand or accept")
	case p.Undoing || !claim.whole():
		g.residue(s, p, sequencer.ResultUnresolved, p.UndoTries, fmt.Sprintf("nobody knows whether it was undone (%d calls "+
			"by this sidecar%s): look at the sink", p.UndoTries, because(why)))
	case errors.Is(why, ErrChangedTool):
		g.residue(s, p, sequencer.ResultLeaked, p.UndoTries, "it happened and was not undone")
	default:
		g.residue(s, p, sequencer.ResultLeaked, p.UndoTries, fmt.Sprintf("it was not undone: %d tries did not reach the "+
			"sink%s; retry or undo it by hand", p.UndoTries, because(why)))
	}
	return nil
}

// drop notes that a held effect never leaves.
func (g *Engine) drop(p *Progress) error {
	if p.Dropped || !p.Tool.Class.Gated() {
		return nil
	}
	return g.mark(p, Mark{Step: StepDropped}, failpoint.DropBefore, failpoint.DropAfter)
}

// canForbid says that a sink is declared to understand an order to refuse a call, and that the order can be made
// without the call's answer.
func (g *Engine) canForbid(p *Progress) bool {
	if p.Key == "" || !p.Tool.Undo || !p.Tool.Forbids {
		return false
	}
	u, err := g.undoCall(p, Answer{})
	return err == nil && u.call.Key != ""
}

// forbid tells a keyed sink to refuse a call from now on, where it is declared to understand that. Any other would
// undo what is perhaps not there.
func (g *Engine) forbid(ctx context.Context, p *Progress, claim Claim) error {
	if p.UndoDone != nil || p.UndoLost || !g.canForbid(p) {
		return nil
	}
	_, err := g.compensate(ctx, p, Answer{}, claim)
	return err
}

// undoUnknown settles a call of which nobody knows: it is unresolved whatever its sink says when it is told to refuse
// the call's key.
func (g *Engine) undoUnknown(ctx context.Context, s *Settlement, p *Progress, claim Claim) error {
	if err := g.forbid(ctx, p, claim); err != nil {
		return err
	}
	detail := unknownDetail(p)
	if p.UndoDone != nil && !p.UndoLost {
		detail += "; the sink was told to refuse its key from now on"
	}
	if p.Key != "" && p.Tool.Undo && !p.Tool.Forbids {
		detail += "; nothing was sent to undo it, because its sink is not declared to forbid a key"
	}
	g.residue(s, p, sequencer.ResultUnresolved, p.Tries+p.UndoTries, detail)
	return nil
}

// undoAbsent settles a call that was looked up and had not arrived. A sink that forbids keys is told to refuse it,
// should it be later than its tool's maximum time says; at any other one such a call stays, and is not seen. An order
// that the sink did not obey keeps nothing out, so there the call is looked for again.
func (g *Engine) undoAbsent(ctx context.Context, s *Settlement, p *Progress, claim Claim) error {
	if err := g.forbid(ctx, p, claim); err != nil {
		return err
	}
	if p.UndoLost {
		if err := g.lookAgain(ctx, p); err != nil {
			return err
		}
		if !p.Answer.Absent {
			return g.undo(ctx, s, p, claim) // which lists it
		}
	}
	s.list(p, sequencer.ResultClean)
	return nil
}

// undoNothing settles an effect that ran and that nothing undoes: a known outcome may have lapsed by itself.
func (g *Engine) undoNothing(ctx context.Context, s *Settlement, p *Progress) error {
	if j, err := g.lookJob(p); err == nil && p.Tool.Class == sequencer.ClassKnownOutcome {
		found, ok, err := g.look(ctx, j)
		if err != nil {
			return err
		}
		if ok && found.Absent {
			s.list(p, sequencer.ResultClean)
			return nil
		}
	}
	g.residue(s, p, sequencer.ResultLeaked, p.Tries,
		"it happened and no compensation is declared: undo it by hand or accept")
	return nil
}

// undoing is a compensation's call and what the policy says of its tool.
type undoing struct {
	call Call
	tool Tool
}

// Compensation is the call that undoes an effect, given what that answered, and what the policy says of its tool.
// Whoever makes it, and however often, it goes under the same key.
func Compensation(tools Tools, origin string, p *Progress, a Answer) (Call, Tool, error) {
	c, err := tools.Undo(p.Effect, a)
	if err != nil {
		return Call{}, Tool{}, fmt.Errorf("making the compensation of %s: %w", p.Tool.Name, err)
	}
	t, err := tools.Find(c.Tool, c.Args)
	if err != nil {
		t = p.Tool
		t.Keyed = c.Key != ""
	}
	if c.Key != "" || t.Keyed {
		c.Key = cmp.Or(p.Key, OwnKey(origin, p.Tx, p.Index)) + "/undo"
	}
	c.Tx, c.Index, c.Traceparent, c.Compensates = p.Tx, p.Index, p.Traceparent, p.Key
	c.ForbidOnly, c.Origin = p.Key != "" && !p.Ran(), origin
	if c.Saved == nil {
		c.Saved = a.Saved
	}
	return c, t, nil
}

func (g *Engine) undoCall(p *Progress, a Answer) (undoing, error) {
	c, t, err := Compensation(g.tools, g.origin(), p, a)
	return undoing{c, t}, err
}

// compensate drives a compensation until it is answered or lost, and marks which. The error that it returns first
// is why.
func (g *Engine) compensate(ctx context.Context, p *Progress, a Answer, claim Claim) (why, err error) {
	u, err := g.undoCall(p, a)
	if err != nil {
		return err, g.undoLost(p, err)
	}
	adapter, err := g.adapter(&p.Effect, u.call.Tool)
	if err != nil {
		return err, g.undoLost(p, err)
	}
	j := &job{steps: undoSteps(), p: p, call: u.call, adapter: adapter, max: u.tool.maxTime(), life: u.tool.KeyLife,
		retry: u.tool.Retry, maybe: p.Undoing || !claim.whole()}
	e, err := g.drive(ctx, j)
	if err == nil && e != endAnswered {
		err = g.undoLost(p, j.why)
	}
	return j.why, err
}

func (g *Engine) undoLost(p *Progress, why error) error {
	return g.mark(p, Mark{Step: StepUndoLost, Detail: text(why)}, failpoint.UndoLostBefore, failpoint.UndoLostAfter)
}
