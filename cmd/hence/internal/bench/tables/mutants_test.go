package tables

import (
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/layers"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/lightcone"
)

// mutant is a subject with one thing broken.
type mutant struct {
	name   string
	breaks func(*Subject)
}

// mutantsOf are those that are tried on a row of a paper.
func mutantsOf(paper string) []mutant {
	if paper == "light-cone" {
		return coneMutants()
	}
	if paper == "atomix" {
		return policyMutants()
	}
	return detectorMutants()
}

func coneMutants() []mutant {
	return []mutant{
		{"everything is readable", func(s *Subject) {
			s.Readable = func(lightcone.Scheme, lightcone.Level, lightcone.Config) *lightcone.Refusal { return nil }
		}},
		{"all views merge", func(s *Subject) {
			s.Merge = func(lightcone.History, lightcone.View, lightcone.View, lightcone.Config, bool) lightcone.Merged {
				return lightcone.Merged{Order: []int{}}
			}
		}},
		{"no views merge", func(s *Subject) {
			s.Merge = func(lightcone.History, lightcone.View, lightcone.View, lightcone.Config, bool) lightcone.Merged {
				return lightcone.Merged{}
			}
		}},
		{"no cut is admitted", func(s *Subject) {
			s.Admits = func(lightcone.History, []int, lightcone.Config) bool { return false }
		}},
		{"no scar is seen", func(s *Subject) { s.Scars = func(lightcone.History) []lightcone.Pair { return nil } }},
		{"everything is a scar", func(s *Subject) {
			s.Scars = func(lightcone.History) []lightcone.Pair { return make([]lightcone.Pair, 1) }
		}},
		{"copies lose nothing", func(s *Subject) {
			s.Carried = func(c lightcone.Config, hops []lightcone.Hop) (levels []lightcone.Level, _ []lightcone.Fall) {
				for range hops {
					levels = append(levels, lightcone.Scheme{}.Level(c))
				}
				return levels, nil
			}
		}},
		{"a copy rests on nothing", func(s *Subject) {
			s.Provenance = func(_ lightcone.History, m int, _ lightcone.Config) []int { return []int{m} }
		}},
		{"every stack is total", func(s *Subject) {
			s.Totals = func(lightcone.History, lightcone.Stack) *lightcone.Pair { return nil }
		}},
		{"no contradiction is seen", func(s *Subject) { s.Crossed = func(int, ...[]int) []int { return nil } }},
		{"everybody detects", func(s *Subject) { s.Detects = func(lightcone.Keeps) bool { return true } }},
		{"every place holds forks", func(s *Subject) { s.Holds = func(lightcone.Config) bool { return true } }},
		{"no place holds forks", func(s *Subject) { s.Holds = func(lightcone.Config) bool { return false } }},
		{"no retention is short", func(s *Subject) { s.Short = func(lightcone.Retention) string { return "" } }},
		{"the catalogue lacks a row", func(s *Subject) {
			s.Catalogue = func() []lightcone.Row { return lightcone.Catalogue()[:39] }
		}},
		{"all rows have a name", func(s *Subject) {
			s.Catalogue = func() []lightcone.Row {
				rows := lightcone.Catalogue()
				for i := range rows {
					rows[i].Model = "model"
				}
				return rows
			}
		}},
		{"selections have no order", func(s *Subject) { s.AtMost = func(a, b lightcone.Select) bool { return false } }},
		{"half of the wait", func(s *Subject) {
			s.Wait = func(u, d time.Duration) time.Duration { return lightcone.CommitWait(u, d) / 2 }
		}},
		{"half of the inversions", func(s *Subject) {
			s.Inversion = func(u, d time.Duration) float64 { return lightcone.Inversion(u, d) / 2 }
		}},
		{"twice the uncertainty", func(s *Subject) {
			s.Needed = func(d time.Duration, edges, risk float64) float64 { return 2 * lightcone.Uncertainty(d, edges, risk) }
		}},
		{"normal errors end", func(s *Subject) { s.Normal = func(time.Duration, time.Duration) float64 { return 0 } }},
		{"no topology has a finding", func(s *Subject) {
			s.Topology = func(lightcone.Topology) lightcone.Report { return lightcone.Report{} }
		}},
	}
}

func detectorMutants() []mutant {
	return []mutant{
		{"no topology is at risk", func(s *Subject) {
			s.Classify = func(layers.Topology) layers.Verdict { return layers.Verdict{} }
		}},
		{"the detectors see nothing", func(s *Subject) {
			s.Check = func(h *anomaly.History) *anomaly.Report {
				r := h.Check()
				r.Findings = nil
				return r
			}
		}},
		{"what is found is possible only", func(s *Subject) {
			s.Check = func(h *anomaly.History) *anomaly.Report {
				r := h.Check()
				for i := range r.Findings {
					r.Findings[i].Certain = false
				}
				return r
			}
		}},
		{"no runtime guards", func(s *Subject) {
			s.Runtime = func(...runtimes.Kind) *runtimes.Runtime { return runtimes.New(runtimes.Vanilla) }
		}},
		{"every runtime locks", func(s *Subject) {
			s.Runtime = func(...runtimes.Kind) *runtimes.Runtime { return runtimes.New(runtimes.PessimisticDrop) }
		}},
		{"every runtime has all guards", func(s *Subject) {
			s.Runtime = func(...runtimes.Kind) *runtimes.Runtime { return runtimes.At(4) }
		}},
	}
}

func policyMutants() []mutant {
	return []mutant{
		{"every policy is refused", func(s *Subject) {
			s.Load = func([]byte) (*policy.Policy, error) { return nil, policy.ErrPolicy }
		}},
		{"lint finds nothing", func(s *Subject) {
			s.Lint = func(*policy.Policy) []policy.Finding { return nil }
		}},
		{"scopes overlap if they are equal", func(s *Subject) {
			s.Overlaps = func(a, b sequencer.Scope) bool { return a == b }
		}},
		{"all scopes overlap", func(s *Subject) {
			s.Overlaps = func(_, _ sequencer.Scope) bool { return true }
		}},
	}
}
