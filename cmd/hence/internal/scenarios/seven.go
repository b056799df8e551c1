package scenarios

// StaleRead: an editor and a reviewer begin on one document; the editor commits, then the reviewer.
func StaleRead() Scenario {
	return Scenario{"stale-read", "two agents read a document and write it one after the other", []Step{
		Begin("edit", "editor", "doc"), Begin("review", "reviewer", "doc"),
		Write("edit", "doc", Text("v1")), Commit("edit"),
		Write("review", "doc", Text("v2")), Commit("review"),
	}}
}

// Pipeline: three agents update one cell in turn.
func Pipeline() Scenario {
	s := Scenario{Name: "pipeline", About: "three agents update progress, each after the one before it"}
	for _, agent := range []string{"extract", "transform", "load"} {
		s.Steps = append(s.Steps, Begin(agent, agent, "progress"), Write(agent, "progress", Append("progress", agent)),
			Commit(agent))
	}
	return s
}

// Seven are the paper's scenarios.
func Seven() []Scenario { return []Scenario{StaleRead(), Pipeline()} }
