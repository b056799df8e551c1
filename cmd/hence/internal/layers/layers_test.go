package layers_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/layers"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
)

const examples = "../../../../docs/examples/layers"

// published is what each topology is said to be: six of the sixteen are susceptible, and a control each. Why is a part
// of the first reason.
func published() map[string]struct {
	susceptible bool
	why         string
} {
	type said = struct {
		susceptible bool
		why         string
	}
	return map[string]said{
		"hierarchical-teams":         {true, "research-lead reads team-state in superstep 2; writing-lead overwrites it"},
		"collaboration":              {true, "researcher reads document in superstep 1; chart-maker overwrites it"},
		"swarm":                      {true, "scout reads context in superstep 1; worker overwrites it"},
		"blackboard":                 {true, "chemist reads blackboard in superstep 2; physicist overwrites it"},
		"competing-consensus":        {true, "ann reads proposal in superstep 1; bob overwrites it"},
		"map-reduce-without-reducer": {true, "mapper-1 reads results in superstep 2; mapper-2 overwrites it"},
		"control-susceptible":        {true, "ann reads cell in superstep 1; bob overwrites it"},
		"pipeline":                   {false, "clean is staged"},
		"router":                     {false, "route is staged"},
		"supervisor-staged":          {false, "assignment is staged"},
		"plan-execute":               {false, "plan is staged"},
		"evaluator-optimizer":        {false, "draft is staged"},
		"reflection":                 {false, "critique is staged"},
		"single-react":               {false, "no agent reads a channel that another one writes"},
		"orchestrator-disjoint":      {false, "done-1 is staged"},
		"fan-out-reducer":            {false, "messages has a reducer"},
		"map-reduce-with-reducer":    {false, "part-1 is staged"},
		"control-immune":             {false, "no agent reads a channel that another one writes"},
	}
}

func read(t *testing.T, name string) layers.Topology {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examples, name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	topology, found := layers.Read(name, text)
	if len(found) > 0 {
		t.Fatal(found)
	}
	return topology
}

// TestPublished holds what the layers of each topology say, and that twenty runs of each say the same: without a
// guard the susceptible ones go wrong in all and the immune ones in none, and with one none does.
func TestPublished(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) != len(published()) {
		t.Fatalf("%d files, %d topologies; %v", len(files), len(published()), err)
	}
	for name, want := range published() {
		topology := read(t, name)
		v := topology.Classify()
		reason := strings.Join(v.Held, "\n")
		fired := 0
		if v.Susceptible() {
			reason, fired = v.Risks[0].String(), 20
		}
		if v.Susceptible() != want.susceptible || !strings.HasPrefix(reason, want.why) {
			t.Errorf("%s: susceptible %v: %s; want %+v", name, v.Susceptible(), reason, want)
		}
		if got := topology.Confirm(20, runtimes.Vanilla); got != fired {
			t.Errorf("%s: A1 in %d of 20 runs without a guard, not %d", name, got, fired)
		}
		if got := topology.Confirm(20, runtimes.Serializable); got != 0 {
			t.Errorf("%s: A1 in %d of 20 serializable runs", name, got)
		}
	}
}

// TestWithoutReducer holds that the reducer is what makes a fan-out immune.
func TestWithoutReducer(t *testing.T) {
	topology := read(t, "fan-out-reducer")
	topology.Reducers = nil
	if v := topology.Classify(); !v.Susceptible() || topology.Confirm(20, runtimes.Vanilla) != 20 {
		t.Errorf("%+v", v)
	}
}

func op(agent string, from, to int, reads, writes string) layers.Operation {
	return layers.Operation{Agent: agent, From: from, To: to, Reads: strings.Fields(reads),
		Writes: strings.Fields(writes)}
}

// TestSpans holds operations of several supersteps: what counts is where the writer is done within them.
func TestSpans(t *testing.T) {
	for _, c := range []struct {
		name   string
		writer layers.Operation
		risk   string
		always bool
		least  int // of 20 runs that have A1
		most   int
	}{
		{"before", op("w", 1, 1, "", "c"), "", false, 0, 0},
		{"in its first superstep", op("w", 2, 2, "", "c"), "r is stale in every order", true, 20, 20},
		{"within, begun before", op("w", 1, 3, "", "c"), "r is stale in every order", true, 20, 20},
		{"in its last", op("w", 4, 4, "", "c"), "r is stale when w commits first", false, 1, 19},
		{"in its last, both ways", op("w", 3, 4, "d", "c"), "who commits second is stale", true, 20, 20},
		{"after", op("w", 5, 5, "", "c"), "", false, 0, 0},
	} {
		topology := layers.Topology{Operations: []layers.Operation{op("r", 2, 4, "c", "d"), c.writer}}
		v := topology.Classify()
		if v.Susceptible() != (c.risk != "") {
			t.Errorf("%s: %+v", c.name, v)
		} else if c.risk != "" && (!strings.HasSuffix(v.Risks[0].String(), c.risk) || v.Risks[0].Always != c.always) {
			t.Errorf("%s: %s", c.name, v.Risks[0])
		}
		if fired := topology.Confirm(20, runtimes.Vanilla); fired < c.least || fired > c.most {
			t.Errorf("%s: A1 in %d of 20 runs, not %d to %d", c.name, fired, c.least, c.most)
		}
	}
}

// TestOneAgent holds that an agent's own operations are no risk.
func TestOneAgent(t *testing.T) {
	topology := layers.Topology{Operations: []layers.Operation{op("a", 1, 2, "c", "c"), op("a", 1, 1, "c", "c")}}
	if v := topology.Classify(); v.Susceptible() || topology.Confirm(20, runtimes.Vanilla) != 0 {
		t.Errorf("%+v", v)
	}
}

// TestSound holds that no drawn topology which the layers call immune has A1 in a run, that every one that they call
// susceptible in every order has it in each, and that both sorts are drawn.
func TestSound(t *testing.T) {
	immune, always := 0, 0
	for seed := range uint64(300) {
		topology := drawn(seed)
		v := topology.Classify()
		fired := topology.Confirm(4, runtimes.Vanilla)
		every := false
		for _, r := range v.Risks {
			every = every || r.Always
		}
		switch {
		case !v.Susceptible():
			immune++
			if fired > 0 {
				t.Errorf("immune, and %d of 4 runs have A1: %+v", fired, topology)
			}
		case every:
			always++
			if fired < 4 {
				t.Errorf("susceptible in every order, and %d of 4 runs have A1: %+v", fired, topology)
			}
		}
	}
	if immune < 20 || always < 20 {
		t.Errorf("%d immune, %d in every order: too few to say", immune, always)
	}
}

// TestRefused holds what a file may not say, with the line.
func TestRefused(t *testing.T) {
	const head = "version: 1\noperations:\n"
	for _, c := range []struct{ text, want string }{
		{"", "write \"version: 1\""},
		{"version: 2\noperations: [{agent: a, superstep: 1}]", "f:1:10: version \"2\" is not known here"},
		{"version: 1", "the key \"operations\" is missing"},
		{"operations: [{agent: a, superstep: 1}]", "the key \"version\" is missing"},
		{head + "  - {agent: a, superstep: 1, reeds: [x]}",
			"f:3:30: an operation has no key \"reeds\": did you mean \"reads\"?"},
		{head + "  - {superstep: 1}", "f:3:6: an operation has no agent"},
		{head + "  - {agent: a}", "f:3:6: an operation has no superstep"},
		{head + "  - {agent: a, superstep: 0}", "superstep is 0: count from 1"},
		{head + "  - {agent: a, superstep: 3, until: 2}", "it reads in superstep 3 and writes in 2"},
		{head + "  - {agent: a, superstep: 201}", "write a number from 0 to 200"},
		{head + "  - {agent: a, superstep: 1, reads: [\"x#1\"]}", "a channel is no name"},
		{"version: 1\noperations: []", "there are 0 operations"},
		{"version: 1\nreducers: [y]\noperations: [{agent: a, superstep: 1, reads: [x]}]",
			"f:2:11: no operation reads or writes y"},
	} {
		_, found := layers.Read("f", []byte(c.text))
		if len(found) == 0 || !strings.Contains(found[0].String(), c.want) {
			t.Errorf("%q: %v; want %q", c.text, found, c.want)
		}
	}
}

// drawn is a topology of up to five operations over three channels.
func drawn(seed uint64) (t layers.Topology) {
	draw := rand.New(rand.NewPCG(seed, 1))
	some := func() (channels []string) {
		for _, channel := range []string{"x", "y", "z"} {
			if draw.IntN(3) == 0 {
				channels = append(channels, channel)
			}
		}
		return channels
	}
	for range 1 + draw.IntN(5) {
		from := 1 + draw.IntN(3)
		t.Operations = append(t.Operations, layers.Operation{Agent: string(rune('a' + draw.IntN(3))), From: from,
			To: from + draw.IntN(2), Reads: some(), Writes: some()})
	}
	if draw.IntN(2) == 0 {
		t.Reducers = []string{"x"}
	}
	return t
}

// TestAppends holds that a write through a reducer is a cell of its own, and that who reads the channel reads all that
// are there.
func TestAppends(t *testing.T) {
	r := scenarios.Run(read(t, "fan-out-reducer").Scenario(1), runtimes.New(runtimes.Vanilla), scenarios.Options{})
	appended := func(cells []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(cells), func(cell string) bool {
			return !strings.HasPrefix(cell, "messages")
		}), " ")
	}
	var reads, writes []string
	for _, rec := range r.Records {
		reads, writes = append(reads, appended(rec.ReadSet)), append(writes, rec.WriteSet...)
	}
	if got := strings.Join(reads, "; "); got != "; messages#1; messages#1; messages#1 messages#2 messages#3" {
		t.Errorf("read %s", got)
	}
	slices.Sort(writes)
	if got := appended(writes); got != "messages#1 messages#2 messages#3" {
		t.Errorf("written %s", got)
	}
}
