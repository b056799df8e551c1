package tables

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/sequencer/anomaly"
)

// placedRuns are the rows of where systems stand among the points.
func placedRuns() map[string]run { return map[string]run{"D63": placements} }

// system is one that the paper places, or a configuration of it, by what its description says that it guards.
type system struct {
	name   string
	guards []runtimes.Kind
	named  *anomaly.Point // where the paper's text puts it; nil: the text counts it without a name
}

// systems are five placements. What Atomix has in its weaker configurations is what its ablations leave.
func systems() []system {
	return []system{
		{"CodeCRDT", []runtimes.Kind{runtimes.Vanilla}, &anomaly.Point{}},
		{"SagaLLM", []runtimes.Kind{runtimes.Provenance}, &anomaly.Point{A3: true}},
		{"Atomix", []runtimes.Kind{runtimes.Serializable, runtimes.Provenance, runtimes.Sequencer},
			&anomaly.Point{A1: true, A3: true, A6: true}},
		{"Atomix without refusal of stale reads", []runtimes.Kind{runtimes.Provenance, runtimes.Sequencer}, nil},
		{"Atomix without scopes of reads", []runtimes.Kind{runtimes.Sequencer}, nil},
	}
}

// stands is the point at which a runtime of guards stands: what none of the scenarios shows under it.
func (e *Env) stands(kinds ...runtimes.Kind) anomaly.Point {
	at := complement(anomaly.Point{})
	for _, s := range append(scenarios.All(), scenarios.AllFour()) {
		at = at.And(complement(fired(e.run(s, kinds...))))
	}
	return at
}

// complement has the anomalies that a point has not.
func complement(p anomaly.Point) anomaly.Point {
	return anomaly.Point{A1: !p.A1, A2: !p.A2, A3: !p.A3, A6: !p.A6}
}

func placements(_ context.Context, e *Env) (Result, error) {
	ok, chain := true, 0
	var words []string
	var points []anomaly.Point
	for _, s := range systems() {
		passes := complement(anomaly.Point{})
		for _, kind := range s.guards {
			passes = passes.And(complement(kind.Excludes()))
		}
		at := e.stands(s.guards...)
		word := fmt.Sprintf("%s %v", s.name, at)
		if at == levelPoint(at.Level()) {
			chain, word = chain+1, word+fmt.Sprintf(" = L%d", at.Level())
		}
		ok = ok && at == complement(passes) && (s.named == nil || at == *s.named) && !slices.Contains(points, at) &&
			at.Level() < 4
		words, points = append(words, word), append(points, at)
	}
	strict := e.stands(runtimes.Provenance, runtimes.Saga)
	return Result{
		Ours: strings.Join(words, ", "),
		Baseline: fmt.Sprintf("%d points that differ, %d on the chain; with steps strictly in turn SagaLLM would "+
			"stand at %v", len(points), chain, strict),
		Verdict: holds(ok && chain == 2),
		Note: "none of these systems is run: each is a runtime of the guards that its description names, over all " +
			"scenarios, and the point is what none of them shows. The paper names three points and counts five; the other " +
			"two are ours, by the ablations of Atomix. A CRDT's convergence is no point of these"}, nil
}
