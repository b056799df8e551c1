package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	face "github.com/hence-dev/hence/sidecar/http"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
)

// setup is what a test's process is told: what an agent is made of, and what it is reached by.
type setup struct {
	Agent, Workspace, DataDir, Token, OperatorToken string

	Tools   gate.Tools
	Hook    Hook
	Limits  Limits
	Fast    bool // a benchmark: the loop does not look for a missing Moved
	Logger  *slog.Logger
	Machine Machine
}

// process is an agent with its view and its HTTP face, as package sidecar puts them together.
type process struct {
	config   setup
	view     *view.View
	session  *Agent
	seat     *face.Seat
	face     *face.Face
	metrics  *metrics.Agent
	counted  *metrics.Process
	opened   chan struct{}
	listener net.Listener
	server   *http.Server
	ready    chan struct{}
	once     sync.Once
	draining context.CancelFunc
}

// assemble makes a process and opens its listener.
func assemble(c setup, log Log) (*process, error) {
	c.Workspace, c.Token = cmp.Or(c.Workspace, "default"), cmp.Or(c.Token, randomID())
	c.Limits, c.Machine = WithDefaults(c.Limits), c.Machine.orThis()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &process{config: c, listener: listener, ready: make(chan struct{}), opened: make(chan struct{}),
		view: view.New(c.Workspace, c.Limits.OldBytes, c.Limits.ContentBytes)}
	p.counted = metrics.New(func() float64 { return float64(p.view.At()) })
	p.metrics = p.counted.Agent("")
	drain, draining := context.WithCancel(context.Background())
	p.draining = draining
	keys := once.New(c.Limits.IdempotencyKeys, c.Limits.IdempotencyBytes, c.Limits.IdempotencyAge, c.Machine.Clock.Now,
		c.Logger)
	p.session, err = New(Config{Name: c.Agent, View: p.view, Log: log, Keys: keys, DataDir: c.DataDir,
		Tools: c.Tools, Hook: c.Hook, Limits: c.Limits, Logger: c.Logger, Metrics: p.metrics, Machine: c.Machine,
		Loop:   loop.Options{Verify: !c.Fast},
		Opened: func() { close(p.opened) }, Live: func() { p.once.Do(func() { close(p.ready) }) }})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	seats := face.NewSeats(false, nil)
	p.seat = &face.Seat{Agent: p.session, Name: c.Agent, Keys: keys, Opened: p.opened, Offers: func() *api.Offers {
		return Offers(c.Tools)
	},
		Span: func(tx string) trace.SpanContext { return Span(p.session, tx) }}
	seats.Add(p.seat)
	role := face.RoleAgent
	if c.OperatorToken == "" {
		role = face.RoleOperator
	} else if err = seats.Grant(c.Agent, c.OperatorToken, face.RoleOperator); err != nil {
		return nil, err
	}
	if err = seats.Grant(c.Agent, c.Token, role); err != nil {
		return nil, err
	}
	of := face.Config{Agents: seats, Name: c.Workspace,
		Workspace: view.NewWorkspaceView(p.view, log, c.Limits.FutureWait),
		Limits: face.Limits{BodyBytes: c.Limits.BodyBytes, Requests: c.Limits.Requests, Watchers: c.Limits.Watchers,
			ListItems: c.Limits.ListItems, WaitMost: c.Limits.WaitMost}, Drain: drain, Metrics: p.counted, Log: c.Logger}
	if log != nil {
		of.Follow = log.FollowAt
	}
	p.face = face.New(of)
	p.server = &http.Server{Handler: p.face}
	return p, nil
}

func (p *process) Addr() string           { return p.listener.Addr().String() }
func (p *process) URL() string            { return "http://" + p.Addr() }
func (p *process) Token() string          { return p.config.Token }
func (p *process) Ready() <-chan struct{} { return p.ready }
func (p *process) Refused() error         { return p.session.Health().Refused }
func (p *process) Close() error           { return p.listener.Close() }

// Run serves the agent until ctx ends.
func (p *process) Run(ctx context.Context) error {
	defer p.listener.Close()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group sync.WaitGroup
	failed := make(chan error, 2)
	left := make(chan error, 1)
	agentWork, leave := context.WithCancel(context.Background())
	defer leave()
	group.Go(func() { _ = p.server.Serve(p.listener) })
	group.Go(func() {
		err := p.session.Run(agentWork)
		if agentWork.Err() == nil {
			failed <- err
			err = nil
		}
		left <- err
	})
	group.Go(func() { p.view.FetchContents(work, p.session.events, p.session.log) })
	group.Go(func() {
		failed <- p.view.Follow(work, p.session.events, p.opened, p.session.log, p.counted.Delivered)
	})
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	p.shutdown()
	leave()
	err = errors.Join(err, <-left)
	stop()
	group.Wait()
	return err
}

// shutdown lets running requests end, as long as the limit says.
func (p *process) shutdown() {
	p.draining()
	ctx, cancel := context.WithTimeout(context.Background(), p.config.Limits.StopWait)
	defer cancel()
	half := time.AfterFunc(p.config.Limits.StopWait/2, p.view.End)
	defer half.Stop()
	for p.face.Busy() && view.Sleep(ctx, stopPoll) {
	}
	short, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	if p.server.Shutdown(short) != nil {
		_ = p.server.Close()
	}
	p.view.End()
}

// stand takes an agent's loop until the function that it returns is called.
func (s *Agent) stand() (release func()) {
	taken, free, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		s.loop.Run(func() {
			close(taken)
			<-free
		})
	}()
	<-taken
	return func() {
		close(free)
		<-left
	}
}

// eventually waits until something holds that a flow of the agent's loop can see.
func (s *Agent) eventually(ctx context.Context, holds func() bool) (err error) {
	s.loop.Run(func() { err = s.loop.Until(ctx, holds) })
	return err
}

// inside reads something of an agent in its loop.
func inside[T any](s *Agent, read func() T) (out T) {
	s.loop.Run(func() { out = read() })
	return out
}

// inc is the incarnation of the live session; zero: there is none.
func (s *Agent) inc() sequencer.Seq { return inside(s, s.liveIncarnation) }

// busy takes every task that an agent may have until the function that it returns is called.
func (s *Agent) busy() (free func()) {
	end := make(chan struct{})
	var ended sync.WaitGroup
	for {
		ended.Add(1)
		started := s.loop.Go(func(context.Context) {
			defer ended.Done()
			s.loop.Do(func() { <-end })
		})
		if !started {
			ended.Done()
			break
		}
	}
	return func() {
		close(end)
		ended.Wait()
	}
}

// known is the transaction of an id.
func (s *Agent) known(id sequencer.TxID) (*tx, error) {
	return flow(s, func() (*tx, error) { return s.find(id) })
}

// begins opens a transaction as start does.
func (s *Agent) begins(ctx context.Context, begin sequencer.Begin, like func(*tx)) (*tx, error) {
	return flow(s, func() (*tx, error) { return s.start(ctx, begin, like) })
}
