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

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent"
	face "github.com/hence-dev/hence/sidecar/http"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
)

// Sidecar is one agent's sidecar. Make it with New, run it with Run, once.
type Sidecar struct {
	config   Config
	log      *slog.Logger
	events   agent.Log
	listener net.Listener
	clock    agent.Clock
	ready    chan struct{}
	once     sync.Once

	view     *view.View
	session  *agent.Agent
	metrics  *metrics.Metrics
	server   *http.Server
	face     *face.Face
	drain    context.Context // ends when no new request is taken any more
	draining context.CancelFunc
}

// New makes a sidecar and opens its listener, so that its address is known. Call Run, or Close to give the listener
// back.
func New(config Config, log agent.Log) (*Sidecar, error) {
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
		clock: c.Machine.Clock, ready: make(chan struct{}),
		view: view.New(c.Workspace, c.Limits.OldBytes, c.Limits.ContentBytes),
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && c.TLS == nil {
		s.log.Warn("the interface is open to the network without TLS: whoever is on the way reads token and content",
			"listen", c.Listen)
	}
	s.metrics = metrics.New(func() float64 { return float64(s.view.At()) })
	s.drain, s.draining = context.WithCancel(context.Background())
	keys := once.New(c.Limits.IdempotencyKeys, c.Limits.IdempotencyBytes, c.Limits.IdempotencyAge, s.clock.Now, s.log)
	s.session, err = agent.New(agent.Config{Name: c.Agent, View: s.view, Log: log, Keys: keys, DataDir: c.DataDir,
		Order: c.Order, Observe: c.Observe, Tools: c.Tools, Hook: c.Hook, Limits: c.Limits, Logger: s.log, Tracer: c.Tracer,
		Metrics: s.metrics, Machine: c.Machine})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	w := view.NewWorkspaceView(s.view, log, c.Limits.FutureWait)
	s.face = face.New(face.Config{Agent: s.session, Keys: keys, Opened: s.session.Opened(), Workspace: w,
		Name: c.Workspace, AgentName: c.Agent, Token: c.Token, Operator: c.OperatorToken, Limits: limitsOfFace(c.Limits),
		Drain:  s.drain,
		Tracer: c.Tracer, Metrics: s.metrics, Log: s.log, Follow: followAt(log)})
	s.server = s.newServer()
	return s, nil
}

// followAt is what streams of decisions read. A test's sidecar that is not run may have no log.
func followAt(log agent.Log) face.FeedFollow {
	if log == nil {
		return nil
	}
	return log.FollowAt
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
func (s *Sidecar) Refused() error { return s.session.Refused() }

// Displaced is the incarnation of another sidecar of this agent that had a lease until this one joined; zero: there
// was none. One that left its journal here is no other.
func (s *Sidecar) Displaced() sequencer.Seq { return s.session.Displaced() }

// Close gives the listener of a sidecar back that is not run.
func (s *Sidecar) Close() error { return s.listener.Close() }

// Run serves the agent until ctx ends, then finishes running requests within Limits.StopWait. An error is
// ErrJournalLocked, ErrChain, streams.ErrOtherLog when the log is lost, streams.ErrGone when the view has fallen
// behind what is kept anywhere (start again, from a snapshot), or that of the journal or the listener.
func (s *Sidecar) Run(ctx context.Context) error {
	defer s.listener.Close()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group sync.WaitGroup
	failed := make(chan error, 3)
	group.Go(func() { s.measure(work) })
	group.Go(func() { failed <- s.serve() })
	group.Go(func() {
		if err := s.session.Run(s.wake); err != nil {
			failed <- err
		}
	})
	group.Go(func() {
		select {
		case <-s.session.Opened(): // else decisions would come before what the journal knows of them
		case <-work.Done():
			return
		}
		group.Go(func() { s.view.FetchContents(work, s.events, s.log) })
		failed <- s.view.Follow(work, s.events, s.log, s.metrics.Delivered)
	})
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.shutdown()
	stop()
	group.Wait()
	return errors.Join(err, s.session.Close())
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
func (s *Sidecar) shutdown() {
	wait := s.config.Limits.StopWait
	s.draining()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	half := time.AfterFunc(wait/2, s.view.End)
	defer half.Stop()
	for s.face.Busy() && view.Sleep(ctx, agent.StopPoll) {
	}
	if s.face.Busy() {
		s.log.Warn("requests were still running: their connections are closed", "after", wait)
	}
	// Nothing runs any more; what Shutdown would still wait for are connections that never carried a request.
	short, end := context.WithTimeout(ctx, agent.StopGrace)
	defer end()
	if s.server.Shutdown(short) != nil {
		_ = s.server.Close()
	}
	s.view.End()
	s.session.Stop(ctx)
}

// wake is called when the first session is live.
func (s *Sidecar) wake() { s.once.Do(func() { close(s.ready) }) }
