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
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
)

// Sidecar is one agent's sidecar. Make it with New, run it with Run, once.
type Sidecar struct {
	config   Config
	log      *slog.Logger
	events   Log
	listener net.Listener
	clock    clock
	open     openFile
	boot     string // of the machine; empty: not known
	ready    chan struct{}
	once     sync.Once

	view    *view
	session *session
	keys    *keys
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
		clock: systemClock{}, open: openOS, boot: bootID(), ready: make(chan struct{}),
		view: newView(c.Workspace, c.Limits.OldBytes),
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && c.TLS == nil {
		s.log.Warn("the interface is open to the network without TLS: whoever is on the way reads token and content",
			"listen", c.Listen)
	}
	s.metrics = newMetrics(s.view)
	s.keys = newKeys(c.Limits, func() time.Time { return s.clock.Now() }, s.log)
	s.drain, s.draining = context.WithCancel(context.Background())
	s.session = &session{
		loose: talks{}, moved: map[string]overtakes{}, keys: s.keys, opened: make(chan struct{}), mode: c.Order,
		dataDir: c.DataDir,
		hook:    c.Hook, registry: newRegistry(),
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
	s.session.bare, s.session.openFile = s.newEngine(noTools{}), s.open
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	s.stopWork = func() { stop(api.ErrStopped) }
	s.session.tasks = tasks{ctx: work, limit: 4 * s.config.Limits.Open}
	w := &workspaceView{s.view, s.events, s.config.Limits.FutureWait}
	s.face = newFace(faceConfig{agent: s.session, keys: s.keys, opened: s.session.opened, workspace: w,
		name: s.config.Workspace, agentName: s.config.Agent, token: s.config.Token, operator: s.config.OperatorToken,
		limits: s.config.Limits, drain: s.drain, tracer: s.config.Tracer, metrics: s.metrics, log: s.log,
		follow: s.events.FollowAt})
	s.server = s.newServer()
	s.measured()

	var group sync.WaitGroup
	failed := make(chan error, 3)
	group.Go(func() { s.measure(work) })
	group.Go(func() { failed <- s.serve() })
	group.Go(func() {
		if err := s.session.openJournal(work); err != nil {
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
		group.Go(func() { s.view.fetchContents(work, s.events, s.log) })
		failed <- s.view.follow(work, s.events, s.log, s.observed)
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

// shutdown takes no new request, lets running ones finish for a while, then ends them and the work behind them.
func (s *Sidecar) shutdown(d *delivery) {
	wait := s.config.Limits.StopWait
	s.draining()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	half := time.AfterFunc(wait/2, s.view.waits.close)
	defer half.Stop()
	for s.face.busy() && sleep(ctx, stopPoll) {
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

// wake is called when the first session is live.
func (s *Sidecar) wake() { s.once.Do(func() { close(s.ready) }) }

// observed tells the agent of a decision that the view has, and first, without one, that the view has its snapshot.
func (s *Sidecar) observed(o *sequencer.Outcome, way streams.Way) {
	if o == nil {
		s.session.hurry()
		return
	}
	s.metrics.delivered(way)
	s.view.waits.wake(s.session.observe(o)...)
}
