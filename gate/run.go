package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/gate/failpoint"
)

// Run makes an eager call, once its touch is granted and it is in the log. An answer that is Refused says that
// nothing happened: the sink said so, or was never reached. After ErrGivenUp the transaction can only be aborted.
// After any other error the call may be on its way if a start was marked: Finish goes on with it. The context must
// outlive the agent's request; one that ends leaves the outcome open.
func (g *Engine) Run(ctx context.Context, e Effect) (Answer, error) {
	p := &Progress{Effect: e}
	j, err := g.callJob(p)
	if err != nil {
		return Answer{}, err
	}
	if err := g.finish(ctx, j); err != nil {
		return Answer{}, fmt.Errorf("calling %s as %s/%d: %w", e.Tool.Name, e.Tx, e.Index, err)
	}
	if p.GivenUp {
		return Answer{}, fmt.Errorf("calling %s as %s/%d: %w%s", e.Tool.Name, e.Tx, e.Index, ErrGivenUp, because(j.why))
	}
	return *p.Answer, nil
}

// Finish settles the outcome of an eager call that was begun and never answered: it is looked up, repeated under its
// key, or given up, which the progress that is returned says. An error says that it is to be called again with that
// progress. Whoever is not the incarnation that began it repeats only what can be undone.
func (g *Engine) Finish(ctx context.Context, p Progress, claim Claim) (Progress, error) {
	if !p.Tool.Class.Eager() {
		panic(fmt.Sprintf("gate: %s/%d is finished as a call, but is %s", p.Tx, p.Index, p.Tool.Class))
	}
	if !open(&p, claim) {
		return p, nil
	}
	one := []Progress{p}
	if err := g.Wait(ctx, one, claim, g.clock.Now()); err != nil {
		return p, err
	}
	err := g.learn(ctx, &one[0], claim == ClaimOwn || p.Tool.Undo)
	return one[0], err
}

// open says that the call may have been made and its outcome is not known.
func open(p *Progress, claim Claim) bool {
	return p.Answer == nil && !p.GivenUp && (p.Started || !claim.whole())
}

// learn finds out what became of a call that may have been made; repeat says that it may be made again under its key.
func (g *Engine) learn(ctx context.Context, p *Progress, repeat bool) error {
	j, err := g.callJob(p)
	if err != nil {
		return g.giveUp(p, err)
	}
	j.maybe, j.lookUp = true, !repeat
	if err := g.finish(ctx, j); err != nil {
		return fmt.Errorf("finding out what became of %s/%d (%s): %w", p.Tx, p.Index, p.Tool.Name, err)
	}
	return nil
}

func (g *Engine) callJob(p *Progress) (*job, error) {
	if !p.Tool.Class.Eager() && !p.Tool.Class.Gated() {
		panic(fmt.Sprintf("gate: %s/%d is called as an effect, but is %s", p.Tx, p.Index, p.Tool.Class))
	}
	a, err := g.adapter(&p.Effect, p.Tool.Name)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", p.Tool.Name, err)
	}
	return &job{steps: callSteps(), p: p, call: g.callOf(&p.Effect), adapter: a, max: p.Tool.maxTime(),
		life: p.Tool.KeyLife, retry: p.Tool.Retry, eager: true}, nil
}

// finish drives an eager call until its progress has an answer or is given up.
func (g *Engine) finish(ctx context.Context, j *job) error {
	e, err := g.drive(ctx, j)
	switch {
	case err != nil:
		return err
	case e == endNotSent:
		return g.answered(j, Answer{Refused: true, Detail: "the call did not leave" + because(j.why)})
	case e == endUnknown:
		return g.giveUp(j.p, j.why)
	}
	return nil
}

func (g *Engine) giveUp(p *Progress, why error) error {
	g.Metrics.GivenUp.Add(1)
	return g.mark(p, Mark{Step: StepGivenUp, Detail: text(why)}, failpoint.GiveUpBefore, failpoint.GiveUpAfter)
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
