// Package sidecar is the process beside an agent. It keeps a view of its workspace's decisions, writes down what it
// tells the agent before it tells it, turns the agent's calls into intents for the log, and serves all of it as /v1
// over HTTP.
//
// Guarantees: an answered read is in the delivery log first, and the next seal carries it; a view is always a gapless
// prefix of the decisions, so all sidecars of a workspace see one order; a seal that may have reached the log is
// repeated under its number until it did, so it counts once. What can be lost: with the process, its open
// transactions (they answer 410 afterwards); with the machine, the newest journal records, of transactions that are
// lost then anyway.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/machine"
	"github.com/hence-dev/hence/topology/pause"
)

// Sidecar is one agent's sidecar. Make it with New, run it with Run, once.
type Sidecar struct {
	config      Config
	log         *slog.Logger
	events      Log
	listener    net.Listener
	clock       clock
	open        openFile
	boot        string        // of the machine; empty: not known
	journalOpen chan struct{} // closed once it is
	ready       chan struct{}
	once        sync.Once

	view    *view
	session *session
	keys    *keys
	untold  untold
	dealing dealing
	metrics *metrics
	server  *http.Server
	face    *face
	drain   context.Context // ends when no new request is taken any more
	draining,
	stopWork context.CancelFunc
}

// New makes a sidecar and opens its listener, so that its address is known. Call Run, or Close to give the listener
// back.
func New(config Config, log Log) (*Sidecar, error) {
	c, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for the agent: %w", err)
	}
	s := &Sidecar{
		config: c, log: c.Logger.With("agent", c.Agent, "workspace", c.Workspace), events: log, listener: listener,
		clock: machine.Clock{}, open: openOS, boot: bootID(), ready: make(chan struct{}),
		journalOpen: make(chan struct{}),
		view:        newView(c.Workspace, c.Limits.OldBytes),
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && c.TLS == nil {
		s.log.Warn("the interface is open to the network without TLS: whoever is on the way reads token and content",
			"listen", c.Listen)
	}
	s.metrics = newMetrics(s.view)
	s.keys = newKeys(c.Limits, func() time.Time { return s.clock.Now() }, s.log)
	s.drain, s.draining = context.WithCancel(context.Background())
	s.session = &session{
		joinPause: pause.Doubling{Least: pauseMost, Most: pauseAsking},
		loose:     talks{}, moved: map[string]overtakes{},
		hook: c.Hook, registry: newRegistry(),
		agent: c.Agent, workspace: c.Workspace, view: s.view, events: log, limits: c.Limits, observes: c.Observe,
		tools: c.Tools, tracing: tracing{c.Tracer},
		log: s.log, metrics: s.metrics, soon: make(chan struct{}, 1), txs: map[sequencer.TxID]*tx{},
		active: map[sequencer.TxID]*tx{},
		debts:  map[sequencer.TxID]*debt{}, contents: newContents(c.Limits.ContentBytes),
	}
	return s, nil
}

// Addr is the address that the sidecar listens on.
func (s *Sidecar) Addr() string { return s.listener.Addr().String() }

// URL is the base of the sidecar's routes.
func (s *Sidecar) URL() string {
	if s.config.TLS != nil {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// Token is the bearer token that requests must carry.
func (s *Sidecar) Token() string { return s.config.Token }

// Ready is closed once the sidecar has its view and its first session.
func (s *Sidecar) Ready() <-chan struct{} { return s.ready }

// Refused is why the log does not let the sidecar in; nil: it has not refused it. It is asked again by itself.
func (s *Sidecar) Refused() error {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	return s.session.notLetIn()
}

// Displaced is the incarnation of another sidecar of this agent that had a lease until this one joined; zero: there
// was none. One that left its journal here is no other.
func (s *Sidecar) Displaced() sequencer.Seq {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	return s.session.displaced
}

// Close gives the listener of a sidecar back that is not run.
func (s *Sidecar) Close() error { return s.listener.Close() }

// Run serves the agent until ctx ends, then finishes running requests within Limits.StopWait. An error is
// ErrJournalLocked, ErrChain, streams.ErrOtherLog when the log is lost, streams.ErrGone when the view has fallen
// behind what is kept anywhere (start again, from a snapshot), or that of the journal or the listener.
func (s *Sidecar) Run(ctx context.Context) error {
	defer s.listener.Close()
	d := newDelivery(s.events, s.config.Limits, s.log)
	d.boot = s.boot
	s.session.delivery, s.session.clock, s.session.lease.now = d, s.clock, s.clock.Steady
	if c := s.config.Tools; c != nil && s.session.engine == nil {
		s.session.engine = s.newEngine(c)
	}
	s.session.bare = s.newEngine(noTools{})
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	s.stopWork = func() { stop(ErrStopped) }
	s.session.tasks = tasks{ctx: work, limit: 4 * s.config.Limits.Open}
	s.face = s.newFace()
	s.server = s.newServer()
	s.measured()

	var group sync.WaitGroup
	failed := make(chan error, 3)
	group.Go(func() { s.measure(work) })
	group.Go(func() { failed <- s.serve() })
	group.Go(func() {
		if err := s.openJournal(work); err != nil {
			if work.Err() == nil {
				failed <- err
			}
			return
		}
		group.Go(func() { d.publish(work) })
		group.Go(func() {
			if err := s.session.maintain(work, s.wake); err != nil {
				failed <- err
			}
		})
		group.Go(func() { s.fetchContents(work) })
		failed <- s.follow(work)
	})
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.shutdown(d)
	group.Wait()
	return errors.Join(err, d.close())
}

func (s *Sidecar) newEngine(t gate.Tools) *gate.Engine {
	return gate.New(gate.Options{Tools: capped{t, s.session}, Marks: marks{s.session}, Lease: &s.session.lease,
		Log: s.log, Origin: s.session.where})
}

func (s *Sidecar) serve() error {
	serve := func() error { return s.server.Serve(s.listener) }
	if s.config.TLS != nil {
		serve = func() error { return s.server.ServeTLS(s.listener, "", "") } // refuses plain HTTP with a 400
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the agent: %w", err)
	}
	return nil
}

// openJournal opens the journal once the log has said which one it is: what is in that of another log is true of
// nothing here. Until then no request is taken.
func (s *Sidecar) openJournal(ctx context.Context) error {
	var err error
	wait := retry(ctx, func() error {
		if err = s.tryJournal(ctx); errors.Is(err, errNotKnown) {
			return err
		}
		return nil
	}, s.complain("the journal is not open yet: asked again"))
	if err = errors.Join(err, wait); err != nil {
		return err
	}
	s.session.adopt(s.session.delivery.ledger)
	s.keys.open(s.session.delivery)
	close(s.journalOpen)
	return nil
}

// complain says what a retry waits for, once for each reason: brokers may be away for an hour.
func (s *Sidecar) complain(what string) func(error) {
	said := ""
	return func(err error) {
		if text := err.Error(); text != said {
			said = text
			s.log.Warn(what, "cause", err)
		}
	}
}

// idTry is how long the log may take to say its id before that is said.
const idTry = 5 * time.Second

func (s *Sidecar) tryJournal(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, idTry)
	defer cancel()
	id, err := s.events.ID(try)
	if err != nil {
		return fmt.Errorf("the log's id is %w: %w", errNotKnown, err)
	}
	s.session.mu.Lock()
	s.session.origin = gate.Origin(id, s.config.Workspace)
	s.session.mu.Unlock()
	of := journalOf{Log: id, Workspace: s.config.Workspace, Agent: s.config.Agent}
	return s.session.delivery.open(s.config.DataDir, of, s.open, func(l *ledger, written time.Time) (bool, error) {
		return s.ofThisLog(ctx, l, written)
	})
}

// shutdown takes no new request, lets running ones finish for a while, then ends them and the work behind them.
func (s *Sidecar) shutdown(d *delivery) {
	wait := s.config.Limits.StopWait
	s.draining()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	half := time.AfterFunc(wait/2, s.view.waits.close)
	defer half.Stop()
	for s.face.busy() && pause.Sleep(ctx, stopPoll) == nil {
	}
	if s.face.busy() {
		s.log.Warn("requests were still running: their connections are closed", "after", wait)
	}
	// Nothing runs any more; what Shutdown would still wait for are connections that never carried a request.
	short, end := context.WithTimeout(ctx, stopGrace)
	defer end()
	if s.server.Shutdown(short) != nil {
		_ = s.server.Close()
	}
	s.view.waits.close()
	s.session.rest(ctx)
	if left := d.drain(ctx); left > 0 {
		s.log.Warn("events are not published yet: the next start of this sidecar publishes them", "count", left)
	}
	s.stopWork()
	s.session.tasks.join()
}

// rest begins no further call and lets those that are being made end: one that is cut off may be one that nobody will
// ever know of. What is left to settle the next start goes on with.
func (s *session) rest(ctx context.Context) {
	if s.engine == nil {
		return
	}
	s.lease.close()
	for s.engine.Calls() > 0 && pause.Sleep(ctx, stopPoll) == nil {
	}
	if n := s.engine.Calls(); n > 0 {
		s.log.Warn("calls are cut off: without a key nobody will know of them", "count", n)
	}
}

const (
	stopPoll  = 2 * time.Millisecond
	stopGrace = 100 * time.Millisecond
)

// wake is called when the first session is live.
func (s *Sidecar) wake() { s.once.Do(func() { close(s.ready) }) }

// follow keeps the view up to date until ctx ends. An error is ErrChain or streams.ErrGone.
func (s *Sidecar) follow(ctx context.Context) error {
	err := retry(ctx, func() error {
		snapshot, err := s.events.Snapshot(ctx, s.config.Workspace)
		if err != nil {
			return err
		}
		s.view.start(snapshot)
		return nil
	}, s.complain("the view has no snapshot yet: asked again"))
	if err != nil {
		return nil
	}
	s.session.hurry()
	s.view.waits.wake(waitSeq)
	pauses := pause.Doubling{Least: pauseLeast, Most: pauseMost}
	for {
		before := s.view.at()
		err := s.events.Follow(ctx, s.config.Workspace, before, s.applied)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrChain), errors.Is(err, streams.ErrGone):
			s.log.Error("the view has stopped for good", "cause", err)
			s.view.waits.close()
			return err
		case s.view.at() > before:
			pauses.Reset()
		}
		next := pauses.Next()
		s.log.Warn("following the decisions ended: begun again", "cause", err, "pause", next)
		if pause.Sleep(ctx, next) != nil {
			return nil
		}
	}
}

// applied brings one decision into the view and wakes those who wait for it.
func (s *Sidecar) applied(o *sequencer.Outcome, way streams.Way) error {
	fresh, err := s.view.apply(o)
	if err != nil || !fresh {
		return err
	}
	s.metrics.delivered(way)
	s.view.waits.wake(s.session.observe(o)...)
	return nil
}
