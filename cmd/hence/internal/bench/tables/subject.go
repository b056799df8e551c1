package tables

import (
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/layers"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/lightcone"
)

// Subject is what pure rows hold to the claims. Tests put a broken one in its place, and see the verdict fall.
type Subject struct {
	Readable   func(lightcone.Scheme, lightcone.Level, lightcone.Config) *lightcone.Refusal
	Merge      func(h lightcone.History, a, b lightcone.View, target lightcone.Config, clean bool) lightcone.Merged
	Admits     func(lightcone.History, []int, lightcone.Config) bool
	Scars      func(lightcone.History) []lightcone.Pair
	Carried    func(lightcone.Config, []lightcone.Hop) ([]lightcone.Level, []lightcone.Fall)
	Provenance func(lightcone.History, int, lightcone.Config) []int
	Totals     func(lightcone.History, lightcone.Stack) *lightcone.Pair
	Crossed    func(messages int, committed ...[]int) []int
	Detects    func(lightcone.Keeps) bool
	Holds      func(lightcone.Config) bool
	Short      func(lightcone.Retention) string
	Catalogue  func() []lightcone.Row
	AtMost     func(a, b lightcone.Select) bool
	Wait       func(uncertainty, distance time.Duration) time.Duration
	Inversion  func(uncertainty, distance time.Duration) float64
	Needed     func(distance time.Duration, edges, risk float64) float64
	Normal     func(deviation, distance time.Duration) float64
	Topology   func(lightcone.Topology) lightcone.Report

	Check    func(*anomaly.History) *anomaly.Report
	Runtime  func(...runtimes.Kind) *runtimes.Runtime
	Classify func(layers.Topology) layers.Verdict

	Load     func([]byte) (*policy.Policy, error)
	Lint     func(*policy.Policy) []policy.Finding
	Overlaps func(a, b sequencer.Scope) bool
}

// Ours is what Hence has.
func Ours() Subject {
	var scheme lightcone.Scheme
	return Subject{
		Readable: lightcone.Scheme.Readable, Merge: lightcone.History.Merge, Admits: lightcone.History.Admits,
		Scars: lightcone.History.Scars, Carried: scheme.Carried, Provenance: lightcone.History.Provenance,
		Totals: lightcone.History.Totals, Crossed: lightcone.Contradiction, Detects: lightcone.Keeps.Detects,
		Holds: lightcone.Config.HoldsForks, Short: lightcone.Retention.Short, Catalogue: lightcone.Catalogue,
		AtMost: lightcone.Select.AtMost, Wait: lightcone.CommitWait, Inversion: lightcone.Inversion,
		Needed: lightcone.Uncertainty, Normal: lightcone.InversionNormal, Topology: lightcone.Topology.Check,
		Check: (*anomaly.History).Check, Runtime: runtimes.New,
		Classify: layers.Topology.Classify,
		Load: func(text []byte) (*policy.Policy, error) {
			return policy.Load(text, policy.Options{Build: adapters.Build})
		},
		Lint:     func(p *policy.Policy) []policy.Finding { return p.Lint() },
		Overlaps: sequencer.Scope.Overlaps,
	}
}
