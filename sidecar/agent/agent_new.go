package agent

import (
	"cmp"
	"context"
	"log/slog"
	"sync"

	"github.com/hence-dev/hence/topology/machine"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
)

// Config is what an agent is made of.
type Config struct {
	Name    string
	View    *view.View // of its workspace; shared by the agents of a process
	Log     Log
	Keys    *once.Keys     // requests with an Idempotency-Key: the agent's journal keeps them
	DataDir string         // the journal's folder; empty: the delivery log is in memory only
	Order   sequencer.Mode // of transactions that name none
	Observe bool           // every transaction only observes
	Tools   gate.Tools     // the policy; nil: none, then no tool is called
	Hook    Hook           // says yes or no to each sealed footprint
	Limits  Limits
	Logger  *slog.Logger
	Tracer  trace.Tracer // nil: no spans are begun
	Metrics *metrics.Metrics
	Machine Machine
}

// Machine is what an agent has of the machine that it runs on. Zero fields are this machine's; a test puts others.
type Machine struct {
	Clock Clock
	Open  journal.Opener // of journals
	Boot  string         // names the time since the machine was started; empty: it has no name for it
}

// OrThis completes a machine.
func (m Machine) OrThis() Machine {
	if m.Clock == nil {
		m.Clock = machine.Clock{}
	}
	if m.Open == nil {
		m.Open = journal.OpenOS
	}
	m.Boot = cmp.Or(m.Boot, journal.BootID())
	return m
}

// New makes an agent. Call Run; before, it answers nothing but that it is not ready.
func New(c Config) (*Agent, error) {
	if err := ValidAgent(c.Name); err != nil {
		return nil, err
	}
	var err error
	if c.Hook, err = c.Hook.WithDefaults(); err != nil {
		return nil, err
	}
	c.Limits, c.Machine = c.Limits.WithDefaults(), c.Machine.OrThis()
	d := journal.New(c.Log, c.Limits.PendingEvents, c.Limits.JournalBytes, c.Logger)
	d.Boot = c.Machine.Boot
	s := &Agent{
		agent: c.Name, workspace: c.View.Workspace, view: c.View, events: c.Log, keys: c.Keys, dataDir: c.DataDir,
		mode: c.Order, observes: c.Observe, tools: c.Tools, hook: c.Hook, limits: c.Limits, log: c.Logger,
		tracing: tracing{c.Tracer}, metrics: c.Metrics, clock: c.Machine.Clock, openFile: c.Machine.Open, delivery: d,
		registry: newRegistry(), opened: make(chan struct{}), soon: make(chan struct{}, 1), loose: journal.Talks{},
		moved: map[string]overtakes{}, txs: map[sequencer.TxID]*tx{}, active: map[sequencer.TxID]*tx{},
		debts: map[sequencer.TxID]*debt{},
	}
	work, stop := context.WithCancelCause(context.Background())
	s.tasks, s.stopWork = tasks{ctx: work, limit: 4 * c.Limits.Open}, stop
	s.lease.now = s.clock.Steady
	if c.Tools != nil {
		s.engine = s.newEngine(c.Tools)
	}
	s.bare = s.newEngine(noTools{})
	c.View.Watch(s.hurry, s.observe)
	s.measured()
	return s, nil
}

func (s *Agent) newEngine(t gate.Tools) *gate.Engine {
	return gate.New(gate.Options{Tools: capped{t, s}, Marks: marks{s}, Lease: &s.lease, Log: s.log, Origin: s.where})
}

// Run opens the journal, joins the log and keeps the session alive until Stop. live is called after each join. An error
// is ErrJournalLocked, streams.ErrOtherLog when the log is lost, or that of the journal; then the agent serves nothing
// any more, and Stop gives back what it holds.
func (s *Agent) Run(live func()) error {
	ctx := s.tasks.ctx
	if err := s.openJournal(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { s.delivery.Publish(ctx) })
	return s.maintain(ctx, live)
}

// Opened is closed once the journal is open: before, no request is answered.
func (s *Agent) Opened() <-chan struct{} { return s.opened }

// Stop begins no further call, lets those that are being made end and what was answered be published, as long as ctx
// lasts, and ends Run's work. Close follows once Run has returned.
func (s *Agent) Stop(ctx context.Context) {
	s.rest(ctx)
	if left := s.delivery.Drain(ctx); left > 0 {
		s.log.Warn("events are not published yet: the next start of this sidecar publishes them", "count", left)
	}
	s.stopWork(api.ErrStopped)
	s.tasks.join()
}

// Close leaves the journal whole and gives its lock back.
func (s *Agent) Close() error { return s.delivery.Close() }

// Refused is why the log does not let the agent in; nil: it has not refused it. It is asked again by itself.
func (s *Agent) Refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notLetIn()
}

// Displaced is the incarnation of another sidecar of this agent that had a lease until this one joined; zero: there
// was none. One that left its journal here is no other.
func (s *Agent) Displaced() sequencer.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.displaced
}
