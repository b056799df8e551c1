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
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/sidecar/agent"
	"github.com/hence-dev/hence/sidecar/feed"
	face "github.com/hence-dev/hence/sidecar/http"
	"github.com/hence-dev/hence/sidecar/llm"
	"github.com/hence-dev/hence/sidecar/mcp"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/signature"
	"github.com/hence-dev/hence/sidecar/view"
)

// Sidecar serves the agents of one process. Make it with New, run it with Run, once.
type Sidecar struct {
	config   Config
	log      *slog.Logger
	events   agent.Log
	listener net.Listener
	clock    agent.Clock
	ready    chan struct{}

	view     *view.View
	metrics  *metrics.Process
	server   *http.Server
	face     *face.Face
	seats    *face.Seats
	verifier *signature.Verifier
	bus      bus
	mcp      *mcp.Face       // nil: MCP clients are not served
	llm      *llm.Face       // nil: no model is served
	drain    context.Context // ends when no new request is taken any more
	draining context.CancelFunc
	cut      context.Context // ends when what is still being stopped is cut off
	cutOff   context.CancelFunc
	work     context.Context // of the agents: it ends once no request runs any more
	stopWork context.CancelFunc
	failed   chan error // what ends the whole process

	only *Member // the agent of a process that serves one; nil: it serves several

	mu      sync.Mutex
	members map[string]*Member
	running bool // Run has begun: a member that joins is run at once
	stopped bool // no member is run any more
	group   sync.WaitGroup
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
		config: c, log: c.Logger.With("workspace", c.Workspace), events: log, listener: listener,
		clock: c.Machine.Clock, ready: make(chan struct{}), failed: make(chan error, 1), members: map[string]*Member{},
		view: view.New(c.Workspace, c.Limits.OldBytes, c.Limits.ContentBytes),
	}
	if !c.several() {
		s.log = c.Logger.With("agent", c.Agent, "workspace", c.Workspace)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		if c.AnyAgent {
			return nil, errors.Join(errors.New("any agent is served on a loopback address only, because its callers share "+
				"one token: listen on 127.0.0.1"),
				listener.Close())
		}
		if c.TLS == nil {
			s.log.Warn("the interface is open to the network without TLS: token and content can be read on the way",
				"listen", c.Listen)
		}
	}
	s.metrics = metrics.New(func() float64 { return float64(s.view.At()) })
	s.drain, s.draining = context.WithCancel(context.Background())
	s.cut, s.cutOff = context.WithCancel(context.Background())
	s.work, s.stopWork = context.WithCancel(context.Background())
	if err = s.seat(); err == nil {
		err = s.openKeys()
	}
	s.openLLM()
	if err == nil {
		err = s.openBus()
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	w := view.NewWorkspaceView(s.view, log, c.Limits.FutureWait)
	s.face = face.New(face.Config{Agents: s.seats, Workspace: w, Name: c.Workspace, Limits: limitsOfFace(c.Limits),
		Drain: s.drain, Tracer: c.Tracer, Metrics: s.metrics, Log: s.log, Follow: followAt(log),
		Anomalies: followAnomalies(log), MCP: s.mcpServers()})
	s.openMCP()
	s.server = s.newServer()
	return s, nil
}

// seat makes the agents that are named.
func (s *Sidecar) seat() (err error) {
	c := &s.config
	defer func() { // after the agents' tokens: one that is both is refused
		for _, name := range slices.Sorted(maps.Keys(c.Approvers)) {
			if err == nil {
				err = s.seats.GrantApprover(name, c.Approvers[name])
			}
		}
	}()
	if !c.several() {
		s.seats = face.NewSeats(false, nil)
		s.only, err = s.Join(AgentConfig{Agent: c.Agent, Token: c.Token, OperatorToken: c.OperatorToken})
		return err
	}
	var join func(string) error
	if c.AnyAgent {
		join = s.joinAny
	}
	s.seats = face.NewSeats(true, join)
	if c.AnyAgent {
		role := face.RoleAgent
		if c.OperatorToken == "" {
			role = face.RoleOperator
		}
		err = s.seats.Grant("", c.Token, role)
	}
	if c.OperatorToken != "" {
		err = errors.Join(err, s.seats.Grant("", c.OperatorToken, face.RoleOperator))
	}
	for _, one := range c.Agents {
		if err == nil {
			_, err = s.Join(one)
		}
	}
	return err
}

// followAt is what streams of decisions read. A test's sidecar that is not run may have no log.
func followAt(log agent.Log) face.FeedFollow {
	if log == nil {
		return nil
	}
	return log.FollowAt
}

// followAnomalies is what streams of anomalies read.
func followAnomalies(log agent.Log) feed.FollowAnomalies {
	if log == nil {
		return nil
	}
	return log.FollowAnomalies
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

// Token is the bearer token that requests must carry: that of the one agent, or the one of all agents of AnyAgent.
func (s *Sidecar) Token() string { return s.config.Token }

// Ready is closed once the sidecar has its view and the first sessions of its agents. Of several, one that cannot be
// served, because of its journal or the log's refusal, is not waited for when another one is there.
func (s *Sidecar) Ready() <-chan struct{} { return s.ready }

// Refused is why the log does not let the sidecar's agents in; nil: it has not refused one. It is asked again by
// itself.
func (s *Sidecar) Refused() (err error) {
	for _, m := range s.Members() {
		err = errors.Join(err, m.Refused())
	}
	return err
}

// Close gives the listener of a sidecar back that is not run.
func (s *Sidecar) Close() error { return errors.Join(s.listener.Close(), s.bus.close()) }

// Run serves the agents until ctx ends, then finishes running requests within Limits.StopWait. An error is
// ErrJournalLocked, ErrChain, streams.ErrOtherLog when the log is lost, streams.ErrGone when the view has fallen
// behind what is kept anywhere (start again, from a snapshot), or that of the journal or the listener. Of several
// agents, one whose journal cannot be opened is tried again, and ends nothing.
func (s *Sidecar) Run(ctx context.Context) error {
	defer s.listener.Close()
	defer s.bus.close()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { s.measure(work) })
	group.Go(func() { s.fail(s.serve()) })
	if s.bus.server != nil {
		group.Go(func() { s.fail(s.bus.serve(s.config.TLS != nil)) })
	}
	s.start()
	group.Go(func() { s.awaitReady(work) })
	group.Go(func() { s.view.FetchContents(work, s.events, s.log) })
	group.Go(func() { s.fail(s.view.Follow(work, s.events, s.mayFollow(), s.log, s.metrics.Delivered)) })
	if s.config.AnyAgent {
		group.Go(func() { s.retire(work) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	err = errors.Join(err, s.shutdown())
	stop()
	group.Wait()
	return err
}

// mayFollow is closed once decisions may come: to a sidecar of one agent not before its journal is open, which knows
// what they are about. Of several, each agent's watcher begins when its own is.
func (s *Sidecar) mayFollow() <-chan struct{} {
	if s.only != nil {
		return s.only.opened
	}
	open := make(chan struct{})
	close(open)
	return open
}

// fail ends the process with an error; nil: a part has ended as it should.
func (s *Sidecar) fail(err error) {
	select {
	case s.failed <- err:
	default: // one is enough
	}
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

// How a stop waits: how often it is looked whether requests run, and how long connections without one may take.
const (
	stopPoll  = 2 * time.Millisecond
	stopGrace = 100 * time.Millisecond
)

func (s *Sidecar) busy() bool {
	return s.face.Busy() || s.mcp != nil && s.mcp.Busy() || s.llm != nil && s.llm.Busy()
}

// shutdown takes no new request, lets running ones finish for a while, then ends them and the work behind them.
func (s *Sidecar) shutdown() error {
	wait := s.config.Limits.StopWait
	s.draining()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	defer context.AfterFunc(ctx, s.cutOff)() // the agents' stop has what the requests leave of the time
	half := time.AfterFunc(wait/2, s.view.End)
	defer half.Stop()
	s.bus.stop(ctx)
	for s.busy() && view.Sleep(ctx, stopPoll) {
	}
	if s.busy() {
		s.log.Warn("requests were still running: their connections are closed", "after", wait)
	}
	// Nothing runs any more; what Shutdown would still wait for are connections that never carried a request.
	short, end := context.WithTimeout(ctx, stopGrace)
	defer end()
	if s.server.Shutdown(short) != nil {
		_ = s.server.Close()
	}
	s.view.End()
	return s.stopMembers()
}
