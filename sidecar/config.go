package sidecar

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

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
	TLS           *tls.Config    // of the listener, with a certificate; nil: plain HTTP
	Order         sequencer.Mode // of transactions that name none
	Observe       bool           // every transaction only observes
	Tools         gate.Tools     // the policy; nil: none, then no tool is called
	Hook          agent.Hook     // says yes or no to each sealed footprint; none by default
	Limits        agent.Limits
	Logger        *slog.Logger
	Tracer        trace.Tracer  // of spans; nil: none are begun, and a request's traceparent is handed on
	Machine       agent.Machine // what it has of the machine that it runs on; a test puts others
}

// limitsOfFace are those of the HTTP interface.
func limitsOfFace(l agent.Limits) face.Limits {
	return face.Limits{BodyBytes: l.BodyBytes, Requests: l.Requests, Watchers: l.Watchers, ListItems: l.ListItems,
		WaitMost: l.WaitMost}
}

// withDefaults completes a configuration and says what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	c.Workspace = cmp.Or(c.Workspace, "default")
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.Limits = c.Limits.WithDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Token == "" {
		c.Token = agent.RandomID() + agent.RandomID()
	}
	c.Machine = c.Machine.OrThis()
	var bad error
	c.Hook, bad = c.Hook.WithDefaults()
	if c.TLS != nil && len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil {
		bad = errors.Join(bad, errors.New("TLS without a certificate: give one with its key"))
	}
	err := errors.Join(bad, agent.ValidAgent(c.Agent), topology.ValidWorkspace(c.Workspace), validToken("token", c.Token))
	if c.OperatorToken != "" {
		err = errors.Join(err, validToken("operator's token", c.OperatorToken))
	}
	if err != nil {
		return c, fmt.Errorf("sidecar configuration: %w", err)
	}
	return c, nil
}

const leastToken = 16

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
