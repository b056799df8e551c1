package tables

import (
	"fmt"
	"iter"
	"slices"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/trace"
)

// shape is an operation over the cells x and y, as bits.
type shape struct{ reads, writes int }

// event is one thing that happens in a schedule: b egin, c ommit, r etract, t ool removed.
type event struct {
	what byte
	of   int
}

// schedule is two operations of two agents in one order, both planning to call one tool; backward, the effects of each
// complete in the other order.
type schedule struct {
	ops      [2]shape
	backward bool
	events   []event
}

func cellsOf(bits int) (names []string) {
	for i, name := range []string{"x", "y"} {
		if bits>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

func opName(i int) string { return fmt.Sprint("op", i) }

// schedules are all that two operations can do to two cells, each one in step of them: all their orders, one of them
// retracted or the tool removed at each place.
func schedules(step int) iter.Seq[schedule] {
	return func(yield func(schedule) bool) {
		n := 0
		for bits := range 1 << 9 {
			s := schedule{ops: [2]shape{{bits & 3, bits >> 2 & 3}, {bits >> 4 & 3, bits >> 6 & 3}}, backward: bits>>8 == 1}
			for _, events := range orders() {
				if n++; n%step != 0 {
					continue
				}
				if s.events = events; !yield(s) {
					return
				}
			}
		}
	}
}

// orders are the orders of two operations, and those with one more event.
func orders() (all [][]event) {
	b0, c0, b1, c1 := event{'b', 0}, event{'c', 0}, event{'b', 1}, event{'c', 1}
	for _, plain := range [][]event{{b0, c0, b1, c1}, {b0, b1, c0, c1}, {b0, b1, c1, c0}, {b1, c1, b0, c0},
		{b1, b0, c0, c1}, {b1, b0, c1, c0}} {
		all = append(all, plain)
		for at := range plain {
			all = append(all, slices.Insert(slices.Clone(plain), at, event{'t', 0}))
		}
		for i, e := range plain {
			for at := i + 1; e.what == 'c' && at <= len(plain); at++ {
				all = append(all, slices.Insert(slices.Clone(plain), at, event{'r', e.of}))
			}
		}
	}
	return all
}

// scenario is the schedule as steps.
func (s schedule) scenario() scenarios.Scenario {
	steps := []scenarios.Step{scenarios.Register("t", "v")}
	for _, e := range s.events {
		o, op := s.ops[e.of], opName(e.of)
		switch e.what {
		case 'b':
			steps = append(steps, scenarios.Begin(op, fmt.Sprint("agent", e.of), cellsOf(o.reads)...).Planning("t"))
		case 'c':
			for _, cell := range cellsOf(o.writes) {
				steps = append(steps, scenarios.Issue(op, cell, scenarios.Text(op)))
			}
			if s.backward && o.writes == 3 {
				steps = append(steps, scenarios.Complete(op, 1), scenarios.Complete(op, 0))
			}
			steps = append(steps, scenarios.Commit(op))
		case 'r':
			steps = append(steps, scenarios.Retract(op))
		case 't':
			steps = append(steps, scenarios.Remove("t"))
		}
	}
	return scenarios.Scenario{Name: "schedule", Steps: steps}
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

// four are the anomalies of the lattice.
func four() []anomaly.Kind { return []anomaly.Kind{anomaly.A1, anomaly.A2, anomaly.A3, anomaly.A6} }

// excluded says whether a point excludes a kind.
func excluded(p anomaly.Point, k anomaly.Kind) bool {
	switch k {
	case anomaly.A1:
		return p.A1
	case anomaly.A2:
		return p.A2
	case anomaly.A3:
		return p.A3
	}
	return p.A6
}

// fires are those of the four that some schedule has under a runtime, and how many schedules were run.
func (e *Env) fires(kinds ...runtimes.Kind) (point anomaly.Point, n int) {
	for s := range schedules(e.of(67, 1)) {
		n++
		point = union(point, fired(e.run(s.scenario(), kinds...)))
	}
	return point, n
}

// fired are those of the four that a run has.
func fired(r *scenarios.Result) anomaly.Point {
	return anomaly.Point{A1: r.Has(anomaly.A1), A2: r.Has(anomaly.A2), A3: r.Has(anomaly.A3), A6: r.Has(anomaly.A6)}
}

// model is what a runtime does, in as few words as possible: which operations of a schedule stand at its end.
func model(k runtimes.Kind, s schedule) (stands [2]bool) {
	var began, wrote [2]int
	var open, over, tool [2]bool
	clock, there := 0, true
	rests := func(i, on int) bool { // i read what on wrote, and on wrote before i began and last
		return s.ops[i].reads&s.ops[on].writes != 0 && wrote[on] > 0 && wrote[on] <= began[i]
	}
	for _, e := range s.events {
		i, other := e.of, 1-e.of
		switch e.what {
		case 'b':
			held := open[other] && s.ops[other].reads&s.ops[i].reads != 0
			open[i], began[i], tool[i] = k != runtimes.PessimisticDrop || !held, clock, there
			over[i] = !open[i]
		case 'c':
			if over[i] {
				continue
			}
			open[i], over[i] = false, true
			newer := stands[other] && wrote[other] > began[i] && s.ops[other].writes&s.ops[i].reads != 0
			refused := false
			switch k {
			case runtimes.PessimisticDrop:
				refused = open[other] && s.ops[other].reads&s.ops[i].writes != 0
			case runtimes.Snapshot:
				refused = newer && s.ops[i].writes != 0
			case runtimes.Serializable:
				refused = newer
			case runtimes.Cascade:
				refused = newer || rests(i, other) && !stands[other]
			case runtimes.RegistryValidate:
				refused = tool[i] && !there
			}
			if !refused {
				clock++
				wrote[i], stands[i] = clock, true
			}
		case 'r':
			if !stands[i] {
				continue
			}
			stands[i] = false
			if k == runtimes.Cascade && stands[other] && rests(other, i) {
				stands[other] = false
			}
			if !open[other] && !over[other] {
				wrote[i] = 0 // who begins later does not see it
			}
		case 't':
			there = false
		}
	}
	return stands
}

// union has what either point has.
func union(p, q anomaly.Point) anomaly.Point {
	return anomaly.Point{A1: p.A1 || q.A1, A2: p.A2 || q.A2, A3: p.A3 || q.A3, A6: p.A6 || q.A6}
}
