package gate

import (
	"context"
	"errors"
	"fmt"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
)

// Release lets a committed transaction's held effects leave, in issuance order, each once those before it are
// through. One that fails for good stops the rest: they stay unsent and are residue. What was answered before is
// not called again, so it may be called anew after a crash, or after an error, which says that the context or the
// lease ended or that a mark could not be written. The effects are all of the transaction, by index; their
// progress is kept up to date in place.
func (g *Engine) Release(ctx context.Context, effects []Progress, claim Claim) (Settlement, error) {
	ordered(effects)
	if err := g.Wait(ctx, effects, claim, g.clock.Now()); err != nil {
		return Settlement{}, err
	}
	s := Settlement{NoneElse: claim.whole()}
	var stopped *Progress
	for i := range effects {
		p := &effects[i]
		if !p.Tool.Class.Gated() {
			continue
		}
		if stopped != nil && p.Answer == nil {
			if err := g.unsent(&s, p, stopped, claim); err != nil {
				return Settlement{}, err
			}
			continue
		}
		clean, err := g.release(ctx, &s, p, claim)
		if err != nil {
			return Settlement{}, fmt.Errorf("releasing %s/%d (%s): %w", p.Tx, p.Index, p.Tool.Name, err)
		}
		if !clean && stopped == nil {
			stopped = p
		}
	}
	return s, nil
}

// ordered panics unless the effects are of one transaction, by index.
func ordered(effects []Progress) {
	for i := 1; i < len(effects); i++ {
		if a, b := &effects[i-1], &effects[i]; a.Tx != b.Tx || a.Index >= b.Index {
			panic(fmt.Sprintf("gate: %s/%d comes before %s/%d", a.Tx, a.Index, b.Tx, b.Index))
		}
	}
}

// unsent is what is said of an effect behind one that failed.
func (g *Engine) unsent(s *Settlement, p, stopped *Progress, claim Claim) error {
	if open(p, claim) || p.GivenUp {
		g.residue(s, p, sequencer.ResultUnresolved, p.Tries, fmt.Sprintf("not sent by this sidecar because effect "+
			"%d failed; a former one may have sent it: look at the sink", stopped.Index))
		return nil
	}
	return g.staysUnsent(s, p, fmt.Sprintf("it did not leave, because effect %d before it failed: settle that one, then "+
		"retry or accept this one", stopped.Index))
}

// staysUnsent notes that an effect has certainly not left and is not tried any more. The mark is what tells it, later
// and elsewhere, from one of which nothing is known.
func (g *Engine) staysUnsent(s *Settlement, p *Progress, detail string) error {
	g.residue(s, p, sequencer.ResultPartial, p.Tries, detail)
	why := s.Residue[len(s.Residue)-1].Detail
	return g.mark(p, Mark{Step: StepNotSent, Detail: why}, failpoint.NotSentBefore, failpoint.NotSentAfter)
}

// release lets one effect leave. It reports whether it is through.
func (g *Engine) release(ctx context.Context, s *Settlement, p *Progress, claim Claim) (bool, error) {
	if p.Answer == nil && !p.GivenUp {
		why, err := g.send(ctx, p, claim)
		if err != nil {
			return false, err
		}
		if p.Answer == nil && !p.GivenUp {
			detail := fmt.Sprintf("it did not leave: %d tries did not reach the sink%s; retry once it is back, or accept",
				p.Tries, because(why))
			if errors.Is(why, ErrChangedTool) {
				detail = "it did not leave"
			}
			return false, g.staysUnsent(s, p, detail)
		}
	}
	switch {
	case p.Answer == nil:
		g.residue(s, p, sequencer.ResultUnresolved, p.Tries, unknownDetail(p))
		return false, nil
	case p.Answer.Refused || p.Answer.Absent:
		g.residue(s, p, sequencer.ResultPartial, p.Tries, "the sink refused it, nothing happened"+colon(p.Answer.Detail)+
			"; do it by hand or accept")
		return false, nil
	}
	s.list(p, sequencer.ResultClean)
	return true, nil
}

func unknownDetail(p *Progress) string {
	if p.Key == "" {
		return fmt.Sprintf("nobody knows whether it happened (%d calls%s); it has no key, so it is not repeated: look at "+
			"the sink", p.Tries, colon(p.Why))
	}
	return fmt.Sprintf("nobody knows whether it happened (%d calls under key %q%s): look at the sink, or retry under it",
		p.Tries, p.Key, colon(p.Why))
}

// send drives a release until it is answered, given up, or certainly unsent. The error that it returns first is why.
func (g *Engine) send(ctx context.Context, p *Progress, claim Claim) (why, err error) {
	maybe := open(p, claim)
	j, err := g.callJob(p)
	if err != nil {
		if maybe {
			return err, g.giveUp(p, err)
		}
		return err, nil
	}
	j.steps, j.eager, j.maybe = releaseSteps(), false, maybe
	e, err := g.drive(ctx, j)
	if err == nil && e == endUnknown {
		err = g.giveUp(p, j.why)
	}
	return j.why, err
}

func colon(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + detail
}

// list adds an effect to what the settle intent names.
func (s *Settlement) list(p *Progress, r sequencer.Result) {
	s.Effects = append(s.Effects, sequencer.Settled{Index: p.Index, Scopes: p.Tool.Scopes, Result: r})
}

// residue lists an effect that could not be made clean.
func (g *Engine) residue(s *Settlement, p *Progress, r sequencer.Result, tries int, detail string) {
	switch r {
	case sequencer.ResultLeaked:
		g.Metrics.Leaked.Add(1)
	case sequencer.ResultUnresolved:
		g.Metrics.Unresolved.Add(1)
	case sequencer.ResultPartial:
		g.Metrics.Partial.Add(1)
	default:
		panic(fmt.Sprintf("gate: %s/%d is residue, but %s", p.Tx, p.Index, r))
	}
	s.list(p, r)
	one := Residue{Effect: p.Effect, Result: r, Detail: detail, Tries: tries}
	if err := Unchanged(g.tools, &p.Effect); err != nil {
		one.Code = CodeChangedTool
		one.Detail += fmt.Sprintf("; %v: nothing is called by the new one. Do by hand what is left and accept, or retry "+
			"as it is declared now", err)
	}
	s.Residue = append(s.Residue, one)
}
