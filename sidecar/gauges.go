package sidecar

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// measured registers what is looked at when somebody asks. It is called once, when all parts are there.
func (s *Sidecar) measured() {
	gauge := func(name, help string, f func() float64) {
		s.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	gauge("hence_sidecar_session_live", "1 while it has joined the log; else nothing can begin.", func() float64 {
		if s.session.now() == 0 {
			return 0
		}
		return 1
	})
	gauge("hence_sidecar_lease_left_seconds", "How long the sidecar's lease surely still lasts.",
		func() float64 { return s.session.lease.Left().Seconds() })
	gauge("hence_sidecar_open_transactions", "Transactions of this agent that are not decided.", s.session.openNow)
	gauge("hence_sidecar_held_effects", "Tool calls that wait for the commit of their transaction.", s.session.heldNow)
	gauge("hence_sidecar_events_pending", "Events that are not published yet; at the limit nothing is answered.",
		func() float64 { return float64(s.session.delivery.backlog()) })
	gauge("hence_sidecar_journal_bytes", "Size of the journal.",
		func() float64 { return float64(s.session.delivery.bytes()) })
	gauge("hence_sidecar_watchers", "Streams of decisions that are open.",
		func() float64 { return float64(s.face.feed.Stats().Open) })
	s.count("hence_sidecar_watched_decisions_total", "Decisions written to streams.", nil,
		func() uint64 { return s.face.feed.Stats().Sent })
	s.count("hence_sidecar_watchers_cut_total", "Streams that were ended because their reader was too slow.", nil,
		func() uint64 { return s.face.feed.Stats().Cut })
	if g, ok := s.session.engine.(*gate.Engine); ok {
		s.measuredGate(&g.Metrics)
	}
}

func (s *Sidecar) measuredGate(m *gate.Metrics) {
	for result, n := range map[string]*atomic.Uint64{"answered": &m.Answered, "refused": &m.Refused,
		"not_sent": &m.NotSent, "unknown": &m.Unknown} {
		s.count("hence_sidecar_calls_total", "Calls of sinks, repeated ones too, by what came of them.",
			prometheus.Labels{"result": result}, n.Load)
	}
	s.count("hence_sidecar_call_retries_total", "Calls of sinks beyond the first of one effect.", nil, m.Retries.Load)
	s.count("hence_sidecar_lookups_total", "Questions to sinks what became of a call.", nil, m.LookUps.Load)
	s.count("hence_sidecar_calls_given_up_total", "Effects whose outcome stays unknown.", nil, m.GivenUp.Load)
	s.count("hence_sidecar_lease_stops_total", "Calls that were not begun because the lease was too short.", nil,
		m.LeaseStops.Load)
}

// count registers a counter that is kept elsewhere.
func (s *Sidecar) count(name, help string, labels prometheus.Labels, f func() uint64) {
	s.metrics.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help,
		ConstLabels: labels}, func() float64 { return float64(f()) }))
}

func (s *session) openNow() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.open)
}

// heldNow counts calls of undecided transactions that wait for the commit.
func (s *session) heldNow() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
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
	return float64(n)
}

// bytes is the journal's size; zero where there is none.
func (d *delivery) bytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.journal == nil {
		return 0
	}
	return d.journal.size
}

// measureEvery is how often it is asked how far the decisions are, and how long an answer may take.
const (
	measureEvery = 5 * time.Second
	measureWait  = 2 * time.Second
)

// newest is a log that knows how far its decisions are, from elsewhere than the view does.
type newest interface {
	Newest(ctx context.Context, workspace string) (sequencer.Seq, error)
}

// measure keeps the lag of the view until ctx ends.
func (s *Sidecar) measure(ctx context.Context) {
	log, ok := s.events.(newest)
	if !ok {
		return
	}
	beat, stop := s.clock.Ticker(measureEvery)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat:
		}
		s.metrics.behind.Set(s.behind(ctx, log))
	}
}

// behind is by how many seqs the view is behind; what is decided while it is asked may show as one or two.
func (s *Sidecar) behind(ctx context.Context, log newest) float64 {
	ctx, cancel := context.WithTimeout(ctx, measureWait)
	defer cancel()
	at, err := log.Newest(ctx, s.config.Workspace)
	if err != nil {
		return math.NaN()
	}
	if seen := s.view.at(); at > seen {
		return float64(at - seen)
	}
	return 0
}
