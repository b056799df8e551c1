package agent

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/metrics"
)

// measured registers what is looked at of the agent when it is asked for. It is called once, when all parts are there.
func (s *Agent) measured() {
	m := s.metrics
	m.Gauge("hence_sidecar_session_live", "1 while it has joined the log; else nothing can begin.", func() float64 {
		live := 1.0
		s.loop.Run(func() {
			if s.now() == 0 {
				live = 0
			}
		})
		return live
	})
	m.Gauge("hence_sidecar_lease_left_seconds", "How long the sidecar's lease surely still lasts.",
		func() float64 { return s.lease.Left().Seconds() })
	m.Gauge("hence_sidecar_open_transactions", "Transactions of this agent that are not decided.", s.openNow)
	m.Gauge("hence_sidecar_held_effects", "Tool calls that wait for the commit of their transaction.", s.heldNow)
	m.Gauge("hence_sidecar_events_pending", "Events that are not published yet; at the limit nothing is answered.",
		func() float64 { return float64(s.delivery.Backlog()) })
	m.Gauge("hence_sidecar_journal_bytes", "Size of the journal.", func() float64 { return float64(s.delivery.Bytes()) })
	if g, ok := s.engine.(*gate.Engine); ok {
		measuredGate(m, &g.Metrics)
	}
}

func measuredGate(to *metrics.Metrics, m *gate.Metrics) {
	for result, n := range map[string]*atomic.Uint64{"answered": &m.Answered, "refused": &m.Refused,
		"not_sent": &m.NotSent, "unknown": &m.Unknown} {
		to.Count("hence_sidecar_calls_total", "Calls of sinks, repeated ones too, by what came of them.",
			prometheus.Labels{"result": result}, n.Load)
	}
	to.Count("hence_sidecar_call_retries_total", "Calls of sinks beyond the first of one effect.", nil, m.Retries.Load)
	to.Count("hence_sidecar_lookups_total", "Questions to sinks what became of a call.", nil, m.LookUps.Load)
	to.Count("hence_sidecar_calls_given_up_total", "Effects whose outcome stays unknown.", nil, m.GivenUp.Load)
	to.Count("hence_sidecar_lease_stops_total", "Calls that were not begun because the lease was too short.", nil,
		m.LeaseStops.Load)
}

func (s *Agent) openNow() (n float64) {
	s.loop.Run(func() { n = float64(s.open) })
	return n
}

// heldNow counts calls of undecided transactions that wait for the commit.
func (s *Agent) heldNow() (n float64) {
	s.loop.Run(func() {
		for _, t := range s.active {
			if t.decided() || t.phase == phaseLost {
				continue
			}
			for _, i := range t.effects {
				if i.effect.Tool.Class.Gated() {
					n++
				}
			}
		}
	})
	return n
}
