package sidecar

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	face "github.com/hence-dev/hence/sidecar/http"
	"github.com/hence-dev/hence/sidecar/llm"
	"github.com/hence-dev/hence/sidecar/mcp"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology/pause"
)

// MCP says how MCP clients are served, at /mcp of the same address.
type MCP struct {
	Upstreams *upstream.Set // the servers whose tools they get; nil: none are served. Who opened it closes it.
	Origins   []string      // of pages in browsers that may send requests
	Version   string
}

// How long an MCP client's call waits. Some clients cut a call after 5 s.
const (
	mcpDecided = 3 * time.Second
	mcpRelease = 1500 * time.Millisecond
)

func (s *Sidecar) openMCP() {
	c := &s.config.MCP
	if c.Upstreams == nil {
		return
	}
	s.mcp = mcp.New(mcp.Config{Upstreams: c.Upstreams, Enter: s.enterMCP, Origins: c.Origins, Version: c.Version,
		Body: s.config.Limits.BodyBytes, Calls: s.config.Limits.Requests, Decided: mcpDecided, ReleaseWait: mcpRelease,
		Longest: s.longest() + gate.MostTime, Log: s.log})
}

// MCPURL is where MCP clients are served; empty: they are not.
func (s *Sidecar) MCPURL() string {
	if s.mcp == nil {
		return ""
	}
	return s.URL() + mcp.Path
}

// mcpServers are the servers of now; nil: none are served.
func (s *Sidecar) mcpServers() func() []api.MCPServer {
	set := s.config.MCP.Upstreams
	if set == nil {
		return nil
	}
	return func() (out []api.MCPServer) {
		for _, one := range set.States() {
			server := api.MCPServer{Name: one.Name, State: one.Phase, Error: one.Err, Since: one.Since, Server: one.Server,
				LeftOut: append([]string{}, one.LeftOut...), Tools: []api.MCPTool{}}
			for _, t := range one.Tools {
				server.Tools = append(server.Tools, api.MCPTool{Name: t.Name, Public: t.Public, Signature: t.Hash})
			}
			out = append(out, server)
		}
		return out
	}
}

// handler answers all requests at the sidecar's address.
func (s *Sidecar) handler() http.Handler {
	if s.mcp == nil && s.llm == nil {
		return s.signed(s.face)
	}
	return s.signed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.mcp != nil && (r.URL.Path == mcp.Path || strings.HasPrefix(r.URL.Path, mcp.Path+"/")):
			s.mcp.ServeHTTP(w, r)
		case s.llm != nil && strings.HasPrefix(r.URL.Path, llm.Path+"/"):
			s.llm.ServeHTTP(w, r)
		default:
			s.face.ServeHTTP(w, r)
		}
	}))
}

// enterMCP finds the agent that a client's request is of, by its token or its signature, as the routes of /v1 do.
func (s *Sidecar) enterMCP(r *http.Request) (*mcp.Guest, error) {
	a, _, err := face.Shown(r)
	if err != nil {
		return nil, err
	}
	a.Acts = true
	seat, role, leave, err := s.seats.Enter(a)
	if leave == nil {
		leave = func() {}
	}
	switch {
	case err != nil:
	case role == face.RoleNone:
		err = api.Problemf(api.CodeUnauthorized, "send Authorization: Bearer TOKEN, with the token that the sidecar was "+
			"given or printed (HENCE_TOKEN)")
	case s.drain.Err() != nil:
		err = api.ErrStopped
	case role == face.RoleApprover: // else who approves could act as an agent
		err = api.Problemf(api.CodeApproverOnly, "the token is an approver's: it looks, approves and denies")
	}
	if err != nil {
		leave()
		return nil, err
	}
	select {
	case <-seat.Opened:
	default:
		leave()
		return nil, api.Problemf(api.CodeNotReady, "the agent's journal is not open yet: ask again")
	}
	return &mcp.Guest{Agent: seat.Agent, Name: seat.Name, Class: s.classes(seat.Name), Relies: s.relies(seat.Name),
		Registered: s.registered(seat.Name), Leave: leave}, nil
}

// treating is a policy that says how it treats a tool, whatever its arguments.
type treating interface {
	Treats(tool string) (class sequencer.Class, approve, declared bool)
}

// classes is what the policy of an agent says of tools.
func (s *Sidecar) classes(agent string) func(string) (sequencer.Class, bool) {
	s.mu.Lock()
	m := s.members[agent]
	s.mu.Unlock()
	var tools gate.Tools
	if m != nil {
		tools = m.config.Tools
	}
	p, ok := tools.(treating)
	return func(tool string) (sequencer.Class, bool) {
		if !ok {
			return 0, false
		}
		class, _, declared := p.Treats(tool)
		return class, declared
	}
}

// relies reports whether an agent's calls rest on what its models were told.
func (s *Sidecar) relies(agent string) bool {
	s.mu.Lock()
	m := s.members[agent]
	s.mu.Unlock()
	if s.llm == nil || m == nil {
		return false
	}
	v := vocabularyOf(m.config.Tools)
	return v != nil && v.Enforce
}

// registered is what the log has taken of the catalogues of an agent's servers.
func (s *Sidecar) registered(agent string) func(server, tool, hash string) bool {
	s.mu.Lock()
	m := s.members[agent]
	s.mu.Unlock()
	return func(server, tool, hash string) bool {
		if m == nil {
			return false
		}
		m.toldMu.Lock()
		defer m.toldMu.Unlock()
		return m.told[server][tool] == hash
	}
}

// The pauses between tries to tell the log of a catalogue. One that it has no room for stays so.
const (
	registerPause = time.Second
	registerMost  = time.Minute
)

// registerUpstreams tells the log which tools the agent's MCP servers have, and each change of that: a call that
// relies on a tool that is gone, or has other schemas, is refused at its commit.
func (m *Member) registerUpstreams(ctx context.Context) {
	set := m.side.config.MCP.Upstreams
	if set == nil {
		return
	}
	due := make(chan struct{}, 1)
	defer set.Watch(func() {
		select {
		case due <- struct{}{}:
		default: // it is looked at anyway
		}
	})()
	m.toldMu.Lock()
	m.told = map[string]map[string]string{}
	m.toldMu.Unlock()
	pauses := pause.Doubling{Least: registerPause, Most: registerMost}
	for {
		again := false
		for _, s := range set.States() {
			tools := map[string]string{}
			for _, t := range s.Tools {
				tools[t.Name] = t.Hash
			}
			told := m.told[s.Name] // written here alone
			if s.Phase != upstream.Ready && told == nil || maps.Equal(told, tools) && told != nil {
				continue // nothing is known of it yet, or nothing has changed: one that is away keeps its tools
			}
			if err := m.agent.SetTools(ctx, s.Name, tools); err != nil {
				m.config.Logger.Warn("an MCP server's tools are not registered yet", "server", s.Name, "cause", err)
				again = true
				continue
			}
			m.toldMu.Lock()
			m.told[s.Name] = tools
			m.toldMu.Unlock()
		}
		if again {
			if !view.Sleep(ctx, pauses.Next()) {
				return
			}
			continue
		}
		pauses.Reset()
		select {
		case <-due:
		case <-ctx.Done():
			return
		}
	}
}
