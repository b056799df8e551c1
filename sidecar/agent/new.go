package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/coverage"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology/machine"
	"github.com/hence-dev/hence/topology/pause"
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
	Metrics *metrics.Agent
	Machine Machine
	Loop    loop.Options    // Context and Tasks are the agent's own. A simulation gives its Scheduler
	Opened  func()          // called once the journal is open: before, no request is to be served
	Live    func()          // called after each join
	Patient bool            // a journal that cannot be opened is tried again, and does not end Run
	Cut     context.Context // ends what Run still waits for when it stops; nil: only Limits.StopWait does
}

// Complete fills in defaults and says what is wrong with a configuration.
func Complete(c Config) (Config, error) {
	c.Limits, c.Machine = WithDefaults(c.Limits), c.Machine.orThis()
	nothing := func() {}
	if c.Opened == nil {
		c.Opened = nothing
	}
	if c.Live == nil {
		c.Live = nothing
	}
	if c.Cut == nil {
		c.Cut = context.Background()
	}
	var err error
	c.Hook, err = c.Hook.withDefaults()
	return c, errors.Join(ValidAgent(c.Name), err)
}

// Machine is what an agent has of the machine that it runs on. Zero fields are this machine's; a test puts others.
type Machine struct {
	Clock Clock
	Open  journal.Opener // of journals
	Boot  string         // names the time since the machine was started; empty: it has no name for it
}

// orThis completes a machine.
func (m Machine) orThis() Machine {
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

func (s *Agent) newEngine(t gate.Tools) *gate.Engine {
	return gate.New(gate.Options{Tools: capped{t, s}, Marks: s.marks, Lease: &s.lease, Clock: s.clock, Log: s.log,
		Origin: s.originOutside})
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

// Limits bound what a sidecar keeps and how long it waits. A zero field is its default.
type Limits struct {
	BodyBytes        int64         // of a request's body; 512 KiB
	Requests         int           // worked on at once; 512
	Watchers         int           // streams of decisions at once; 32
	Open             int           // open transactions; 256
	Conversations    int           // with reads outside transactions that no seal has carried yet; 4096
	Decided          int           // transactions that are over and still answered; 4096
	ListItems        int           // of one answer; 1000
	WaitMost         time.Duration // of one request; 30 s
	FutureWait       time.Duration // for a seq that is not there yet; 1 s
	SessionWait      time.Duration // for a session that is just beginning; 3 s
	OldBytes         int64         // contents of former revisions; 32 MiB
	ContentBytes     int64         // contents fetched by reference; 32 MiB
	IdempotencyKeys  int           // remembered, then the oldest go; 32768
	IdempotencyBytes int64         // of keys and answers, then the oldest answers go; 16 MiB
	IdempotencyAge   time.Duration // how long a key is remembered; 1 h
	Attempts         int           // of one piece of work, then give up; 64
	LockedAfter      int           // refusals, then further attempts are locked; 5
	JournalBytes     int64         // size at which the journal is rewritten; 8 MiB
	PendingEvents    int           // events that wait to be published; 8192
	StopWait         time.Duration // for running requests when stopping; 5 s
	WatermarkEvery   time.Duration // while the view moves; 1 s
	WatermarkSeqs    int           // that pass before an agent that only watches says so, but for its lease; 256
	RenewEvery       time.Duration // of the lease when nothing moves; a third of what it surely lasts, at least 3 s
	SettlementWait   time.Duration // for an agent to say what it did under its touches, after an abort; 2 min
	Branches         int           // of a group; 16
	AdoptAfter       time.Duration // how long an orphan may block this agent before it is adopted; 2 s
	Readers          int           // with a delivery log of their own, then the oldest end; 100,000
	PlanWait         time.Duration // for calls that are planned before one that moves the same; 2 s
	ReaderTTL        time.Duration // how long what a reader was given counts, unless it says so; 1 h
}

// WithDefaults puts its default in place of each limit that is zero.
func WithDefaults(l Limits) Limits {
	l.BodyBytes = cmp.Or(l.BodyBytes, 512<<10)
	l.Requests = cmp.Or(l.Requests, 512)
	l.Watchers = cmp.Or(l.Watchers, 32)
	l.Open = cmp.Or(l.Open, 256)
	l.Conversations = cmp.Or(l.Conversations, 4096)
	l.Decided = cmp.Or(l.Decided, 4096)
	l.ListItems = cmp.Or(l.ListItems, 1000)
	l.WaitMost = cmp.Or(l.WaitMost, 30*time.Second)
	l.FutureWait = cmp.Or(l.FutureWait, time.Second)
	l.SessionWait = cmp.Or(l.SessionWait, 3*time.Second)
	l.OldBytes = cmp.Or(l.OldBytes, 32<<20)
	l.ContentBytes = cmp.Or(l.ContentBytes, 32<<20)
	l.IdempotencyKeys = cmp.Or(l.IdempotencyKeys, 32768)
	l.IdempotencyBytes = cmp.Or(l.IdempotencyBytes, 16<<20)
	l.IdempotencyAge = cmp.Or(l.IdempotencyAge, time.Hour)
	l.Attempts = cmp.Or(l.Attempts, 64)
	l.LockedAfter = cmp.Or(l.LockedAfter, 5)
	l.JournalBytes = cmp.Or(l.JournalBytes, 8<<20)
	l.PendingEvents = cmp.Or(l.PendingEvents, 8192)
	l.StopWait = cmp.Or(l.StopWait, 5*time.Second)
	l.WatermarkEvery = cmp.Or(l.WatermarkEvery, time.Second)
	l.WatermarkSeqs = cmp.Or(l.WatermarkSeqs, 256)
	l.SettlementWait = cmp.Or(l.SettlementWait, 2*time.Minute)
	l.Branches = cmp.Or(l.Branches, 16)
	l.AdoptAfter = cmp.Or(l.AdoptAfter, 2*time.Second)
	l.Readers = cmp.Or(l.Readers, 100_000)
	l.PlanWait = cmp.Or(l.PlanWait, 2*time.Second)
	l.ReaderTTL = cmp.Or(l.ReaderTTL, time.Hour)
	return l
}

// Clock is where a sidecar has its time from.
type Clock = loop.Clock

// randomID is 96 random bits.
func randomID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
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

// rest begins no further call and lets those that are being made end: one that is cut off may be one that nobody will
// ever know of. What is left to settle the next start goes on with.
func (s *Agent) rest(ctx context.Context) {
	if s.engine == nil {
		return
	}
	s.lease.close()
	for s.engine.Calls() > 0 && s.clock.Sleep(ctx, stopPoll) == nil {
	}
	if n := s.engine.Calls(); n > 0 {
		s.log.Warn("calls are cut off: without a key nobody will know of them", "count", n)
	}
}

// stopPoll is how often it is looked whether calls have ended.
const stopPoll = 2 * time.Millisecond
