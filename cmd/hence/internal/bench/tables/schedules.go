package tables

import (
	"iter"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/cmd/hence/internal/schedules"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/trace"
)

// schedules are all that two operations of two agents can do to two cells, or some of them.
func (e *Env) schedules() iter.Seq[schedules.Schedule] {
	return func(yield func(schedules.Schedule) bool) {
		n, step := 0, e.of(67, 1)
		for s := range schedules.All(2, false) {
			if n++; n%step == 0 && !yield(s) {
				return
			}
		}
	}
}

// run runs steps under a runtime of kinds, and judges the history with the detectors that are the subject.
func (e *Env) run(s scenarios.Scenario, kinds ...runtimes.Kind) *scenarios.Result {
	r := scenarios.Run(s, e.Subject.Runtime(kinds...), scenarios.Options{})
	r.Report = e.judge(r.Records)
	return r
}

// judge is what the detectors find in a history.
func (e *Env) judge(records []trace.Record) *anomaly.Report {
	h := anomaly.NewHistory(0)
	for i := range records {
		if err := h.Add(records[i].Op(i + 1)); err != nil {
			panic("tables: " + err.Error()) // two operations of one name
		}
	}
	return e.Subject.Check(h)
}

// fires are those of the four that some schedule has under a runtime, and how many schedules were run.
func (e *Env) fires(kinds ...runtimes.Kind) (point anomaly.Point, n int) {
	for s := range e.schedules() {
		n++
		point = point.Or(fired(e.run(s.Scenario(), kinds...)))
	}
	return point, n
}

// fired are those of the four that a run has.
func fired(r *scenarios.Result) anomaly.Point {
	return anomaly.Point{A1: r.Has(anomaly.A1), A2: r.Has(anomaly.A2), A3: r.Has(anomaly.A3), A6: r.Has(anomaly.A6)}
}
