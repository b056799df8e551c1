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
// not called again, so Release may be called again after a crash, or after an error, which says that the context or
// the lease ended or that a mark could not be written. The effects are all of the transaction, by index; their
// progress is kept up to date in place.
func (g *Engine) Release(ctx context.Context, effects []Progress, claim Claim) (Settlement, error) {
	ordered(effects)
	if err := g.Wait(ctx, effects, claim, g.clock.Now()); err != nil {
		// What a former owner has on its way must have landed: else it lands over what is done now (holes 8b).
		return Settlement{}, err
	}
	s := Settlement{NoneElse: claim.whole()}
	var stopped *Progress
	for i := range effects {
		w := &work{p: &effects[i], claim: claim, phase: PhaseReleased, behind: stopped}
		plan, err := g.carry(ctx, w)
		if err == nil {
			err = g.report(&s, w, plan, w.p.Tries, releaseDetail(w, plan))
		}
		if err != nil {
			// No settlement of half of them: what is not listed would count as clean. It is called again, and goes by the
			// marks.
			return Settlement{}, fmt.Errorf("releasing %s/%d (%s): %w", w.p.Tx, w.p.Index, w.p.Tool.Name, err)
		}
		if stopped == nil && plan.Stops(PhaseReleased) {
			// Later ones were issued knowing of this one: sent without it, the world would see an order that never was.
			stopped = w.p
		}
	}
	return s, nil
}

// ordered panics unless the effects are of one transaction, by index.
func ordered(effects []Progress) {
	for i := 1; i < len(effects); i++ {
		if a, b := &effects[i-1], &effects[i]; a.Tx != b.Tx || a.Index >= b.Index {
			// Released or undone in another order, an older value could come back over a newer one (holes 7e).
			panic(fmt.Sprintf("gate: %s/%d comes before %s/%d", a.Tx, a.Index, b.Tx, b.Index))
		}
	}
}

// report lists an effect as its plan says. That it has not left is marked: the mark tells it, later and elsewhere,
// from one of which nothing is known.
func (g *Engine) report(s *Settlement, w *work, plan Plan, tries int, detail string) error {
	switch {
	case !plan.Listed:
		return nil
	case plan.Result == sequencer.ResultClean:
		s.list(w.p, plan.Result)
		return nil
	}
	g.residue(s, w.p, plan.Result, tries, detail)
	if plan.Do != DoNeverLeft {
		return nil
	}
	why := s.Residue[len(s.Residue)-1].Detail
	return g.mark(w.p, Mark{Step: StepNotSent, Detail: why}, failpoint.NotSentBefore, failpoint.NotSentAfter)
}

// releaseDetail is what is said of a held call that could not be made clean.
func releaseDetail(w *work, plan Plan) string {
	p, why := w.p, w.no
	if w.call != nil {
		why = w.call.why
	}
	switch plan.Why {
	case WhyBehindMaybe:
		return fmt.Sprintf("not sent by this sidecar because effect %d failed; a former one may have sent it: look at the "+
			"sink", w.behind.Index)
	case WhyBehind:
		return fmt.Sprintf("it did not leave, because effect %d before it failed: settle that one, then retry or accept "+
			"this one", w.behind.Index)
	case WhyUnsent, WhyUnmade:
		if errors.Is(why, ErrChangedTool) {
			return "it did not leave"
		}
		return fmt.Sprintf("it did not leave: %d tries did not reach the sink%s; retry once it is back, or accept",
			p.Tries, because(why))
	case WhyUnknown:
		return unknownDetail(p)
	case WhyRefused:
		return "the sink refused it, nothing happened" + colon(p.Answer.Detail) + "; do it by hand or accept"
	}
	return ""
}

func unknownDetail(p *Progress) string {
	if p.Key == "" {
		return fmt.Sprintf("it is unknown whether it happened (%d calls%s); it has no key, so it is not repeated: look at "+
			"the sink", p.Tries, colon(p.Why))
	}
	return fmt.Sprintf("it is unknown whether it happened (%d calls under key %q%s): look at the sink, or retry under it",
		p.Tries, p.Key, colon(p.Why))
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
		// A clean effect in the list of what is not would keep readers away from a scope that is right.
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
