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

// steps are a job's marks and the points around them.
type steps struct {
	start                                         Step
	beforeStart, beforeCall, afterCall, afterMark failpoint.Point
}

func callSteps() steps {
	return steps{StepStarted, failpoint.CallBeforeStart, failpoint.CallBeforeCall, failpoint.CallAfterCall,
		failpoint.CallAfterAnswer}
}

func releaseSteps() steps {
	return steps{StepStarted, failpoint.ReleaseBeforeStart, failpoint.ReleaseBeforeCall, failpoint.ReleaseAfterCall,
		failpoint.ReleaseAfterAnswer}
}

func undoSteps() steps {
	return steps{StepUndoing, failpoint.UndoBeforeStart, failpoint.UndoBeforeCall, failpoint.UndoAfterCall,
		failpoint.UndoAfterAnswer}
}

// job is one call that is driven to an end.
type job struct {
	steps
	p       *Progress
	call    Call
	adapter Adapter
	max     time.Duration
	life    time.Duration // of the sink's keys; zero: for good
	retry   Retry
	eager   bool // repeated within its maximum time instead of by retry; what did not leave is not tried again
	lookUp  bool // it may only be looked up
	maybe   bool // some try may have reached the sink, or may yet
	foreign bool // and that was not one of this job
	tries   int
	tally   *tally    // of it and of those that it goes on with
	first   time.Time // when the first try left
	left    time.Time // when the newest one left, of anybody
	no      *Answer   // the newest refusal that was no answer to an earlier try
	mute    bool      // the tool cannot look calls up
	why     error     // of the last try
}

// end is what a job came to.
type end uint8

const (
	endAnswered end = iota // and marked so
	endNotSent             // certainly nothing reached the sink
	endUnknown             // and nothing is on its way any more
)

// drive makes a call until its outcome is known, as often as it may. An error says that it is to be gone on with
// later: the context ended, the lease does, or a mark could not be written.
func (g *Engine) drive(ctx context.Context, j *job) (end, error) {
	g.recall(j)
	e, err := g.driven(ctx, j)
	g.remember(j, err != nil)
	return e, err
}

func (g *Engine) driven(ctx context.Context, j *job) (end, error) {
	j.left, j.foreign = g.clock.Now(), j.maybe
	if j.p.Waited {
		j.left = j.left.Add(-j.max)
	}
	if found, err := g.ask(ctx, j, j.eager); found || err != nil {
		return endAnswered, err
	}
	for g.again(j) {
		if j.tries > 0 {
			if err := g.clock.Sleep(ctx, j.retry.wait(j.tries)); err != nil {
				return 0, fmt.Errorf("waiting to try %s again: %w", j.call.Tool, err)
			}
		}
		if done, err := g.try(ctx, j); done || err != nil {
			return endAnswered, err
		}
		if found, err := g.ask(ctx, j, false); found || err != nil {
			return endAnswered, err
		}
	}
	if !j.maybe {
		return endNotSent, nil
	}
	return g.lastLook(ctx, j)
}

// again says whether one more try may be made.
func (g *Engine) again(j *job) bool {
	switch {
	case j.lookUp || j.maybe && !g.remembered(j):
		return false
	case !j.eager: // the tries of a job that a short lease has stopped count: else they would never be over
		return j.tries == 0 || j.tally.made < max(j.retry.Attempts, 1)
	case j.tries == 0:
		return true
	case !j.maybe:
		return false
	}
	// A call that took all of its time is repeated once nevertheless: its key makes that harmless, and not knowing costs
	// the whole transaction.
	return j.tries == 1 || j.tries < eagerTries && g.clock.Now().Sub(j.first) < j.max
}

// remembered says that the sink surely still knows the call's key when a repetition gets there.
func (g *Engine) remembered(j *job) bool {
	if j.call.Key == "" {
		return false
	}
	first := j.first
	if j.foreign {
		first = j.p.At
	}
	return j.life <= 0 || !first.IsZero() && g.clock.Now().Add(j.max).Sub(first) < j.life
}

// leased returns ErrLease unless the lease surely lasts longer than a call can.
func (g *Engine) leased(ctx context.Context, j *job) error {
	lease := g.lease
	if own, ok := ctx.Value(leaseKey{}).(Lease); ok {
		lease = own
	}
	if left := lease.Left(); left <= j.max {
		g.Metrics.LeaseStops.Add(1)
		return fmt.Errorf("%w: calling %s takes up to %s, %s is left", ErrLease, j.call.Tool, j.max, left)
	}
	return nil
}

// try makes the call once. It reports whether the sink answered; what it did not answer is in j.
func (g *Engine) try(ctx context.Context, j *job) (bool, error) {
	if err := errors.Join(context.Cause(ctx), g.leased(ctx, j)); err != nil {
		return false, err
	}
	g.calls.Add(1)
	defer g.calls.Add(-1)
	number := j.tally.all() + 1
	if err := g.mark(j.p, Mark{Step: j.start, Try: number}, j.beforeStart, j.beforeCall); err != nil {
		return false, err
	}
	// Writing the mark may have taken long: what counts is the time at which the call leaves.
	if err := g.leased(ctx, j); err != nil {
		return false, errors.Join(err, g.notSent(j))
	}
	j.tally.made++
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
	refused := err == nil && !j.answers(answer)
	switch {
	case refused:
		err = fmt.Errorf("refused now (%s), but an earlier try was not answered", cmp.Or(answer.Detail, "no reason given"))
		j.no = &answer
	case err == nil:
		return true, g.answered(j, answer)
	}
	g.log.Warn("a call was not answered", "tool", j.call.Tool, "tx", j.call.Tx, "index", j.call.Index, "try", number,
		"error", err)
	j.why = err
	switch {
	case refused: // this try did nothing, so it is not on its way
		err = nil
	case errors.Is(err, ErrNotSent):
		err = g.notSent(j)
	default:
		j.maybe, j.left, err = true, left, nil
	}
	return false, errors.Join(err, context.Cause(ctx))
}

// answers says whether what the sink said of the newest try settles the call. A refusal does so if nothing else may
// have reached the sink: it may come from what stands before the keys (credentials, limits, a standby), which knows
// nothing of an earlier try. What the sink's record says of the key is about all of them; not so of a compensation,
// whose arguments are made of an answer that a former owner may have known better, so they may differ under one key.
func (j *job) answers(a Answer) bool {
	return !a.Refused || !j.maybe || a.AboutKey && j.start != StepUndoing
}

// notSent takes back the mark of a start, unless an earlier try may have reached the sink.
func (g *Engine) notSent(j *job) error {
	if j.maybe {
		return nil
	}
	return g.mark(j.p, Mark{Step: StepNotSent}, failpoint.NotSentBefore, failpoint.NotSentAfter)
}

// answered marks what the sink said.
func (g *Engine) answered(j *job, a Answer) error {
	m := Mark{Step: StepAnswered, Answer: &a}
	if j.start == StepUndoing {
		m.Step = StepUndone
		if a.Refused {
			m.Step, m.Detail = StepUndoLost, a.Detail
		}
	}
	return g.mark(j.p, m, j.afterCall, j.afterMark)
}

// ask looks a call up whose outcome is not known. That it never arrived counts only when nothing can be on its way any
// more, and ends the job only when absence is as good as an answer.
func (g *Engine) ask(ctx context.Context, j *job, absence bool) (bool, error) {
	if !j.maybe {
		return false, nil
	}
	landed := g.landed(j)
	a, ok, err := g.look(ctx, j)
	switch {
	case err != nil || !ok:
		return false, err
	case !a.Absent && !j.answers(a):
		return false, nil
	case !a.Absent:
		return true, g.answered(j, a)
	case absence && landed:
		return true, g.answered(j, never(a, nil))
	}
	return false, nil
}

// lastLook waits until nothing can be on its way any more, and looks a last time.
func (g *Engine) lastLook(ctx context.Context, j *job) (end, error) {
	if err := g.land(ctx, j); err != nil {
		return 0, err
	}
	a, ok, err := g.look(ctx, j)
	switch {
	case err != nil:
		return 0, err
	case !ok || !a.Absent && !j.answers(a):
		return endUnknown, nil
	case !a.Absent:
		return endAnswered, g.answered(j, a)
	case j.eager:
		return endAnswered, g.answered(j, never(a, j.why))
	case j.no != nil: // no other try did anything either
		return endAnswered, g.answered(j, *j.no)
	}
	j.maybe = false
	return endNotSent, g.notSent(j)
}

// landed says that no try can be on its way any more.
func (g *Engine) landed(j *job) bool { return g.clock.Now().Sub(j.left) >= j.max }

// land waits until no try can be on its way any more.
func (g *Engine) land(ctx context.Context, j *job) error {
	if g.landed(j) {
		return nil
	}
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
