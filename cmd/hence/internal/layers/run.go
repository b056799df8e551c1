package layers

import (
	"fmt"
	"math/rand/v2"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/sequencer/anomaly"
)

// Scenario is one run of the topology: in each superstep all operations that begin there read, in an order that the
// seed draws, and then all that end there write and commit, in another. Values are distinct. A write through a
// reducer is an append: it writes a cell of its own, channel#n, and who reads the channel reads all there are.
func (t Topology) Scenario(seed uint64) scenarios.Scenario {
	s := scenarios.Scenario{Name: "topology", About: "the operations of a topology in supersteps"}
	draw := rand.New(rand.NewPCG(seed, 0))
	appended := map[string]int{}
	for _, channel := range t.Reducers {
		appended[channel] = 0
	}
	last := 0
	for _, o := range t.Operations {
		last = max(last, o.To)
	}
	for step := 1; step <= last; step++ {
		for _, i := range draw.Perm(len(t.Operations)) {
			if o := t.Operations[i]; o.From == step {
				s.Steps = append(s.Steps, scenarios.Begin(name(i), o.Agent, cells(o.Reads, appended)...))
			}
		}
		for _, i := range draw.Perm(len(t.Operations)) {
			o := t.Operations[i]
			if o.To != step {
				continue
			}
			for _, channel := range o.Writes {
				cell := channel
				if _, reduced := appended[channel]; reduced {
					appended[channel]++
					cell = fmt.Sprintf("%s#%d", channel, appended[channel])
				}
				s.Steps = append(s.Steps, scenarios.Write(name(i), cell, scenarios.Text(name(i)+" of "+o.Agent)))
			}
			s.Steps = append(s.Steps, scenarios.Commit(name(i)))
		}
	}
	return s
}

func name(i int) string { return fmt.Sprintf("op%d", i+1) }

// cells are those of the channels: of one with a reducer all that were appended.
func cells(channels []string, appended map[string]int) (names []string) {
	for _, channel := range channels {
		n, reduced := appended[channel]
		if !reduced {
			names = append(names, channel)
		}
		for k := 1; k <= n; k++ {
			names = append(names, fmt.Sprintf("%s#%d", channel, k))
		}
	}
	return names
}

// Confirm runs the topology under a runtime with seeds 1 to runs and counts the runs with A1.
func (t Topology) Confirm(runs int, kind runtimes.Kind) (fired int) {
	for seed := 1; seed <= runs; seed++ {
		r := scenarios.Run(t.Scenario(uint64(seed)), runtimes.New(kind), scenarios.Options{})
		if r.Has(anomaly.A1) {
			fired++
		}
	}
	return fired
}
