package agent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/coverage"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

// New makes an agent. Call Run; before, it answers nothing but that it is not ready.
func New(c Config) (*Agent, error) {
	c, err := Complete(c)
	if err != nil {
		return nil, err
	}
	d := journal.New(c.Log, c.Limits.PendingEvents, c.Limits.JournalBytes, c.Logger)
	d.Boot = c.Machine.Boot
	s := &Agent{
		agent: c.Name, workspace: c.View.Workspace, view: c.View, events: c.Log, limits: c.Limits, log: c.Logger,
		clock: c.Machine.Clock, metrics: c.Metrics, tracing: tracing{c.Tracer}, registry: newRegistry(),
		defaults: defaults{observes: c.Observe, mode: c.Order},
		journals: journals{delivery: d, keys: c.Keys, openFile: c.Machine.Open, dataDir: c.DataDir,
			opened: c.Opened, patient: c.Patient},
		running: running{soon: make(chan struct{}, 1), joinedNow: c.Live, cut: c.Cut},
		calling: calling{tools: c.Tools, hook: c.Hook},
		ownTxs: ownTxs{txs: map[sequencer.TxID]*tx{}, active: map[sequencer.TxID]*tx{},
			ahead: map[sequencer.TxID]*ahead{}},
		looseReads: looseReads{loose: journal.Talks{}, moved: map[string]overtakes{}, giving: map[giving]*given{},
			asked: map[string]mentioned{}, covered: coverage.New(c.Limits.Conversations)},
	}
	s.work, s.stopWork = context.WithCancelCause(context.Background())
	c.Loop.Context, c.Loop.Tasks = s.work, 4*c.Limits.Open
	s.loop = loop.Timed{Loop: loop.New(c.Loop), Clock: s.clock,
		Pauses: pause.Doubling{Least: view.PauseLeast, Most: view.PauseMost}}
	s.lease.now = s.clock.Steady
	s.marks = settle.Marks{Journal: d, Workspace: s.workspace, Agent: s.agent, Clock: s.clock, Logger: s.log}
	if c.Tools != nil {
		s.engine = s.newEngine(c.Tools)
	}
	s.settling()
	s.measured()
	return s, nil
}

// Run opens the journal, joins the log and keeps the session alive until ctx ends. Then it begins no further call,
// lets those that are being made end and what was answered be published, within Limits.StopWait, and closes the
// journal. An error is ErrJournalLocked, streams.ErrOtherLog when the log is lost, or that of the journal.
func (s *Agent) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, s.delivery.Close()) }()
	var group sync.WaitGroup
	defer group.Wait()
	defer func() { // after an error, too: calls may be under way
		s.stop()
		if s.unwatch != nil {
			s.unwatch()
		}
		s.loop.Stop() // no decision comes any more, nor word of the view's end
	}()
	ended := make(chan error, 1)
	opening, cancel := context.WithCancel(ctx)
	defer cancel()
	s.loop.Run(func() { err = s.openJournal(opening) })
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	// Not before: the journal says what decisions are about.
	s.unwatch = s.view.Watch(view.Watcher{Agent: s.agent, Begun: s.begun, Observe: s.observed,
		Ended: s.loop.Stop})
	s.opened()
	group.Go(func() { s.delivery.Publish(s.work) })
	group.Go(func() { ended <- s.maintain(s.work, s.joinedNow) })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// stop begins no further call, lets those that are being made end and what was answered be published, and ends what
// works for the agent.
func (s *Agent) stop() {
	ctx, cancel := context.WithTimeout(s.cut, s.limits.StopWait)
	defer cancel()
	s.rest(ctx)
	if left := s.delivery.Drain(ctx); left > 0 {
		s.log.Warn("events are not published yet: the next start of this sidecar publishes them", "count", left)
	}
	s.stopWork(api.ErrStopped)
	s.loop.Join()
}

// owing counts what this sidecar waits for or works on: decisions, and settlements that are its own.
func (s *Agent) owing() (n int) {
	for _, t := range s.active {
		if t.begun && !t.decided() {
			n++
		}
	}
	return n + s.settle.Owing()
}

// rest begins no further call and lets those that are being made end: the outcome of one that is cut off may never be
// known. The next start continues with what is left to settle.
func (s *Agent) rest(ctx context.Context) {
	if s.engine == nil {
		return
	}
	s.lease.close()
	for s.engine.Calls() > 0 && s.clock.Sleep(ctx, stopPoll) == nil {
	}
	if n := s.engine.Calls(); n > 0 {
		s.log.Warn("calls are cut off: without a key their outcome will stay unknown", "count", n)
	}
}

// stopPoll is how often it is looked whether calls have ended.
const stopPoll = 2 * time.Millisecond

// Health says how the agent stands.
func (s *Agent) Health() (out api.Standing) {
	s.loop.Run(func() {
		parts := map[string]error{"session": s.health(), "journal": s.delivery.Health()}
		if s.unopened != nil { // it says more than that the journal is not open
			parts["journal"] = s.unopened
		}
		out = api.Standing{Agent: s.agent, Parts: parts, Record: s.delivery.Refused(), Refused: s.notLetIn(),
			Displaced: uint64(s.formers.Displaced()), Owed: s.owing(), Incarnation: uint64(s.liveIncarnation())}
	})
	return out
}

// measured registers what is looked at of the agent when it is asked for. It is called once, when all parts are there.
func (s *Agent) measured() {
	m := s.metrics
	m.Gauge("hence_sidecar_session_live", "1 while it has joined the log; else nothing can begin.", func() float64 {
		live := 1.0
		s.loop.Run(func() {
			if s.liveIncarnation() == 0 {
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

func measuredGate(to *metrics.Agent, m *gate.Metrics) {
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

// maintain joins the log, joins again when a lease has ended, renews the lease, and does what has to be done now and
// then, until ctx ends, or the log is another one: nothing that this process knows is true of that. It calls live
// after each join.
func (s *Agent) maintain(ctx context.Context, live func()) error {
	beat, stop := s.clock.Ticker(s.limits.WatermarkEvery)
	defer stop()
	pause := view.PauseLeast
	retryJoin := time.NewTimer(0)
	defer retryJoin.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.soon:
		case <-retryJoin.C:
		case now := <-beat:
			s.loop.Run(func() { s.beat(ctx, now) })
		}
		var err error
		var wanted bool
		var again time.Duration
		s.loop.Run(func() {
			if wanted = s.wantsJoin(); !wanted {
				s.settle.Start()
				return
			}
			err = s.join(ctx)
			again = s.joinIn()
		})
		if !wanted {
			continue
		}
		switch {
		case errors.Is(err, streams.ErrOtherLog):
			return err
		case errors.Is(err, loop.ErrStopped): // no decision comes any more, so no join is answered
			<-ctx.Done()
			return nil
		case err != nil:
			if ctx.Err() == nil && s.view.Ready() == nil {
				s.log.Warn("joining the log failed: tried again", "cause", err)
			}
			retryJoin.Reset(max(pause, again)) // a beat or a request in between does not join, either
			pause = min(2*pause, view.PauseMost)
			continue
		}
		pause = view.PauseLeast
		live()
	}
}

func (s *Agent) wantsJoin() bool {
	return !s.live && !s.superseded && !s.clock.Now().Before(s.joinAfter)
}

// joinIn is how long a refused join is left alone.
func (s *Agent) joinIn() time.Duration {
	return s.joinAfter.Sub(s.clock.Now())
}

// beat is what happens about once a second.
func (s *Agent) beat(ctx context.Context, now time.Time) {
	s.expire(now)
	s.settle.Start()
	s.settle.Beat(now)
	s.learnFormat(now)
	s.mark()
	if in := s.due(now); in != nil {
		s.promise(ctx, in, now)
	}
}

// due is the watermark to send now: whenever it has moved, and often enough to renew the lease when it has not. Of an
// agent with nothing open or to settle it moves with each decision of the others: it is sent when it has moved by so
// much that the log remembers less for it. Many agents that watch would else write more than those that work.
func (s *Agent) due(now time.Time) *sequencer.Intent {
	if !s.live {
		return nil
	}
	at, least := s.view.At(), sequencer.Seq(1)
	mark := s.oldest(at)
	if mark == at && s.settle.Idle() { // who settles calls sinks, and needs what is left of its lease
		least = sequencer.Seq(s.limits.WatermarkSeqs)
	}
	if mark < s.watermark+least && now.Sub(s.marked) < s.renewIn() {
		return nil
	}
	return s.renewal()
}

// expire ends transactions that the agent has left lying and that no decision shows: the log counts a deadline only
// once it knows of them.
func (s *Agent) expire(now time.Time) {
	var idle []*tx
	for _, t := range s.active {
		if t.phase == phaseOpen && !t.shown && now.Sub(t.created) > t.deadline(s.view.Settings().Rules) {
			idle = append(idle, t)
		}
	}
	passed := &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Code: sequencer.CodeDeadline, Retryable: true,
		Detail: "the deadline passed before it was sealed"}
	for _, t := range idle {
		s.giveUp(t, passed)
	}
	for _, t := range idle {
		s.abortInLog(t, passed, "")
	}
}

func (t *tx) deadline(r sequencer.Rules) time.Duration {
	ticks := t.begin.DeadlineTicks
	if ticks == 0 {
		ticks = r.DeadlineTicks
	}
	return time.Duration(ticks) * view.TickLength
}
