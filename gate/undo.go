package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// Undo settles an aborted transaction, or takes a retraction's turn (the effects are then Committed): first it
// finds out what became of calls of unknown outcome, then it compensates those that ran, the last first, and
// drops what was held. One that cannot be undone stops those before it on the same scopes: its compensation may yet
// arrive, and would put back over theirs what they had written. It does not stop the rest. As Release it may be called
// again, and keeps progress in place.
func (g *Engine) Undo(ctx context.Context, effects []Progress, claim Claim) (Settlement, error) {
	ordered(effects)
	if err := g.Wait(ctx, effects, claim, g.clock.Now()); err != nil {
		// As in Release: a former owner's call could land behind the compensation.
		return Settlement{}, err
	}
	for i := range effects {
		w := &work{p: &effects[i], claim: claim, phase: PhaseUndone, first: true}
		// All are found out before any is undone: a call that shows up later would be under what was put back for it.
		if _, err := g.carry(ctx, w); err != nil {
			// What is not known cannot be undone, and is not said to be: this is gone on with later.
			return Settlement{}, fmt.Errorf("finding out what became of %s/%d (%s): %w", w.p.Tx, w.p.Index, w.p.Tool.Name,
				err)
		}
	}
	s := Settlement{NoneElse: claim.whole()}
	var stuck []*Progress
	for _, p := range lastFirst(effects) {
		w := &work{p: p, claim: claim, phase: PhaseUndone, sought: true}
		if at := slices.IndexFunc(stuck, w.p.meets); at >= 0 {
			w.behind = stuck[at]
		}
		plan, err := g.carry(ctx, w)
		if err == nil {
			tries, detail := undoDetail(w, plan)
			err = g.report(&s, w, plan, tries, detail)
		}
		if err != nil {
			return Settlement{}, fmt.Errorf("undoing %s/%d (%s): %w", w.p.Tx, w.p.Index, w.p.Tool.Name, err)
		}
		if plan.Stops(PhaseUndone) {
			// Its compensation may yet arrive: those before it on its scopes stay, or it would put back over theirs
			// (holes 13c).
			stuck = append(stuck, w.p)
		}
	}
	slices.SortStableFunc(s.Effects, func(a, b sequencer.Settled) int { return cmp.Compare(a.Index, b.Index) })
	slices.SortStableFunc(s.Residue, func(a, b Residue) int { return cmp.Compare(a.Effect.Index, b.Effect.Index) })
	return s, nil
}

// lastFirst lists effects that came by index, the last that ran first. What was held ran at the commit, after all that
// ran at once: undone by index alone, an older value would come back over the one that it was put in place of.
func lastFirst(effects []Progress) (out []*Progress) {
	for _, held := range []bool{true, false} {
		for i := range slices.Backward(effects) {
			if p := &effects[i]; p.Tool.Class.Gated() == held {
				out = append(out, p)
			}
		}
	}
	return out
}

// meets says that two effects move a scope in common.
func (p *Progress) meets(q *Progress) bool {
	return slices.ContainsFunc(p.Tool.Scopes, func(a sequencer.Scope) bool {
		return slices.ContainsFunc(q.Tool.Scopes, a.Overlaps)
	})
}

// undoDetail is what is said of an effect that could not be undone, and how many tries it counts.
func undoDetail(w *work, plan Plan) (tries int, detail string) {
	p := w.p
	switch plan.Why {
	case WhyUnknown:
		return p.Tries + p.UndoTries, unknownDetail(p) + orderDetail(p)
	case WhyBehind, WhyBehindMaybe:
		said := "it was not undone"
		if plan.Why == WhyBehindMaybe {
			said += " by this sidecar (a former one may have done it)"
		}
		return p.UndoTries, fmt.Sprintf("%s, because it is not known that effect %d, which ran after it on the same scope, "+
			"was: settle that one first, then retry or accept this one", said, w.behind.Index)
	case WhyNoUndo:
		return p.Tries, "it happened and no compensation is declared: undo it by hand or accept"
	case WhyUndoRefused:
		return p.UndoTries, "the sink refused to undo it" + colon(p.UndoDone.Detail) + ": undo it by hand or accept"
	case WhyUndoUnknown:
		return p.UndoTries, fmt.Sprintf("it is unknown whether it was undone (%d calls by this sidecar%s): look at the sink",
			p.UndoTries, because(w.undoWhy))
	case WhyNotUndone:
		if errors.Is(w.undoWhy, ErrChangedTool) {
			return p.UndoTries, "it happened and was not undone"
		}
		return p.UndoTries, fmt.Sprintf("it was not undone: %d tries did not reach the sink%s; retry or undo it by hand",
			p.UndoTries, because(w.undoWhy))
	}
	return p.Tries, ""
}

// orderDetail is what is said of an order to refuse a call of unknown outcome.
func orderDetail(p *Progress) (detail string) {
	if p.UndoDone != nil && !p.UndoLost {
		detail += "; the sink was told to refuse its key from now on"
	}
	if p.Key != "" && p.Tool.Undo && !p.Tool.Forbids {
		detail += "; nothing was sent to undo it, because its sink is not declared to forbid a key"
	}
	return detail
}

// canOrder says that the compensation can be made without the call's answer, under a key.
func (g *Engine) canOrder(p *Progress) bool {
	u, err := g.undoCall(p, Answer{})
	return err == nil && u.call.Key != ""
}

// undoing is a compensation's call and what the policy says of its tool.
type undoing struct {
	call Call
	tool Tool
}

// Compensation is the call that undoes an effect, given what that answered, and what the policy says of its tool.
// It goes under the same key from every process and in every try.
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

// undoJob is the compensation of an effect that ran, or an order to refuse one that may arrive.
func (g *Engine) undoJob(p *Progress, claim Claim) (*job, error) {
	var a Answer
	if p.Ran() {
		a = *p.Answer
	}
	u, err := g.undoCall(p, a)
	if err != nil {
		return nil, err
	}
	adapter, err := g.adapter(&p.Effect, u.call.Tool)
	if err != nil {
		return nil, err
	}
	j := &job{steps: undoSteps(), p: p, call: u.call, adapter: adapter, max: u.tool.maxTime(), life: u.tool.KeyLife,
		retry: u.tool.Retry, maybe: MayBeUndone(p, claim)}
	j.foreign = j.maybe
	g.recall(j)
	return g.begin(j), nil
}
