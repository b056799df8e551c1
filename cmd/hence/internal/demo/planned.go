package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hence-dev/hence/sidecar/client"
)

// planWait is how long a call of a planned turn waits for those before it. An agent of the demo sends all of them at
// once, so that one which has not come by then was left out or is late.
const planWait = 100 * time.Millisecond

// The ends of a planned call, as its agent knows them; empty: it was refused with its transaction, or not answered.
const (
	plannedMade   = "made"
	plannedNever  = "never came" // the agent did not make it
	plannedPassed = "passed"     // it came after a later one had gone without it
)

// PlannedRecord is one call of a plan.
type PlannedRecord struct {
	Call  string `json:"call"`  // its id
	Index int    `json:"index"` // which the plan gave it
	Tool  string `json:"tool"`
	End   string `json:"end,omitempty"`
}

// actPlanned calls the tools of a task as an agent does whose model asks for several at once: a plan says which counts
// before which, and then they are made side by side, in any order. In some turns the first call is late, and in some
// it never comes.
func (a *agent) actPlanned(ctx context.Context, tx *client.Tx, at *Attempt) error {
	if err := a.step(ctx); err != nil {
		return err
	}
	calls := a.errand(at, 2)
	ids := make([]string, len(calls))
	for i, c := range calls {
		ids[i] = c.id
	}
	var plan client.Planned
	err := insistProblem(ctx, func() (err error) {
		plan, err = tx.Plan(ctx, ids...)
		return err
	})
	if err != nil {
		return fmt.Errorf("plan the calls: %w", err)
	}
	for i, place := range plan.Calls {
		at.Planned = append(at.Planned, PlannedRecord{Call: place.Call, Index: int(place.Index), Tool: calls[i].tool})
	}
	late, never := false, false
	if at.N == 1 { // a further attempt makes all of them, so that a task is done in the end
		a.turns++
		late, never = a.turns%4 == 3, a.turns%4 == 2
	}
	answers, errs := make([]*EffectRecord, len(calls)), make([]error, len(calls))
	var beside sync.WaitGroup
	for _, i := range a.rng.Perm(len(calls)) {
		if i > 0 || !late && !never {
			beside.Go(func() { answers[i], errs[i] = a.call(ctx, tx, calls[i], calls[i].id) })
		}
	}
	beside.Wait()
	if late && errors.Join(errs...) == nil {
		answers[0], errs[0] = a.call(ctx, tx, calls[0], calls[0].id)
	}
	if never {
		at.Planned[0].End = plannedNever
	}
	return a.answered(ctx, tx, at, calls, answers, errs)
}

// answered notes what became of the calls of a plan. One that came too late is made again, behind the plan.
func (a *agent) answered(ctx context.Context, tx *client.Tx, at *Attempt, calls []toolCall, answers []*EffectRecord,
	errs []error) (first error) {
	for i, c := range calls {
		if p, ok := errors.AsType[*client.Problem](errs[i]); ok && p.Code == "plan_passed" {
			at.Planned[i].End = plannedPassed
			answers[i], errs[i] = nil, nil
			if first == nil {
				answers[i], errs[i] = a.call(ctx, tx, c, "")
			}
		} else if answers[i] != nil {
			at.Planned[i].End = plannedMade
		}
		at.took(answers[i])
		if errs[i] != nil && first == nil {
			first = fmt.Errorf("call %s: %w", c.tool, errs[i])
		}
	}
	return first
}

// Planned counts the planned turns of a run: how many there were, and what became of their calls.
type Planned struct {
	Turns   int `json:"turns"`
	Made    int `json:"made"`
	Never   int `json:"never_came"`
	Passed  int `json:"passed"`
	Against int `json:"against_plan"` // calls that did not keep to the plan
}

func (p *Planned) count(calls []PlannedRecord) {
	p.Turns++
	for _, c := range calls {
		switch c.End {
		case plannedMade:
			p.Made++
		case plannedNever:
			p.Never++
		case plannedPassed:
			p.Passed++
		}
	}
}

// String is what the table says.
func (p Planned) String() string {
	return fmt.Sprintf("%d: %d calls made, %d never came, %d came too late (passed); %d not as planned",
		p.Turns, p.Made, p.Never, p.Passed, p.Against)
}
