package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/agent"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/journal"
)

const testWait = 20 * time.Second

// team is a sidecar of several agents that runs until the test ends.
type team struct {
	*Sidecar
	t    *testing.T
	stop func() error
}

const operatorToken = "operator-of-all-agents"

// several runs a sidecar; it has the agents a, b and c unless the change says otherwise.
func several(t *testing.T, log *memlog.Log, change func(*Config)) *team {
	t.Helper()
	c := Config{DataDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		OperatorToken: operatorToken, Limits: Limits{StopWait: time.Second, WatermarkEvery: 10 * time.Millisecond}}
	for _, name := range []string{"a", "b", "c"} {
		c.Agents = append(c.Agents, AgentConfig{Agent: name, Token: tokenOf(name)})
	}
	if change != nil {
		change(&c)
	}
	s, err := New(c, log.Door())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return &team{s, t, stop}
}

func tokenOf(agent string) string { return "the-token-of-agent-" + agent }

func (m *team) ready() *team {
	m.t.Helper()
	select {
	case <-m.Ready():
	case <-time.After(testWait):
		m.t.Fatal("it is not ready")
	}
	return m
}

// of is a client with a token, and with further options.
func (m *team) of(token string, opts ...client.Option) *client.Client {
	c := client.New(m.URL(), token, append([]client.Option{client.WithTries(1)}, opts...)...)
	m.t.Cleanup(c.Close)
	return c
}

// commits makes one transaction of an agent.
func (m *team) commits(agent string) error {
	ctx, cancel := context.WithTimeout(context.Background(), testWait)
	defer cancel()
	c := client.New(m.URL(), tokenOf(agent))
	defer c.Close()
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	if _, err = tx.Read(ctx, "shard:/"+agent); err != nil {
		return err
	}
	if err = tx.Write(ctx, "shard:/"+agent, []byte("x"), client.WriteOptions{}); err != nil {
		return err
	}
	d, err := tx.Seal(ctx)
	if err == nil && d.State != api.StateCommitted {
		err = fmt.Errorf("%+v", d)
	}
	return err
}

func (m *team) readyz() (status int, out api.Ready) {
	m.t.Helper()
	resp, err := http.Get(m.URL() + "/readyz")
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		m.t.Fatal(err)
	}
	return resp.StatusCode, out
}

func codeOf(err error) string {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return fmt.Sprint(err)
}

// A token names its agent: it opens no other agent's transaction, and the header cannot make it another's. The
// operator's speaks for the agent that the header names, else for whose transaction it is about.
func TestTokenNamesAgent(t *testing.T) {
	m := several(t, memlog.New("default"), nil).ready()
	ctx := t.Context()
	tx, err := m.of(tokenOf("a")).Begin(ctx, client.BeginOptions{})
	if err != nil || !strings.HasPrefix(tx.ID(), "a.") {
		t.Fatal(tx, err)
	}
	operator := m.of(operatorToken)
	for what, got := range map[string]error{
		"other_agent":  func() error { _, err := m.of(tokenOf("b")).Tx(tx.ID()).Seal(ctx); return err }(),
		"other_agent ": func() error { _, err := m.of(tokenOf("b"), client.WithAgent("a")).Rules(ctx); return err }(),
		"unauthorized": func() error { _, err := m.of("nobody-knows-this-token").Rules(ctx); return err }(),
		"not_found":    func() error { _, err := m.of(operatorToken, client.WithAgent("z")).Rules(ctx); return err }(),
		"bad_request":  func() error { _, err := operator.Begin(ctx, client.BeginOptions{}); return err }(),
	} {
		if codeOf(got) != strings.TrimSpace(what) {
			t.Errorf("want %s, got %v", what, got)
		}
	}
	if _, err := operator.Rules(ctx); err != nil {
		t.Error(err)
	}
	if d, err := operator.Tx(tx.ID()).Status(ctx, 0); err != nil || d.State != api.StateOpen {
		t.Error(d, err)
	}
	one, err := m.of(operatorToken, client.WithAgent("c")).Begin(ctx, client.BeginOptions{})
	if err != nil || !strings.HasPrefix(one.ID(), "c.") {
		t.Error(one, err)
	}
	observe := true
	_, err = m.of(tokenOf("a")).SetRules(ctx, 0, client.RulesChange{Observe: &observe})
	if codeOf(err) != "operator_only" {
		t.Error(err)
	}
	if _, err := operator.SetRules(ctx, 0, client.RulesChange{Observe: &observe}); err != nil {
		t.Error(err)
	}
}

// broken is a journal's file that takes nothing while on is set.
type broken struct {
	journal.Disk
	on  *atomic.Bool
	why error
}

func (b *broken) Write(p []byte) (int, error) {
	if b.on.Load() {
		return 0, b.why
	}
	return b.Disk.Write(p)
}

func (b *broken) Sync() error {
	if b.on.Load() {
		return b.why
	}
	return b.Disk.Sync()
}

// What is wrong with one agent's journal, from the start or later, is not felt by the others, and readyz names it.
func TestSickAgent(t *testing.T) {
	for _, why := range []error{syscall.EIO, syscall.ENOSPC} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(why, late), func(t *testing.T) {
				t.Parallel()
				var on atomic.Bool
				on.Store(!late)
				open := func(path string) (journal.Disk, error) {
					file, err := journal.OpenOS(path)
					if err == nil && strings.Contains(path, "/b/") {
						return &broken{file, &on, why}, nil
					}
					return file, err
				}
				m := several(t, memlog.New("default"), func(c *Config) { c.Machine = agent.Machine{Open: open} }).ready()
				on.Store(true)
				m.isSick("b", "a", "c")
				if err := m.commitsOnce("b"); !late && (err == nil || !strings.Contains(err.Error(), why.Error())) {
					t.Errorf("the refusal does not say why the journal is not open: %v", err)
				}
				on.Store(false)
				m.untilServed("b")
			})
		}
	}
}

// isSick checks that the agents that are well commit on, and that the sick one is named.
func (m *team) isSick(sick string, well ...string) {
	m.t.Helper()
	_ = m.commitsOnce(sick)
	for range 3 {
		for _, name := range well {
			if err := m.commits(name); err != nil {
				m.t.Errorf("agent %s: %v", name, err)
			}
		}
	}
	if err := m.commitsOnce(sick); err == nil {
		m.t.Errorf("agent %s commits without a journal", sick)
	}
	status, got := m.readyz()
	if status != http.StatusOK || got.Agents[sick].Ready || got.Agents[sick].Parts["journal"].Problem == "" {
		m.t.Errorf("readyz %d: %+v", status, got)
	}
	for _, name := range well {
		if !got.Agents[name].Ready || got.Agents[name].Incarnation == 0 {
			m.t.Errorf("agent %s: %+v", name, got.Agents[name])
		}
	}
}

// commitsOnce is commits without further tries.
func (m *team) commitsOnce(agent string) error {
	_, err := m.of(tokenOf(agent)).Put(m.t.Context(), "shard:/once", []byte("x"), client.WriteOptions{})
	return err
}

// untilServed waits until an agent commits.
func (m *team) untilServed(agent string) {
	m.t.Helper()
	beat := time.NewTicker(20 * time.Millisecond)
	defer beat.Stop()
	for end := time.Now().Add(testWait); m.commitsOnce(agent) != nil; <-beat.C {
		if time.Now().After(end) {
			m.t.Fatalf("agent %s is not served: %v", agent, m.commitsOnce(agent))
		}
	}
}

// An agent whose journal another process has open delays no other agent, and is served once that process has ended.
func TestLockedJournalOfOne(t *testing.T) {
	log, dir := memlog.New("default"), t.TempDir()
	other := several(t, log, func(c *Config) {
		c.DataDir, c.Agents = dir, []AgentConfig{{Agent: "b", Token: tokenOf("b")}}
	}).ready()
	m := several(t, log, func(c *Config) { c.DataDir = dir }).ready()
	m.isSick("b", "a", "c")
	if err := other.stop(); err != nil {
		t.Error(err)
	}
	m.untilServed("b")
}

// A lease that one agent loses, to another sidecar of it, is not felt by the others.
func TestLostLeaseOfOne(t *testing.T) {
	log := memlog.New("default")
	m := several(t, log, nil).ready()
	_, before := m.readyz()
	taken := several(t, log, func(c *Config) { c.Agents = []AgentConfig{{Agent: "b", Token: tokenOf("b")}} }).ready()
	for _, name := range []string{"a", "c"} {
		if err := m.commits(name); err != nil {
			t.Error(err)
		}
	}
	taken.untilServed("b") // its folder is another: first it is told to read again
	_, now := m.readyz()
	if now.Agents["b"].Ready || now.Agents["a"].Incarnation != before.Agents["a"].Incarnation {
		t.Errorf("before %+v, now %+v", before, now)
	}
}

// What waits for a decision when its agent leaves ends then: none is shown to the agent any more.
func TestLeaveEndsWaits(t *testing.T) {
	m := several(t, memlog.New("default"), nil).ready()
	tx, err := m.of(tokenOf("b")).Begin(t.Context(), client.BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := tx.Status(t.Context(), testWait)
		waited <- err
	}()
	beat := time.NewTicker(time.Millisecond)
	defer beat.Stop()
	for !m.face.Busy() {
		<-beat.C
	}
	if err := m.Members()[1].Leave(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waited:
		if codeOf(err) != api.CodeStopping {
			t.Error(err)
		}
	case <-time.After(testWait / 4):
		t.Error("a request waits for a decision that no one shows it")
	}
}

// Any agent joins at its first request and leaves after its idle time; what it had open is aborted, its journal is
// closed, and its next request finds what it committed.
func TestAnyAgent(t *testing.T) {
	log := memlog.New("default")
	m := several(t, log, func(c *Config) {
		c.Agents, c.AnyAgent, c.Token, c.IdleAfter = nil, true, "the-token-of-all", 300*time.Millisecond
	}).ready()
	ctx := t.Context()
	if _, err := m.of("the-token-of-all").Rules(ctx); err == nil || !strings.Contains(err.Error(), "Hence-Agent") {
		t.Errorf("nothing says how an agent comes here: %v", err)
	}
	if _, err := m.of("the-token-of-all").Begin(ctx, client.BeginOptions{}); codeOf(err) != api.CodeBadRequest {
		t.Error(err)
	}
	if _, err := m.of("the-token-of-all", client.WithAgent("no/name")).Rules(ctx); codeOf(err) != api.CodeBadRequest {
		t.Error(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c := m.of("the-token-of-all", client.WithAgent(fmt.Sprint("agent-", i%4)), client.WithTries(8))
			if _, err := c.Put(ctx, fmt.Sprint("shard:/n/", i), []byte("x"), client.WriteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	open, err := m.of("the-token-of-all", client.WithAgent("agent-1")).Begin(ctx, client.BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	beat := time.NewTicker(20 * time.Millisecond)
	defer beat.Stop()
	for end := time.Now().Add(testWait); ; <-beat.C {
		if _, now := m.readyz(); len(now.Agents) == 0 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("they stay: %+v", now)
		}
	}
	again := m.of("the-token-of-all", client.WithAgent("agent-1"), client.WithTries(8))
	if got, err := again.Get(ctx, "shard:/n/1"); err != nil || string(got.Content) != "x" {
		t.Error(got, err)
	}
	if d, err := again.Tx(open.ID()).Seal(ctx); err == nil && d.State == api.StateCommitted {
		t.Errorf("a transaction of the session before was sealed: %+v", d)
	}
}

// Agents come and go while others work; the metrics of each carry its name, and go with it.
func TestJoinAndLeave(t *testing.T) {
	m := several(t, memlog.New("default"), func(c *Config) { c.Agents, c.Joins = nil, true }).ready()
	var names []string
	for i := range 16 {
		names = append(names, fmt.Sprint("agent-", i))
	}
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			for range 3 {
				one, err := m.Join(AgentConfig{Agent: name, Token: tokenOf(name)})
				if err != nil {
					t.Error(err)
					return
				}
				<-one.Ready()
				if err := m.commits(name); err != nil {
					t.Error(err)
				}
				if got := one.Counters().Committed; got != 1 {
					t.Errorf("%s counted %d commits", name, got)
				}
				if text := m.metrics(); !strings.Contains(text, `hence_sidecar_session_live{agent="`+name+`"} 1`) {
					t.Errorf("no series of %s", name)
				}
				if err := one.Leave(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if text := m.metrics(); strings.Contains(text, `agent="`) {
		t.Error("series of agents that have left are there")
	}
	if _, err := m.Join(AgentConfig{Agent: "x", Token: operatorToken}); err == nil {
		t.Error("an agent has the operator's token")
	}
}

func (m *team) metrics() string {
	resp, err := http.Get(m.URL() + "/metrics")
	if err != nil {
		m.t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

// A join that fails leaves none of its tokens behind: a later agent of its name has others.
func TestFailedJoinLeavesNoToken(t *testing.T) {
	m := several(t, memlog.New("default"), func(c *Config) { c.Agents, c.Joins = nil, true }).ready()
	if _, err := m.Join(AgentConfig{Agent: "b", Token: tokenOf("b")}); err != nil {
		t.Fatal(err)
	}
	leaked := tokenOf("x")
	if _, err := m.Join(AgentConfig{Agent: "a", Token: leaked, OperatorToken: tokenOf("b")}); err == nil {
		t.Fatal("an agent's operator has another agent's token")
	}
	one, err := m.Join(AgentConfig{Agent: "a", Token: tokenOf("a")})
	if err != nil {
		t.Fatal(err)
	}
	<-one.Ready()
	if _, err := m.of(leaked).Rules(t.Context()); codeOf(err) != api.CodeUnauthorized {
		t.Errorf("the token of a join that failed: %v", err)
	}
}

// Agents that are named stay, however idle, beside those of any name.
func TestNamedAgentStays(t *testing.T) {
	m := several(t, memlog.New("default"), func(c *Config) {
		c.AnyAgent, c.Token, c.IdleAfter = true, "the-token-of-all", 20*time.Millisecond
	}).ready()
	c := m.of("the-token-of-all", client.WithAgent("any"), client.WithTries(8))
	if _, err := c.Put(t.Context(), "shard:/x", []byte("x"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	beat := time.NewTicker(20 * time.Millisecond)
	defer beat.Stop()
	for end := time.Now().Add(testWait); ; <-beat.C {
		if _, now := m.readyz(); now.Agents["any"].Parts == nil {
			break
		} else if time.Now().After(end) {
			t.Fatalf("it stays: %+v", now)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := m.commits(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A request that comes between the end of an agent's seat and that of the agent is to be repeated.
func TestRequestWhileLeaving(t *testing.T) {
	m := several(t, memlog.New("default"), func(c *Config) {
		c.Agents, c.AnyAgent, c.Token = nil, true, "the-token-of-all"
	}).ready()
	c := m.of("the-token-of-all", client.WithAgent("x"))
	if _, err := m.of("the-token-of-all", client.WithAgent("x"), client.WithTries(8)).Rules(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.seats.Remove("x")
	if _, err := c.Rules(t.Context()); codeOf(err) != api.CodeNotReady {
		t.Error(err)
	}
}

// Eight agents of one process may not keep eight times what one alone does; what is asked for counts.
func TestSeveralKeepLess(t *testing.T) {
	limits := func(c Config) Limits {
		t.Helper()
		c, err := c.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		return c.Limits
	}
	alone := limits(Config{Agent: "ann"})
	each := limits(Config{Agents: []AgentConfig{{Agent: "ann"}, {Agent: "bob"}}})
	if 8*each.Decided > 2*alone.Decided || 8*each.IdempotencyBytes > 2*alone.IdempotencyBytes ||
		8*each.IdempotencyKeys > 2*alone.IdempotencyKeys {
		t.Errorf("each of several keeps %d transactions, %d keys and %d bytes, one alone %d, %d and %d", each.Decided,
			each.IdempotencyKeys, each.IdempotencyBytes, alone.Decided, alone.IdempotencyKeys, alone.IdempotencyBytes)
	}
	if got := limits(Config{AnyAgent: true, Limits: Limits{Decided: 3}}).Decided; got != 3 {
		t.Errorf("3 transactions are asked for, and %d kept", got)
	}
}
