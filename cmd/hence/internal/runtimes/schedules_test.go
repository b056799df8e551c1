package runtimes_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
)

// shape is an operation over the cells x and y, as bits 1 and 2.
type shape struct {
	reads, writes int
	backward      bool // its effects complete in the reverse order
}

// event is one thing that happens in a schedule; of is the operation.
type event struct {
	what byte // b egin, c ommit, r etract, t ool removed, s ignature changed
	of   int
}

// schedule is a case: operations, of agents in turn, and what happens in which order. All plan to call one tool.
type schedule struct {
	agents int
	ops    []shape
	events []event
}

func cells(bits int) (names []string) {
	for i, name := range []string{"x", "y"} {
		if bits>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// String is the schedule for people.
func (s schedule) String() string {
	var b strings.Builder
	for i, o := range s.ops {
		fmt.Fprintf(&b, "op%d of agent%d reads %v writes %v backward %v; ", i, i%s.agents, cells(o.reads),
			cells(o.writes), o.backward)
	}
	for _, e := range s.events {
		fmt.Fprintf(&b, "%c%d ", e.what, e.of)
	}
	return b.String()
}

func opName(i int) string { return fmt.Sprintf("op%d", i) }

// scenario is the schedule as steps.
func (s schedule) scenario() scenarios.Scenario {
	steps := []scenarios.Step{scenarios.Register("t", "v1")}
	for _, e := range s.events {
		o, op := s.ops[e.of], opName(e.of)
		switch e.what {
		case 'b':
			agent := fmt.Sprintf("agent%d", e.of%s.agents)
			steps = append(steps, scenarios.Begin(op, agent, cells(o.reads)...).Planning("t"))
		case 'c':
			for _, cell := range cells(o.writes) {
				steps = append(steps, scenarios.Issue(op, cell, scenarios.Text(op)))
			}
			if n := len(cells(o.writes)); o.backward && n == 2 {
				steps = append(steps, scenarios.Complete(op, 1), scenarios.Complete(op, 0))
			}
			steps = append(steps, scenarios.Commit(op))
		case 'r':
			steps = append(steps, scenarios.Retract(op))
		case 't':
			steps = append(steps, scenarios.Remove("t"))
		case 's':
			steps = append(steps, scenarios.Register("t", "v2"))
		}
	}
	return scenarios.Scenario{Name: "schedule", Steps: steps}
}

// run is the schedule under a runtime.
func (s schedule) run(r *runtimes.Runtime, each func()) *scenarios.Result {
	return scenarios.Run(s.scenario(), r, scenarios.Options{Each: each})
}

// orders are all orders in which operations begin and commit, each agent's own one after the other.
func orders(ops, agents int) (all [][]event) {
	next := make([]int, agents) // of each agent: how many of its steps are done
	var events []event
	var step func()
	step = func() {
		if len(events) == 2*ops {
			all = append(all, append([]event(nil), events...))
			return
		}
		for a := range agents {
			op := a + agents*(next[a]/2)
			if op >= ops {
				continue
			}
			events = append(events, event{"bc"[next[a]%2], op})
			next[a]++
			step()
			next[a]--
			events = events[:len(events)-1]
		}
	}
	step()
	return all
}

// added are the events with one more: each operation retracted at each place after its commit, the tool removed or
// changed at each place. With is which of both; the plain events come first.
func added(events []event, with string) iter.Seq[[]event] {
	return func(yield func([]event) bool) {
		if !yield(events) {
			return
		}
		put := func(at int, e event) bool {
			return yield(append(append(append([]event(nil), events[:at]...), e), events[at:]...))
		}
		for i, e := range events {
			for at := i + 1; e.what == 'c' && strings.Contains(with, "r") && at <= len(events); at++ {
				if !put(at, event{'r', e.of}) {
					return
				}
			}
			if strings.Contains(with, "t") && (!put(i, event{'t', 0}) || !put(i, event{'s', 0})) {
				return
			}
		}
	}
}

// shapes are all ways in which operations read and write; with backward also those whose effects complete so.
func shapes(ops int, backward bool) (all [][]shape) {
	var one []shape
	for bits := range 16 {
		one = append(one, shape{bits >> 2, bits & 3, false})
		if backward && bits&3 == 3 {
			one = append(one, shape{bits >> 2, 3, true})
		}
	}
	all = [][]shape{nil}
	for range ops {
		var longer [][]shape
		for _, before := range all {
			for _, s := range one {
				longer = append(longer, append(append([]shape(nil), before...), s))
			}
		}
		all = longer
	}
	return all
}

// schedules are all of so many operations of two agents. One more event is added at a time, or with product a
// retraction and a change of the registry together.
func schedules(ops int, product bool) iter.Seq[schedule] {
	return func(yield func(schedule) bool) {
		for _, s := range shapes(ops, true) {
			for _, order := range orders(ops, 2) {
				with, then := "rt", ""
				if product {
					with, then = "r", "t"
				}
				for first := range added(order, with) {
					for events := range added(first, then) {
						if !yield(schedule{2, s, events}) {
							return
						}
					}
				}
			}
		}
	}
}

// mutantSchedules are every thirteenth of two operations, and one of three that rest on each other.
func mutantSchedules() iter.Seq[schedule] {
	return func(yield func(schedule) bool) {
		chain := schedule{2, []shape{{0, 1, false}, {1, 2, false}, {2, 1, false}}, []event{{'b', 0}, {'c', 0}, {'b', 1},
			{'c', 1}, {'b', 2}, {'c', 2}, {'r', 0}}}
		if !yield(chain) {
			return
		}
		n := 0
		for s := range schedules(2, false) {
			if n++; n%13 == 0 && !yield(s) {
				return
			}
		}
	}
}

// drawn is a schedule of three agents with two operations each.
func drawn(seed uint64) schedule {
	draw := rand.New(rand.NewPCG(seed, 0))
	s := schedule{agents: 3}
	for range 6 {
		s.ops = append(s.ops, shape{draw.IntN(4), draw.IntN(4), draw.IntN(2) == 0})
	}
	next := make([]int, s.agents)
	var committed []int
	for len(committed) < len(s.ops) {
		a := draw.IntN(s.agents)
		op := a + s.agents*(next[a]/2)
		switch n := draw.IntN(10); {
		case n == 0 && len(committed) > 0:
			s.events = append(s.events, event{'r', committed[draw.IntN(len(committed))]})
		case n == 1 && draw.IntN(3) == 0:
			s.events = append(s.events, event{"ts"[draw.IntN(2)], 0})
		case op < len(s.ops):
			s.events = append(s.events, event{"bc"[next[a]%2], op})
			if next[a]%2 == 1 {
				committed = append(committed, op)
			}
			next[a]++
		}
	}
	return s
}
