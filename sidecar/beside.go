package sidecar

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology/pause"
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
// then; the next start of this sidecar goes on with them. Call it while Run runs, when nobody calls for the agent any
// more.
func (s *Sidecar) Farewell(ctx context.Context) (left int) {
	var aborts sync.WaitGroup
	for _, t := range s.session.begun() {
		aborts.Go(func() {
			if _, err := s.session.abort(ctx, t, "the agent's process has ended"); err != nil {
				s.log.Warn("a transaction of an agent that has ended is not aborted yet", "tx", string(t.id), "cause", err)
			}
		})
	}
	aborts.Wait()
	for {
		if left = s.session.owing(); left == 0 || pause.Sleep(ctx, stopPoll) != nil {
			return left
		}
	}
}

// begun are the open transactions of which the log knows; at most Limits.Open.
func (s *session) begun() (all []*tx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.active {
		if t.begun && t.phase == phaseOpen {
			all = append(all, t)
		}
	}
	return all
}

// owing counts what this sidecar waits for or works on: decisions, and settlements that are its own.
func (s *session) owing() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.active {
		if t.begun && !t.decided() {
			n++
		}
	}
	for _, d := range s.debts {
		if !d.theirs && d.parked != s.incarnation {
			n++
		}
	}
	return n
}
