package sidecar

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent"
	face "github.com/hence-dev/hence/sidecar/http"
	"github.com/hence-dev/hence/topology"
)

// What a sidecar is told and needs, as its agent does.
type (
	// Limits bound what a sidecar keeps and how long it waits. A zero field is its default.
	Limits = agent.Limits
	// Hook is asked whether a sealed footprint may commit.
	Hook = agent.Hook
	// Log is what a sidecar needs of the log and of the tables derived from it. streams.Client is one.
	Log = agent.Log
)

// CheckHook says what is wrong with a hook; none at all is fine.
func CheckHook(h Hook) error { return agent.CheckHook(h) }

// Config is everything that a sidecar is told. Zero values of optional fields are the defaults named.
type Config struct {
	Agent     string // whose sidecar it is
	Workspace string // default "default"
	Listen    string // host:port; default 127.0.0.1:0, a free port
	DataDir   string // the journal's folder; empty: the delivery log is in memory only
	Token     string // bearer token; empty: one is made up, see Sidecar.Token
	// OperatorToken is the bearer token of the role operator, who may also do what concerns other agents: change the
	// rules, retract, accept a residue or try it again. Empty: Token has this role, too.
	OperatorToken string
	// Approvers are the people who may approve and deny calls that need it, with a token each, of 16 characters at least,
	// and unique. None: no token approves here.
	Approvers map[string]string
	// Keys sign requests in place of a token.
	Keys []Key
	// Authorities are hosts under which signed requests may be addressed, besides the listeners' addresses.
	Authorities []string
	TLS         *tls.Config    // of the listener, with a certificate; nil: plain HTTP
	Order       sequencer.Mode // of transactions that name none
	Observe     bool           // every transaction only observes
	Tools       gate.Tools     // the policy; nil: none, then no tool is called
	Hook        agent.Hook     // says yes or no to each sealed footprint; none by default
	Limits      agent.Limits
	Logger      *slog.Logger
	Tracer      trace.Tracer  // of spans; nil: none are begun, and a request's traceparent is handed on
	Machine     agent.Machine // what it has of the machine that it runs on; a test puts others
	SBus        SBus          // an interface for clients of S-Bus; none by default
	MCP         MCP           // an interface for MCP clients; none by default
	Models      Models        // providers of models whose APIs are served at /llm; none by default

	// Agents are served together, in place of Agent. Listener, view and clients are shared; what else an agent has, and
	// what this says of all of them where an agent says nothing, is AgentConfig's.
	Agents    []AgentConfig
	AnyAgent  bool          // an agent is served from its first request on, by its name in Hence-Agent; loopback only
	Joins     bool          // agents come by Join, and leave
	IdleAfter time.Duration // an agent of AnyAgent leaves after such a time without a request; default 10 min
}

// AgentConfig is one agent of several.
type AgentConfig struct {
	Agent         string
	Token         string // bearer token, its own; empty: one is made up, see Member.Token
	OperatorToken string // bearer token of an operator of this agent; empty: Config's
	DataDir       string // the journal's folder; empty: Config's
	Order         sequencer.Mode
	Observe       bool
	Tools         gate.Tools
	Hook          agent.Hook
	Logger        *slog.Logger

	// Strict: a journal that cannot be opened ends the agent, see Member.Err; else it is tried again.
	Strict bool

	shared bool // its callers show the token of all agents
}

// shared is how much each of several agents may keep where nothing else is said: a quarter of what one alone does.
// Eight that are always busy keep some 100 MB in all.
func shared(l agent.Limits) agent.Limits {
	l.Decided = cmp.Or(l.Decided, 1024)
	l.IdempotencyKeys = cmp.Or(l.IdempotencyKeys, 8192)
	l.IdempotencyBytes = cmp.Or(l.IdempotencyBytes, 4<<20)
	return l
}

// several reports whether the process serves more agents than one.
func (c *Config) several() bool { return len(c.Agents) > 0 || c.AnyAgent || c.Joins }

// withDefaults completes an agent's configuration by what is said of all.
func (a AgentConfig) withDefaults(of *Config) (AgentConfig, error) {
	a.DataDir = cmp.Or(a.DataDir, of.DataDir)
	if a.Token == "" && !a.shared {
		a.Token = randomToken()
	}
	if a.Order == 0 {
		a.Order = of.Order
	}
	a.Observe = a.Observe || of.Observe
	if a.Tools == nil {
		a.Tools = of.Tools
	}
	if a.Hook.URL == "" && len(a.Hook.Command) == 0 {
		a.Hook = of.Hook
	}
	if a.Logger == nil {
		a.Logger = of.Logger
	}
	a.Logger = a.Logger.With("agent", a.Agent, "workspace", of.Workspace)
	err := agent.ValidAgent(a.Agent)
	if !a.shared {
		err = errors.Join(err, validToken("token", a.Token))
	}
	if a.OperatorToken != "" {
		err = errors.Join(err, validToken("operator's token", a.OperatorToken))
	}
	if err != nil {
		return a, fmt.Errorf("sidecar configuration of agent %q: %w", a.Agent, err)
	}
	return a, nil
}

// ValidAgent says what is wrong with an agent's name.
func ValidAgent(name string) error { return agent.ValidAgent(name) }

// randomToken is one that cannot be guessed.
func randomToken() string { return rand.Text() + rand.Text() }

// limitsOfFace are those of the HTTP interface.
func limitsOfFace(l agent.Limits) face.Limits {
	return face.Limits{BodyBytes: l.BodyBytes, Requests: l.Requests, Watchers: l.Watchers, ListItems: l.ListItems,
		WaitMost: l.WaitMost}
}

// withDefaults completes a configuration and says what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	c.Workspace = cmp.Or(c.Workspace, "default")
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Token == "" {
		c.Token = randomToken()
	}
	c.IdleAfter = cmp.Or(c.IdleAfter, 10*time.Minute)
	of := agent.Config{Name: c.Agent, Limits: c.Limits, Hook: c.Hook, Machine: c.Machine}
	if c.several() {
		of.Name = "several" // each has a name of its own, which Join looks at
		of.Limits = shared(of.Limits)
	}
	of, bad := agent.Complete(of)
	c.Limits, c.Hook, c.Machine = of.Limits, of.Hook, of.Machine
	if c.several() && c.Agent != "" {
		bad = errors.Join(bad, errors.New("one agent and several are named: give one of the two"))
	}
	if c.TLS != nil && len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil {
		bad = errors.Join(bad, errors.New("TLS without a certificate: give one with its key"))
	}
	err := errors.Join(bad, topology.ValidWorkspace(c.Workspace), validToken("token", c.Token))
	if c.OperatorToken != "" {
		err = errors.Join(err, validToken("operator's token", c.OperatorToken))
	}
	for name, token := range c.Approvers {
		if name == "" || len(name) > maxApproverName {
			err = errors.Join(err, fmt.Errorf("an approver has no name, or one of more than %d bytes", maxApproverName))
		}
		err = errors.Join(err, validToken("token of an approver", token))
	}
	if err != nil {
		return c, fmt.Errorf("sidecar configuration: %w", err)
	}
	return c, nil
}

const leastToken = 16

// maxApproverName is how long a name the log takes.
const maxApproverName = 128

func validToken(what, token string) error {
	if len(token) < leastToken {
		return fmt.Errorf("the %s has %d characters: give at least %d, or leave it out to have one generated", what,
			len(token), leastToken)
	}
	for _, c := range token {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("the %s has a character that cannot stand in a header: use printable ASCII without spaces", what)
		}
	}
	return nil
}
