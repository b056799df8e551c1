package scenarios

import "strconv"

// All are all scenarios that have one script: the seven and the others.
func All() []Scenario {
	return append(Seven(), PhantomClaim(), EditReview(), PlanExecute(), Triage(),
		cookbook("research-collab", "researcher", "analyst"),
		cookbook("supervisor", "supervisor", "searcher", "supervisor", "writer"),
		cookbook("hierarchical", "director", "lead", "engineer", "lead"),
		cookbook("code-review", "author", "reviewer"),
		cookbook("customer-triage", "intake", "triager", "specialist"),
		SharedWorkspace(), DeerFlow(), DeerFlowReducer(), SharedBlock(4, 6), FiveCalls())
}

// EditReview is a reviewer that judges a document while an editor changes it: both begin in one tick.
func EditReview() Scenario {
	return Scenario{"edit-review", "a reviewer judges a document that an editor changes meanwhile", []Step{
		Begin("edit", "editor", "doc"), Begin("review", "reviewer", "doc"),
		Write("edit", "doc", Text("v1")), Commit("edit"),
		Write("review", "verdict", Text("fine")), Commit("review"),
	}}
}

// PlanExecute is an executor that begins when the plan is there.
func PlanExecute() Scenario {
	return Scenario{"plan-execute", "an executor begins after the planner has committed", []Step{
		Begin("plan", "planner"), Write("plan", "plan", Text("steps")), Commit("plan"),
		Begin("execute", "executor", "plan"), Write("execute", "result", Text("done")), Commit("execute"),
	}}
}

// Triage is a triager that reads a ticket, writes nothing, and is overtaken by the reporter.
func Triage() Scenario {
	return Scenario{"triage", "a triager that writes nothing reads a ticket that is changed meanwhile", []Step{
		Begin("report", "reporter"), Write("report", "ticket", Text("v0")), Commit("report"),
		Begin("triage", "triager", "ticket"),
		Begin("amend", "reporter"), Write("amend", "ticket", Text("v1")), Commit("amend"),
		Commit("triage"),
	}}
}

// cookbook is a group chat in turns over tools without state: every call writes a cell of its own. Turns overlap: each
// begins before the one before it has committed, and reads the message before that.
func cookbook(name string, agents ...string) Scenario {
	const turns = 8
	s := Scenario{Name: name, About: "agents take turns over tools without state"}
	for i := range turns {
		op := number("turn", i)
		var reads []string
		if i >= 2 {
			reads = []string{number("message", i-2)}
		}
		s.Steps = append(s.Steps, Begin(op, agents[i%len(agents)], reads...), Write(op, number("message", i), Text(op)))
		if i > 0 {
			s.Steps = append(s.Steps, Commit(number("turn", i-1)))
		}
	}
	s.Steps = append(s.Steps, Commit(number("turn", turns-1)))
	return s
}

// SharedWorkspace is the one cookbook shape with typed state: planner, executor and monitor read all slots in one
// round and write each their own in the next.
func SharedWorkspace() Scenario {
	s := Scenario{Name: "shared-workspace", About: "three agents read three slots in turn, then write one each in turn"}
	slots := []string{"ws:task", "ws:progress", "ws:notes"}
	agents := []string{"planner", "executor", "monitor"}
	for _, agent := range agents {
		s.Steps = append(s.Steps, Begin(agent, agent, slots...))
	}
	for i, agent := range agents {
		s.Steps = append(s.Steps, Write(agent, slots[i], Text("by "+agent)), Commit(agent))
	}
	return s
}

// DeerFlow is a channel of two todos, over which a later node that has not read it emits nothing.
func DeerFlow() Scenario {
	return Scenario{"deer-flow", "a node that emits no todos deletes the two that are there", []Step{
		Begin("plan", "planner"), Write("plan", "todos", Text("search, write")), Commit("plan"),
		Begin("node", "researcher", "messages"), Write("node", "todos", Nothing), Write("node", "found", Text("a page")),
		Commit("node"),
	}}
}

// DeerFlowReducer is the same with the project's reducer, for which nothing keeps what is there: writes are appends.
func DeerFlowReducer() Scenario {
	return Scenario{"deer-flow-reducer", "the same through a reducer that keeps them", []Step{
		Begin("plan", "planner"), Write("plan", "todos#1", Text("search, write")), Commit("plan"),
		Begin("node", "researcher", "messages"), Write("node", "found", Text("a page")), Commit("node"),
	}}
}

// SharedBlock is writers that each read one block and write it whole with a line added, all together, for some rounds.
func SharedBlock(writers, rounds int) Scenario {
	s := Scenario{Name: "shared-block", About: "writers append to one block by writing it whole"}
	for round := range rounds {
		for w := range writers {
			s.Steps = append(s.Steps, Begin(line(w, round), number("writer", w), "block"))
		}
		for w := range writers {
			s.Steps = append(s.Steps, Write(line(w, round), "block", Append("block", line(w, round))), Commit(line(w, round)))
		}
	}
	return s
}

func line(writer, round int) string { return number("w", writer) + number("r", round) }

// FiveCalls is five tools called in one turn, each of which needs the one before it, done in another order.
func FiveCalls() Scenario {
	s := effects([]string{"create_database", "run_migrations", "seed_reference_data", "build_search_index",
		"enable_live_traffic"}, []int{4, 2, 0, 3, 1})
	s.Name, s.About = "five-calls", "five calls of one turn, each of which needs the one before it, run side by side"
	return s
}

// Effects is one operation with as many effects as order has, which are done in that order.
func Effects(order []int) Scenario {
	var cells []string
	for k := range order {
		cells = append(cells, number("effect", k))
	}
	return effects(cells, order)
}

func effects(cells []string, order []int) Scenario {
	s := Scenario{Name: "effects", About: "one operation's effects are done in an order of their own",
		Steps: []Step{Begin("act", "agent")}}
	for _, cell := range cells {
		s.Steps = append(s.Steps, Issue("act", cell, Text("done")))
	}
	for _, k := range order {
		s.Steps = append(s.Steps, Complete("act", k))
	}
	s.Steps = append(s.Steps, Commit("act"))
	return s
}

// Chain is as many operations as depth says, each of which reads what the one before it wrote. Then the first is
// retracted.
func Chain(depth int) Scenario {
	s := Scenario{Name: "chain", About: "the first of a chain of operations is taken back"}
	for i := range depth {
		op := number("a", i)
		var reads []string
		if i > 0 {
			reads = []string{number("c", i-1)}
		}
		s.Steps = append(s.Steps, Begin(op, number("agent", i), reads...), Write(op, number("c", i), Text(op)), Commit(op))
	}
	s.Steps = append(s.Steps, Retract(number("a", 0)))
	return s
}

// ToolGone is a registry of several tools, of which the planned one is removed, or is changed, before the commit.
func ToolGone(tools, planned int, changed bool) Scenario {
	s := Scenario{Name: "tool-gone", About: "the planned one of several tools is removed or changed"}
	for i := range tools {
		s.Steps = append(s.Steps, Register(number("tool", i), "v1"))
	}
	gone := Remove(number("tool", planned))
	if changed {
		gone = Register(number("tool", planned), "v2")
	}
	s.Steps = append(s.Steps, Begin("call", "agent").Planning(number("tool", planned)), gone,
		Write("call", "result", Text("done")), Commit("call"))
	return s
}

func number(name string, n int) string { return name + strconv.Itoa(n) }
