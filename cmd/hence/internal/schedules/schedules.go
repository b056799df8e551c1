// Package schedules has what two or more agents can do to two cells, in all orders, as scripts that run under a
// runtime; and a model of what the runtimes must make of each.
package schedules

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
)

// Shape is an operation over the cells x and y, as bits 1 and 2.
type Shape struct {
	Reads, Writes int
	Backward      bool // its effects complete in the reverse order
}

// Event is one thing that happens in a schedule; Of is the operation.
type Event struct {
	What byte // b egin, c ommit, r etract, t ool removed, s ignature changed
	Of   int
}

// Schedule is a case: operations, of agents in turn, and what happens in which order. All plan to call one tool.
type Schedule struct {
	Agents int
	Ops    []Shape
	Events []Event
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
func (s Schedule) String() string {
	var b strings.Builder
	for i, o := range s.Ops {
		fmt.Fprintf(&b, "op%d of agent%d reads %v writes %v backward %v; ", i, i%s.Agents, cells(o.Reads),
			cells(o.Writes), o.Backward)
	}
	for _, e := range s.Events {
		fmt.Fprintf(&b, "%c%d ", e.What, e.Of)
	}
	return b.String()
}

// Name is what an operation is called.
func Name(i int) string { return fmt.Sprintf("op%d", i) }

// Scenario is the schedule as steps.
func (s Schedule) Scenario() scenarios.Scenario {
	steps := []scenarios.Step{scenarios.Register("t", "v1")}
	for _, e := range s.Events {
		o, op := s.Ops[e.Of], Name(e.Of)
		switch e.What {
		case 'b':
			agent := fmt.Sprintf("agent%d", e.Of%s.Agents)
			steps = append(steps, scenarios.Begin(op, agent, cells(o.Reads)...).Planning("t"))
		case 'c':
			for _, cell := range cells(o.Writes) {
				steps = append(steps, scenarios.Issue(op, cell, scenarios.Text(op)))
			}
			if n := len(cells(o.Writes)); o.Backward && n == 2 {
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

// Run is the schedule under a runtime; each is called after each step.
func (s Schedule) Run(r *runtimes.Runtime, each func()) *scenarios.Result {
	return scenarios.Run(s.Scenario(), r, scenarios.Options{Each: each})
}

// orders are all orders in which operations begin and commit, each agent's own one after the other.
func orders(ops, agents int) (all [][]Event) {
	next := make([]int, agents) // of each agent: how many of its steps are done
	var events []Event
	var step func()
	step = func() {
		if len(events) == 2*ops {
			all = append(all, append([]Event(nil), events...))
			return
		}
		for a := range agents {
			op := a + agents*(next[a]/2)
			if op >= ops {
				continue
			}
			events = append(events, Event{"bc"[next[a]%2], op})
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
func added(events []Event, with string) iter.Seq[[]Event] {
	return func(yield func([]Event) bool) {
		if !yield(events) {
			return
		}
		put := func(at int, e Event) bool {
			return yield(append(append(append([]Event(nil), events[:at]...), e), events[at:]...))
		}
		for i, e := range events {
			for at := i + 1; e.What == 'c' && strings.Contains(with, "r") && at <= len(events); at++ {
				if !put(at, Event{'r', e.Of}) {
					return
				}
			}
			if strings.Contains(with, "t") && (!put(i, Event{'t', 0}) || !put(i, Event{'s', 0})) {
				return
			}
		}
	}
}

// shapes are all ways in which operations read and write; with backward also those whose effects complete so.
func shapes(ops int, backward bool) (all [][]Shape) {
	var one []Shape
	for bits := range 16 {
		one = append(one, Shape{bits >> 2, bits & 3, false})
		if backward && bits&3 == 3 {
			one = append(one, Shape{bits >> 2, 3, true})
		}
	}
	all = [][]Shape{nil}
	for range ops {
		var longer [][]Shape
		for _, before := range all {
			for _, s := range one {
				longer = append(longer, append(append([]Shape(nil), before...), s))
			}
		}
		all = longer
	}
	return all
}

// All are all of so many operations of two agents. One more event is added at a time, or with product a
// retraction and a change of the registry together.
func All(ops int, product bool) iter.Seq[Schedule] {
	return func(yield func(Schedule) bool) {
		for _, s := range shapes(ops, true) {
			for _, order := range orders(ops, 2) {
				with, then := "rt", ""
				if product {
					with, then = "r", "t"
				}
				for first := range added(order, with) {
					for events := range added(first, then) {
						if !yield(Schedule{2, s, events}) {
							return
						}
					}
				}
			}
		}
	}
}

// Drawn is a schedule of three agents with two operations each.
func Drawn(seed uint64) Schedule {
	draw := rand.New(rand.NewPCG(seed, 0))
	s := Schedule{Agents: 3}
	for range 6 {
		s.Ops = append(s.Ops, Shape{draw.IntN(4), draw.IntN(4), draw.IntN(2) == 0})
	}
	next := make([]int, s.Agents)
	var committed []int
	for len(committed) < len(s.Ops) {
		a := draw.IntN(s.Agents)
		op := a + s.Agents*(next[a]/2)
		switch n := draw.IntN(10); {
		case n == 0 && len(committed) > 0:
			s.Events = append(s.Events, Event{'r', committed[draw.IntN(len(committed))]})
		case n == 1 && draw.IntN(3) == 0:
			s.Events = append(s.Events, Event{"ts"[draw.IntN(2)], 0})
		case op < len(s.Ops):
			s.Events = append(s.Events, Event{"bc"[next[a]%2], op})
			if next[a]%2 == 1 {
				committed = append(committed, op)
			}
			next[a]++
		}
	}
	return s
}
