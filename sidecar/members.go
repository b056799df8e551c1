package sidecar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent"
	"github.com/hence-dev/hence/sidecar/api"
	face "github.com/hence-dev/hence/sidecar/http"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
)

// Member is one agent of a sidecar: its session, incarnation, lease and journal are its own.
type Member struct {
	side    *Sidecar
	config  AgentConfig
	agent   *agent.Agent
	metrics *metrics.Agent

	opened, live chan struct{} // closed at the journal's opening, at the first session
	once         sync.Once
	ctx          context.Context // ends when the agent leaves
	leave        context.CancelFunc
	done         chan struct{} // closed once the agent has left
	err          error         // why; read it after done

	toldMu sync.Mutex
	told   map[string]map[string]string // by MCP server: the hashes of its tools, as the log has taken them
}

var errTwice = errors.New("there twice")

// Join adds an agent to a sidecar that serves several, before Run or while it lasts. Wait for its Ready.
func (s *Sidecar) Join(c AgentConfig) (*Member, error) {
	c, err := c.withDefaults(&s.config)
	if err != nil {
		return nil, err
	}
	m := &Member{side: s, config: c, opened: make(chan struct{}), live: make(chan struct{}), done: make(chan struct{})}
	m.ctx, m.leave = context.WithCancel(s.work)
	label := c.Agent
	if !s.config.several() {
		label = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, api.ErrStopped
	}
	if s.members[c.Agent] != nil {
		return nil, fmt.Errorf("agent %s is %w: give each agent a name of its own", c.Agent, errTwice)
	}
	l := s.config.Limits
	keys := once.New(l.IdempotencyKeys, l.IdempotencyBytes, l.IdempotencyAge, s.clock.Now, c.Logger)
	m.metrics = s.metrics.Agent(label)
	m.agent, err = agent.New(agent.Config{Name: c.Agent, View: s.view, Log: s.events, Keys: keys, DataDir: c.DataDir,
		Order: c.Order, Observe: c.Observe, Tools: c.Tools, Hook: c.Hook, Limits: l, Logger: c.Logger,
		Tracer: s.config.Tracer, Metrics: m.metrics, Machine: s.config.Machine, Cut: s.cut,
		Opened: func() { close(m.opened) }, Live: func() { m.once.Do(func() { close(m.live) }) },
		Patient: s.config.several() && !c.Strict})
	if err == nil {
		err = s.grant(c)
	}
	if err != nil {
		s.seats.Remove(c.Agent) // the first of its tokens may be granted: it is not to open a later one of this name
		m.metrics.Close()
		return nil, err
	}
	s.seats.Add(&face.Seat{Agent: m.agent, Name: c.Agent, Keys: keys, Transient: c.shared, Opened: m.opened,
		Offers: func() *api.Offers { return agent.Offers(c.Tools) },
		Span:   func(tx string) trace.SpanContext { return agent.Span(m.agent, tx) }})
	s.members[c.Agent] = m
	if s.running {
		s.group.Go(m.run)
	}
	return m, nil
}

// grant lets an agent's tokens in.
func (s *Sidecar) grant(c AgentConfig) (err error) {
	if c.shared {
		return nil
	}
	role := face.RoleAgent
	if c.OperatorToken == "" && s.config.OperatorToken == "" { // there is no other token for what operators do
		role = face.RoleOperator
	}
	if err = s.seats.Grant(c.Agent, c.Token, role); err == nil && c.OperatorToken != "" {
		err = s.seats.Grant(c.Agent, c.OperatorToken, face.RoleOperator)
	}
	return err
}

// run runs the agent until it leaves. What ends one agent by itself is the log's: it ends the process.
func (m *Member) run() {
	defer close(m.done)
	var beside sync.WaitGroup
	ctx, stop := context.WithCancel(m.ctx)
	beside.Go(func() { m.registerUpstreams(ctx) })
	err := m.agent.Run(m.ctx)
	stop()
	beside.Wait()
	ends := m.ctx.Err() == nil && (m == m.side.only || errors.Is(err, streams.ErrOtherLog)) // the whole process
	if !ends {
		m.err = err
	}
	if m.side.config.several() {
		m.side.seats.Remove(m.config.Agent)
		m.metrics.Close()
	}
	m.side.mu.Lock()
	delete(m.side.members, m.config.Agent)
	m.side.mu.Unlock()
	if ends {
		m.side.fail(err)
	} else if err != nil && m.side.work.Err() == nil {
		m.config.Logger.Warn("an agent has left with an error", "cause", err)
	}
}

// start runs the agents that are there.
func (s *Sidecar) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
	for _, m := range s.members {
		s.group.Go(m.run)
	}
}

// Members are the agents that are here, by name.
func (s *Sidecar) Members() (all []*Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		all = append(all, s.members[name])
	}
	return all
}

// stopMembers lets all agents leave, and returns what went wrong with that.
func (s *Sidecar) stopMembers() (err error) {
	s.mu.Lock()
	s.stopped = true
	all := slices.Collect(maps.Values(s.members))
	s.mu.Unlock()
	s.stopWork()
	s.group.Wait()
	for _, m := range all {
		err = errors.Join(err, m.err)
	}
	return err
}

// readyPoll is how often it is looked whether several agents are ready.
const readyPoll = 20 * time.Millisecond

// awaitReady closes ready once the agents that the sidecar began with have their sessions.
func (s *Sidecar) awaitReady(ctx context.Context) {
	first := s.Members()
	if s.only != nil {
		first = []*Member{s.only}
	}
	for !s.areReady(first) {
		if s.only != nil {
			select {
			case <-s.only.live:
			case <-ctx.Done():
				return
			}
		} else if !view.Sleep(ctx, readyPoll) {
			return
		}
	}
	close(s.ready)
}

func (s *Sidecar) areReady(first []*Member) bool {
	served, waiting := 0, 0
	for _, m := range first {
		select {
		case <-m.live:
			served++
		default:
			if m.sick() == nil {
				waiting++
			}
		}
	}
	return waiting == 0 && (served > 0 || len(first) == 0 && s.view.Ready() == nil)
}

// sick is what keeps an agent of several from being served that does not concern the others: its journal, or the log's
// refusal. A journal that waits for the log's id is not sick.
func (m *Member) sick() error {
	now := m.agent.Health()
	if err := now.Parts["journal"]; err != nil && !errors.Is(err, journal.ErrNotOpen) {
		return err
	}
	return now.Refused
}

// Ready is closed once the agent has its first session.
func (m *Member) Ready() <-chan struct{} { return m.live }

// Done is closed once the agent has left.
func (m *Member) Done() <-chan struct{} { return m.done }

// Err is why the agent has left; read it after Done.
func (m *Member) Err() error { return m.err }

// Agent is the agent's name.
func (m *Member) Agent() string { return m.config.Agent }

// Token is the bearer token that the agent's requests must carry.
func (m *Member) Token() string { return m.config.Token }

// URL is the base of the sidecar's routes.
func (m *Member) URL() string { return m.side.URL() }

// Refused is why the log does not let the agent in; nil: it has not refused it. It is asked again by itself.
func (m *Member) Refused() error { return m.agent.Health().Refused }

// Displaced is the incarnation of another sidecar of this agent that had a lease until this one joined; zero: there
// was none. One that left its journal here is no other.
func (m *Member) Displaced() sequencer.Seq { return sequencer.Seq(m.agent.Health().Displaced) }

// Counters are those of now.
func (m *Member) Counters() metrics.Counters { return m.metrics.Counters() }

// Leave lets the agent's calls end and its events be published, closes its journal, and returns then. Its lease is not
// renewed any more, so the log ends it.
func (m *Member) Leave() error {
	m.leave()
	<-m.done
	return m.err
}

// Farewell ends what the agent's process has left behind: it aborts each transaction that is still open, and waits
// until all that was decided is settled, or ctx ends. It returns how many transactions are undecided or unsettled
// then; the next start of this sidecar goes on with them. Call it while Run runs, when nothing asks for the agent any
// more.
func (m *Member) Farewell(ctx context.Context) (left int) {
	open, err := m.agent.Transactions(api.Page{Limit: m.side.config.Limits.Open,
		Pick: map[string]string{"state": api.StateOpen, "agent": m.config.Agent}})
	if err != nil {
		open = &api.TxList{} // without a view nothing is open
	}
	var aborts sync.WaitGroup
	for _, t := range open.Items {
		aborts.Go(func() {
			if _, err := m.agent.Abort(ctx, t.Tx, "the agent's process has ended"); err != nil {
				m.config.Logger.Warn("a transaction of an agent that has ended is not aborted yet", "tx", t.Tx, "cause", err)
			}
		})
	}
	aborts.Wait()
	for {
		if left = m.agent.Health().Owed; left == 0 || !view.Sleep(ctx, stopPoll) {
			return left
		}
	}
}

// mostAny bounds the agents that join at their first request: a caller that makes up names costs this many journals.
const mostAny = 256

// joinAny adds an agent at its first request.
func (s *Sidecar) joinAny(name string) error {
	if len(s.Members()) >= mostAny {
		return api.Problemf(api.CodeLimit, "%d agents are served here already: another one comes in when one has left",
			mostAny)
	}
	if err := agent.ValidAgent(name); err != nil {
		return api.Problemf(api.CodeBadRequest, "Hence-Agent: %v", err)
	}
	_, err := s.Join(AgentConfig{Agent: name, shared: true})
	if errors.Is(err, errTwice) { // it has no seat any more, and its journal is closed
		return api.Problemf(api.CodeNotReady, "agent %s is just leaving: ask again", name)
	}
	return err
}

// retire lets agents leave that had no request for Config.IdleAfter.
func (s *Sidecar) retire(ctx context.Context) {
	var leaving sync.WaitGroup
	defer leaving.Wait()
	for view.Sleep(ctx, min(s.config.IdleAfter/4+time.Millisecond, time.Minute)) {
		for _, name := range s.seats.Idle(s.config.IdleAfter) {
			s.mu.Lock()
			m := s.members[name]
			s.mu.Unlock()
			if m == nil {
				continue // it has left by itself
			}
			leaving.Go(func() {
				bound, cancel := context.WithTimeout(ctx, s.config.Limits.StopWait)
				defer cancel()
				if left := m.Farewell(bound); left > 0 {
					m.config.Logger.Warn("an idle agent leaves unsettled work to its next session", "count", left)
				}
				_ = m.Leave() // run has said it
			})
		}
	}
}
