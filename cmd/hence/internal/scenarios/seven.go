package scenarios

// Seven are the paper's scenarios, each one an anomaly or a control without one.
func Seven() []Scenario {
	return []Scenario{StaleRead(), ToolRemoved(), PhantomWrite(), EffectReorder(), Pipeline(), FanOutMerge(),
		SingleAgent()}
}

// StaleRead is two agents that begin on one document; one commits, then the other.
func StaleRead() Scenario {
	return Scenario{"stale-read", "two agents read a document and write it one after the other", []Step{
		Begin("edit", "editor", "doc"), Begin("review", "reviewer", "doc"),
		Write("edit", "doc", Text("v1")), Commit("edit"),
		Write("review", "doc", Text("v2")), Commit("review"),
	}}
}

// ToolRemoved is an agent that plans to call a tool which is removed before it commits.
func ToolRemoved() Scenario {
	return Scenario{"tool-removed", "the planned tool is removed between the plan and the commit", []Step{
		Register("t1", "v1"), Register("t2", "v1"),
		Begin("call", "agent").Planning("t1"), Remove("t1"), Write("call", "result", Text("done")), Commit("call"),
	}}
}

// PhantomWrite is an agent that rests on a write which is taken back.
func PhantomWrite() Scenario {
	s := Chain(2)
	s.Name, s.About = "phantom-write", "an agent reads a write that is taken back after the agent committed"
	return s
}

// PhantomClaim is an agent that says it read what was never written.
func PhantomClaim() Scenario {
	return Scenario{"phantom-claim", "an agent says that it read a value which nobody wrote", []Step{
		Begin("use", "agent"), Claim("use", "fact", Text("made up")), Write("use", "answer", Text("from it")),
		Commit("use"),
	}}
}

// EffectReorder is two effects of one operation that are done in the other order.
func EffectReorder() Scenario {
	s := Effects([]int{1, 0})
	s.Name, s.About = "effect-reorder", "two effects of one operation are done in the other order"
	return s
}

// Pipeline is three agents that update one cell in turn.
func Pipeline() Scenario {
	return inTurn("pipeline", "three agents update progress in turn", "extract", "transform", "load")
}

// SingleAgent is three updates of one agent.
func SingleAgent() Scenario {
	return inTurn("single-agent", "one agent updates progress three times", "agent", "agent", "agent")
}

func inTurn(name, about string, agents ...string) Scenario {
	s := Scenario{Name: name, About: about}
	for i, agent := range agents {
		op := number("step", i)
		s.Steps = append(s.Steps, Begin(op, agent, "progress"), Write(op, "progress", Append("progress", op)), Commit(op))
	}
	return s
}

// FanOutMerge is a task that two workers read together, whose results are merged.
func FanOutMerge() Scenario {
	return Scenario{"fan-out-merge", "two workers read one task together and write results that are merged", []Step{
		Begin("task", "coordinator"), Write("task", "task", Text("count")), Commit("task"),
		Begin("w1", "worker1", "task"), Begin("w2", "worker2", "task"),
		Write("w1", "r1", Text("3")), Commit("w1"), Write("w2", "r2", Text("4")), Commit("w2"),
		Begin("merge", "merger", "r1", "r2"), Write("merge", "sum", Text("7")), Commit("merge"),
	}}
}

// AllFour has the four anomalies of the catalogue, one after the other in one history.
func AllFour() Scenario {
	s := Scenario{Name: "all-four", About: "the four anomalies of the catalogue, one after the other"}
	for _, one := range []Scenario{StaleRead(), ToolRemoved(), PhantomWrite(), EffectReorder()} {
		s.Steps = append(s.Steps, one.Steps...)
	}
	return s
}
