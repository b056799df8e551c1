package sidecar

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// This file is for those who run a sidecar beside a process that they have started themselves.

// Counters are what a sidecar has counted since it was made.
type Counters struct {
	Committed int `json:"committed"` // of this agent's transactions
	Refused   int `json:"refused"`   // aborted, and not at the agent's wish
	Held      int `json:"held"`      // calls that were held back until the commit
	Residue   int `json:"residue"`   // effects that could not be made clean
}

// Counters are those of now.
func (s *Sidecar) Counters() Counters {
	m, byAgent := s.metrics, string(sequencer.CodeAbortedByAgent)
	return Counters{
		Committed: total(m.decisions, "state", func(v string) bool { return v == api.StateCommitted }),
		Refused:   total(m.decisions, "code", func(v string) bool { return v != "none" && v != byAgent }),
		Held:      total(m.effects, "state", func(v string) bool { return v == "held" }),
		Residue:   total(m.residues, "result", func(string) bool { return true }),
	}
}

// total adds up the counters of a family whose label has a value that counts.
func total(of *prometheus.CounterVec, label string, counts func(value string) bool) (n int) {
	all := make(chan prometheus.Metric)
	go func() {
		of.Collect(all)
		close(all)
	}()
	for one := range all {
		var m dto.Metric
		if one.Write(&m) != nil {
			continue // it has no value that could be read
		}
		for _, l := range m.GetLabel() {
			if l.GetName() == label && counts(l.GetValue()) {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

// Farewell ends what the agent's process has left behind: it aborts each transaction that is still open, and waits
// until all that was decided is settled, or ctx ends. It returns how many transactions are undecided or unsettled
// then; the next start of this sidecar goes on with them. Call it while Run runs, when nothing asks for the agent any
// more.
func (s *Sidecar) Farewell(ctx context.Context) (left int) { return s.session.Farewell(ctx) }
