package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/topology/pause"
)

// Bounds that a policy does not give, or may leave out.
const (
	defaultMaxTime = 30 * time.Second
	defaultBackoff = 100 * time.Millisecond
	defaultMost    = 30 * time.Second
	eagerTries     = 8 // of an eager call, within its maximum time
)

func (t *Tool) maxTime() time.Duration {
	if t.MaxTime <= 0 {
		return defaultMaxTime
	}
	return t.MaxTime
}

// wait is the backoff before the try after n of them.
func (r Retry) wait(n int) time.Duration {
	row := pause.Doubling{Least: r.Backoff, Most: r.Most}
	if row.Least <= 0 {
		row.Least = defaultBackoff
	}
	if row.Most <= 0 {
		row.Most = defaultMost
	}
	return row.Nth(n)
}

// work is one effect that is carried through a phase.
type work struct {
	p       *Progress
	claim   Claim
	phase   Phase
	first   bool      // only what comes before any effect is undone
	behind  *Progress // the effect that keeps this one from being touched; nil: none
	call    *job      // nil: not looked at yet, or it cannot be made, which no says
	undo    *job
	no      error // why the call cannot be made
	undoNo  error
	undoWhy error // why the compensation did not get through
	sought  bool
	again   bool
	found   *Answer
	lapsed  bool
}

// carry takes the steps that the rule says, one after the other, until nothing is left of the phase but to report. An
// error says that it is to be gone on with later: the context ended, the lease does, or a mark could not be written.
func (g *Engine) carry(ctx context.Context, w *work) (Plan, error) {
	for {
		plan := Next(w.p, w.claim, g.facts(w))
		if plan.Over() || w.first && !plan.First {
			// What remains is to report; or it comes after the first look at all effects, in order.
			return plan, nil
		}
		err := g.do(ctx, w, plan)
		goesOn := err != nil && plan.Do != DoGiveUp && plan.Do != DoLose // these two end a job
		// Also after an error: the tries that were made count towards the policy's bound when another settlement goes on.
		g.remember(w.call, goesOn)
		g.remember(w.undo, goesOn)
		if err != nil {
			return plan, err
		}
	}
}

// do takes one step.
func (g *Engine) do(ctx context.Context, w *work, plan Plan) error {
	j, no := w.call, w.no
	if plan.Undo {
		j, no = w.undo, w.undoNo
	}
	if err := g.passOver(ctx, j, plan); err != nil {
		return err
	}
	switch plan.Do {
	case DoWait:
		// Begun now, it could be overtaken by the former try, which lands behind it (holes 8b).
		return g.land(ctx, j)
	case DoAsk:
		return g.ask(ctx, w, j, plan)
	case DoStart, DoRepeat, DoCompensate, DoForbid:
		return g.try(ctx, j)
	case DoAnswer:
		return g.answered(w, j, plan)
	case DoTakeBack:
		return g.takeBack(ctx, j, plan.Last)
	case DoGiveUp:
		if j != nil {
			no = j.why
		}
		// Marked, because from here on the transaction can only abort, also for the next incarnation (holes 6).
		g.Metrics.GivenUp.Add(1)
		return g.mark(w.p, Mark{Step: StepGivenUp, Detail: text(no)}, failpoint.GiveUpBefore, failpoint.GiveUpAfter)
	case DoLose:
		if j != nil {
			no = j.why
		}
		w.undoWhy = no
		return g.mark(w.p, Mark{Step: StepUndoLost, Detail: text(no)}, failpoint.UndoLostBefore, failpoint.UndoLostAfter)
	case DoDrop:
		// The mark is the promise that it never leaves, to a later owner as well.
		return g.mark(w.p, Mark{Step: StepDropped}, failpoint.DropBefore, failpoint.DropAfter)
	}
	// A step of the rule that the engine does not know must not be taken for done.
	panic(fmt.Sprintf("gate: the engine cannot %s for %s/%d", plan.Do, w.p.Tx, w.p.Index))
}

// passOver notes what the rule did not take as an answer.
func (g *Engine) passOver(ctx context.Context, j *job, plan Plan) error {
	if j == nil || j.heard == HeardNothing || plan.Do == DoAnswer || plan.Do == DoTakeBack {
		return nil
	}
	heard := j.heard
	j.heard = HeardNothing
	switch heard {
	case HeardAnswer: // this try did nothing, so it is not on its way
		no := j.said
		j.no, j.why = &no, fmt.Errorf("refused now (%s), but an earlier try was not answered",
			cmp.Or(no.Detail, "no reason given"))
		// The lease or the process ends: the next owner weighs it, with the marks that there are.
		return context.Cause(ctx)
	case HeardUnsent:
		return context.Cause(ctx)
	}
	return nil
}

// leased returns ErrLease unless the lease surely lasts longer than a call can.
func (g *Engine) leased(ctx context.Context, j *job) error {
	lease := g.lease
	if own, ok := ctx.Value(leaseKey{}).(Lease); ok {
		lease = own
	}
	if left := lease.Left(); left <= j.max {
		// A call that outlasts the lease lands after the next owner has settled (holes 8).
		g.Metrics.LeaseStops.Add(1)
		return fmt.Errorf("%w: calling %s takes up to %s, %s is left", ErrLease, j.call.Tool, j.max, left)
	}
	return nil
}

// try makes the call once. What came of it the rule weighs.
func (g *Engine) try(ctx context.Context, j *job) error {
	if j.tries > 0 {
		if err := g.clock.Sleep(ctx, j.retry.wait(j.tries)); err != nil {
			// The context ended in the pause: nothing has left, so nothing is marked.
			return fmt.Errorf("waiting to try %s again: %w", j.call.Tool, err)
		}
	}
	if err := errors.Join(context.Cause(ctx), g.leased(ctx, j)); err != nil {
		return err
	}
	g.calls.Add(1)
	defer g.calls.Add(-1)
	number := j.tally.all() + 1
	// Written down before the call: a successor must see that it may have left (holes 4).
	if err := g.mark(j.p, Mark{Step: j.start, Try: number}, j.beforeStart, j.beforeCall); err != nil {
		return err
	}
	// Writing the mark may have taken long: what counts is the time at which the call leaves.
	if err := g.leased(ctx, j); err != nil {
		// Nothing left, and the mark that says otherwise is taken back: else a successor would have to reckon with it.
		return errors.Join(err, g.notSent(j))
	}
	j.tally.made++
	j.asked = false
	if j.tries++; j.tries > 1 {
		g.Metrics.Retries.Add(1)
	}
	left := g.clock.Now()
	if j.tries == 1 {
		j.first = left
	}
	bounded, cancel := g.clock.Within(ctx, j.max)
	answer, err := j.adapter.Call(bounded, j.call)
	cancel()
	g.count(answer, err)
	if err == nil {
		// Not marked yet: whether it settles the call the rule says (a refusal may be about this try alone).
		j.heard, j.said = HeardAnswer, answer
		return nil
	}
	g.log.Warn("a call was not answered", "tool", j.call.Tool, "tx", j.call.Tx, "index", j.call.Index, "try", number,
		"error", err)
	j.why = err
	if errors.Is(err, ErrNotSent) {
		j.heard = HeardUnsent
		return nil
	}
	// No answer is no failure: it may land any time until its maximum time is over (holes 6).
	j.maybe, j.left = true, left
	return context.Cause(ctx)
}

// takeBack notes that no try has left: neither the newest one nor, as a last look-up shows, any other.
func (g *Engine) takeBack(ctx context.Context, j *job, last bool) error {
	if j.heard = HeardNothing; last {
		j.maybe = false
		return g.notSent(j)
	}
	return errors.Join(g.notSent(j), context.Cause(ctx))
}

// notSent takes back the mark of a start, unless an earlier try may have reached the sink.
func (g *Engine) notSent(j *job) error {
	if j.maybe {
		// A try before this one may have left, and its start stands (holes 13b).
		return nil
	}
	return g.mark(j.p, Mark{Step: StepNotSent}, failpoint.NotSentBefore, failpoint.NotSentAfter)
}

// answered marks what the sink said.
func (g *Engine) answered(w *work, j *job, plan Plan) error {
	a := plan.Answer
	switch {
	case plan.Why == WhyUnsent:
		a.Detail = "the call did not leave" + because(j.why)
	case plan.Why == WhyAbsent:
		a = never(a, j.why)
	}
	m := Mark{Step: StepAnswered, Answer: &a}
	if plan.Undo {
		m.Step = StepUndone
		if a.Refused {
			m.Step, m.Detail = StepUndoLost, a.Detail
		}
	}
	w.found, j.heard = nil, HeardNothing
	return g.mark(j.p, m, j.afterCall, j.afterMark)
}

// ask looks a call up.
func (g *Engine) ask(ctx context.Context, w *work, j *job, plan Plan) error {
	landed := g.landed(j)
	a, ok, err := g.look(ctx, j)
	if err != nil {
		// The sink was not asked to the end: an answer half heard says nothing.
		return err
	}
	switch {
	case plan.Why == WhyShowsUp || plan.Why == WhyLapsed:
		if w.sought = true; !plan.First {
			w.again = true
		}
		if w.lapsed = ok && a.Absent; ok && !a.Absent && plan.Why == WhyShowsUp {
			w.found = &a
		}
		return nil
	case plan.Last:
		j.looked = true
	}
	w.sought, j.asked = true, true // what it says is as new as a further look-up could be
	if ok {
		j.heard, j.said, j.sure = HeardLook, a, landed
		if plan.Last {
			j.heard = HeardLast
		}
	}
	return nil
}

// landed says that no try can be on its way any more.
func (g *Engine) landed(j *job) bool { return g.clock.Now().Sub(j.left) >= j.max }

// land waits until no try can be on its way any more.
func (g *Engine) land(ctx context.Context, j *job) error {
	// A call that no answer came of may land until its maximum time is over, and what is begun before would be overtaken.
	if err := g.clock.Sleep(ctx, j.max-g.clock.Now().Sub(j.left)); err != nil {
		return fmt.Errorf("waiting until a call of %s cannot land any more: %w", j.call.Tool, err)
	}
	return nil
}

// never is the answer of a call that was looked up and never arrived.
func never(a Answer, why error) Answer {
	a.Absent, a.Refused = true, true
	a.Detail = cmp.Or(a.Detail, "looked up: the call never arrived") + because(why)
	return a
}

// look asks the sink what became of the call. Calls without a key cannot be told apart, so they are not asked for.
func (g *Engine) look(ctx context.Context, j *job) (Answer, bool, error) {
	if j.call.Key == "" || j.mute {
		// Without a key the sink could only tell of calls that look alike.
		return Answer{}, false, nil
	}
	g.Metrics.LookUps.Add(1)
	failpoint.Hit(failpoint.LookUpBefore)
	bounded, cancel := g.clock.Within(ctx, j.max)
	a, err := j.adapter.LookUp(bounded, j.call)
	cancel()
	failpoint.Hit(failpoint.LookUpAfter)
	if err == nil {
		// A sink that may have forgotten the key does not know that the call never arrived.
		return a, !a.Absent || g.remembered(j), nil
	}
	j.mute = errors.Is(err, ErrNoLookup)
	if cause := context.Cause(ctx); cause != nil {
		return Answer{}, false, fmt.Errorf("looking up a call of %s: %w", j.call.Tool, cause)
	}
	return Answer{}, false, nil
}
