package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Run makes an eager call, once its touch is granted and it is in the log. An answer that is Refused says that
// nothing happened: the sink said so, or was never reached. After ErrGivenUp the transaction can only be aborted.
// After any other error the call may be on its way if a start was marked: Finish goes on with it. The context must
// outlive the agent's request; one that ends leaves the outcome open.
func (g *Engine) Run(ctx context.Context, e Effect) (Answer, error) {
	w := &work{p: &Progress{Effect: e}, claim: ClaimOwn, phase: PhaseOpen}
	if w.call, w.no = g.callJob(w); w.no != nil {
		// It cannot be made here, and nothing was marked.
		return Answer{}, w.no
	}
	if _, err := g.carry(ctx, w); err != nil {
		return Answer{}, fmt.Errorf("calling %s as %s/%d: %w", e.Tool.Name, e.Tx, e.Index, err)
	}
	if w.p.GivenUp {
		return Answer{}, fmt.Errorf("calling %s as %s/%d: %w%s", e.Tool.Name, e.Tx, e.Index, ErrGivenUp,
			because(w.call.why))
	}
	return *w.p.Answer, nil
}

// Finish settles the outcome of an eager call that was begun and never answered: it is looked up, repeated under its
// key, or given up, which the progress that is returned says. An error says that it is to be called again with that
// progress. An incarnation that did not begin it repeats only what can be undone.
func (g *Engine) Finish(ctx context.Context, p Progress, claim Claim) (Progress, error) {
	if !p.Tool.Class.Eager() {
		// A held call has nothing to find out before the decision: to ask for it would begin it.
		panic(fmt.Sprintf("gate: %s/%d is finished as a call, but is %s", p.Tx, p.Index, p.Tool.Class))
	}
	if !MayHaveLeft(&p, claim) { // else it would be begun
		return p, nil
	}
	one := []Progress{p}
	if err := g.Wait(ctx, one, claim, g.clock.Now()); err != nil {
		// A former owner's call may still be on its way, and what a look-up says of it now may change.
		return p, err
	}
	if _, err := g.carry(ctx, &work{p: &one[0], claim: claim, phase: PhaseOpen}); err != nil {
		return one[0], fmt.Errorf("finding out what became of %s/%d (%s): %w", p.Tx, p.Index, p.Tool.Name, err)
	}
	return one[0], nil
}

const maxDetail = 300 // bytes of an error's text in a record

func text(err error) string {
	if err == nil {
		return ""
	}
	s := Plain(err.Error())
	if len(s) > maxDetail {
		s = strings.ToValidUTF8(s[:maxDetail], "") + "…"
	}
	return s
}

func because(err error) string {
	if err == nil || errors.Is(err, ErrChangedTool) { // residue says that by itself
		return ""
	}
	return ": " + strings.TrimPrefix(text(err), ErrNotSent.Error()+": ") // what it says is said already
}
