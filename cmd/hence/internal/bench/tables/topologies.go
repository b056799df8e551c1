package tables

import (
	"context"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/layers"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/sequencer/anomaly"
)

// layered is a topology of the folder docs/examples/layers.
type layered struct {
	name     string
	text     string
	control  bool
	topology layers.Topology
}

// layeredTopologies are all of them: the sixteen of the paper and two controls.
func layeredTopologies() (all []layered, err error) {
	text, err := claims.ReadFile("claims/layers.txt")
	if err != nil {
		return nil, fmt.Errorf("read the topologies: %w", err)
	}
	for _, part := range strings.Split("\n"+string(text), "\n== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		rest = strings.TrimSuffix(rest, "\n") + "\n"
		one, found := layers.Read(name, []byte(rest))
		if len(found) > 0 {
			return nil, fmt.Errorf("read the topology %s: %v", name, found[0])
		}
		all = append(all, layered{name, rest, strings.HasPrefix(name, "control-"), one})
	}
	return all, nil
}

// stale are the names that the paper gives those in which A1 can happen, and the positive control's.
func stale() map[string]bool {
	return map[string]bool{"hierarchical-teams": true, "collaboration": true, "swarm": true, "blackboard": true,
		"competing-consensus": true, "map-reduce-without-reducer": true, "control-susceptible": true}
}

func layerVerdicts(_ context.Context, e *Env) (Result, error) {
	all, err := layeredTopologies()
	if err != nil {
		return Result{}, err
	}
	n, susceptible, wrong := 0, 0, 0
	var reasons, names []string
	for _, one := range all {
		v := e.Subject.Classify(one.topology)
		if v.Susceptible() != stale()[one.name] {
			wrong++
		}
		if one.control {
			continue
		}
		n++
		if v.Susceptible() {
			susceptible++
			names = append(names, one.name)
			continue
		}
		reason := strings.Join(v.Held, "\n")
		for _, why := range []string{"has a reducer", "is staged", "no agent reads a channel"} {
			if strings.Contains(reason, why) {
				reasons = append(reasons, one.name+" ("+why+")")
				break
			}
		}
	}
	return Result{Ours: fmt.Sprintf("%s: %s", of(susceptible, n), strings.Join(names, ", ")),
		Baseline: fmt.Sprintf("%d differ from the paper's answer, with both controls", wrong),
		Verdict:  holds(wrong == 0 && susceptible+len(reasons) == n && susceptible > 0),
		Note: "the paper's text names the six, the others are chosen by us; immune by their layers are " +
			strings.Join(reasons, ", ")}, nil
}

func layerRuns(_ context.Context, e *Env) (Result, error) {
	all, err := layeredTopologies()
	if err != nil {
		return Result{}, err
	}
	runs, ok := e.of(20, 1_000), true
	var fired, guarded [2]int // of immune and of susceptible ones, over all their runs
	var ran [2]int
	for _, one := range all {
		kind := 0
		if e.Subject.Classify(one.topology).Susceptible() {
			kind = 1
		}
		here := 0
		for seed := range runs {
			s := one.topology.Scenario(e.Seed + uint64(seed))
			if e.run(s, runtimes.Vanilla).Has(anomaly.A1) {
				here++
			}
			if e.run(s, runtimes.Serializable).Has(anomaly.A1) {
				guarded[kind]++
			}
		}
		ok = ok && here == kind*runs
		fired[kind], ran[kind] = fired[kind]+here, ran[kind]+runs
	}
	return Result{
		Ours: fmt.Sprintf("runs with A1: susceptible %s, immune %s; reads validated %s", of(fired[1], ran[1]),
			of(fired[0], ran[0]), of(guarded[0]+guarded[1], ran[0]+ran[1])),
		Baseline: fmt.Sprintf("%d topologies, %d seeded runs each, no guard", len(all), runs),
		Verdict:  holds(ok && ran[0] > 0 && ran[1] > 0 && guarded == [2]int{}),
		Note:     "scripted agents in place of three models; every write differs, so each overwrite is seen"}, nil
}
