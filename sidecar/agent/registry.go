package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
)

// Bounds of the tools that an agent registers.
const (
	maxToolServers = 32
	maxServerTools = 1000
)

// enterRegistry takes the registry for one flow; leaveRegistry gives it back.
func (s *Agent) enterRegistry(ctx context.Context) error {
	if err := s.loop.AwaitThrough(ctx, nil, func() bool { return !s.registry.busy }); err != nil {
		return err
	}
	s.registry.busy = true
	return nil
}

func (s *Agent) leaveRegistry() { s.registry.busy = false }

// intent announces a server's whole catalogue, or withdraws it when it is empty. Generations only grow, so the newest
// one counts whatever arrives when.
func (r *registry) intent(server, agent string, inc sequencer.Seq) *sequencer.Intent {
	r.generation++
	in := &sequencer.Intent{Kind: sequencer.IntentUnregister, Agent: agent, Incarnation: inc,
		Register: &sequencer.Register{Server: server, Generation: r.generation}}
	for name, signature := range r.servers[server] {
		in.Kind = sequencer.IntentRegister
		in.Register.Tools = append(in.Register.Tools, sequencer.Tool{Name: name, Signature: signature})
	}
	slices.SortStableFunc(in.Register.Tools, func(a, b sequencer.Tool) int { return strings.Compare(a.Name, b.Name) })
	return in
}

// registerAll registers what the agent has said of its tools for a new incarnation.
func (s *Agent) registerAll(ctx context.Context, inc sequencer.Seq) error {
	if err := s.enterRegistry(ctx); err != nil {
		return err
	}
	defer s.leaveRegistry()
	for server := range s.registry.servers {
		try, cancel := s.clock.Within(ctx, appendTry)
		_, err := s.append(try, s.registry.intent(server, s.agent, inc))
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// setTool registers a tool, or withdraws it when the signature is empty, and returns once the view shows that. A
// caller that stops waiting does not cancel it.
func (s *Agent) setTool(ctx context.Context, server, name, signature string) (*api.Tool, error) {
	if c, ok := s.tools.(catalogue); ok {
		if of, _ := c.Catalogue(); of == server {
			return nil, api.Problemf(api.CodeBadRequest, "server %q is that of the policy's own tools: change the "+
				"policy file, or name another server", server)
		}
	}
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	if err := s.enterRegistry(ctx); err != nil { // one request at a time changes entries
		return nil, err
	}
	var out *api.Tool
	var failed error
	over := false
	span := trace.SpanContextFromContext(ctx)
	started := s.loop.Go(func(ctx context.Context) {
		defer s.leaveRegistry()
		out, failed = s.announceTool(under(ctx, span), server, name, signature)
		over = true
	})
	if !started {
		s.leaveRegistry()
		return nil, api.Problemf(api.CodeBusy, "too much is under way: the tool is as it was, send it again")
	}
	if s.loop.AwaitThrough(ctx, nil, func() bool { return over }) == nil { // the log answers
		return out, failed
	}
	again := "send the same request again for the answer"
	if signature == "" {
		again += "; " + api.CodeNotFound + " says that the tool is withdrawn"
	}
	return nil, api.Problemf(api.CodeUndecided, "the log has not answered yet whether it takes tool %s of server %s "+
		"so; it is asked on: %s", name, server, again)
}

// SetTools registers all tools of a server by one record, in the place of those that it had; none: it is withdrawn. It
// returns once the log has taken them.
func (s *Agent) SetTools(ctx context.Context, server string, tools map[string]string) error {
	_, err := flow(s, func() (struct{}, error) { return struct{}{}, s.setTools(ctx, server, tools) })
	return err
}

func (s *Agent) setTools(ctx context.Context, server string, tools map[string]string) error {
	if c, ok := s.tools.(catalogue); ok {
		if of, _ := c.Catalogue(); of == server {
			return api.Problemf(api.CodeBadRequest, "server %q is that of the policy's own tools: name one of the two "+
				"otherwise", server)
		}
	}
	for name, signature := range tools {
		if err := validTool(server, name, signature); err != nil {
			return err
		}
	}
	if err := s.await(ctx); err != nil {
		return err
	}
	if err := s.enterRegistry(ctx); err != nil {
		return err
	}
	defer s.leaveRegistry()
	former := s.registry.servers[server]
	switch {
	case maps.Equal(former, tools):
		return nil
	case former == nil && len(s.registry.servers) >= maxToolServers:
		return api.Problemf(api.CodeLimit, "%d tool servers are registered already", maxToolServers)
	case len(tools) > maxServerTools:
		return api.Problemf(api.CodeLimit, "server %q has %d tools: at most %d are registered", server, len(tools),
			maxServerTools)
	}
	s.registry.replace(server, tools)
	inc := s.liveIncarnation()
	over := func() bool { return inc == 0 || s.liveIncarnation() != inc }
	o, err := s.ask(ctx, s.registry.intent(server, s.agent, inc), over)
	switch {
	case err != nil: // it may be in the log: the next try has a later generation, and says it again
		s.registry.replace(server, former)
	case o == nil:
		s.registry.replace(server, former)
		err = api.Problemf(api.CodeNotReady, "the session ended meanwhile")
	case o.Kind == sequencer.OutcomeRefused:
		s.registry.replace(server, former)
		err = words.NotTaken(o, "the tools of server %s are not registered", server)
	}
	return err
}

// replace changes all entries of a server.
func (r *registry) replace(server string, tools map[string]string) {
	if len(tools) == 0 {
		delete(r.servers, server)
		return
	}
	r.servers[server] = maps.Clone(tools)
}

// announceTool changes an entry and tells the log, as long as that takes: a caller that times out leaves nothing of
// which the log says one thing and the registry another.
func (s *Agent) announceTool(ctx context.Context, server, name, signature string) (*api.Tool, error) {
	back, err := s.registry.set(server, name, signature)
	if err != nil {
		return nil, err
	}
	inc := s.liveIncarnation()
	in := s.registry.intent(server, s.agent, inc)
	over := func() bool { return inc == 0 || s.liveIncarnation() != inc } // the next session waits for the turn
	o, err := s.ask(ctx, in, over)
	if err == nil && o != nil && o.Kind == sequencer.OutcomeRefused {
		err = words.NotTaken(o, "tool %s of server %s is not registered", name, server)
		if o.Code == sequencer.CodeLimit {
			s.registerRest(ctx, server, name, inc)
			return nil, err
		}
	}
	if err == nil && o == nil {
		err = api.Problemf(api.CodeNotReady, "the session ended meanwhile: send it again")
	}
	if err != nil {
		back()
		return nil, err
	}
	return &api.Tool{Server: server, Name: name, Signature: signature, Generation: in.Register.Generation,
		Seq: uint64(o.Seq), Tools: len(in.Register.Tools)}, nil
}

// registerRest says again what is left of a server's tools when the log had no room for a changed one. The log has
// none of them now, so that no plan commits on what the server no longer has; the changed tool stays out.
func (s *Agent) registerRest(ctx context.Context, server, name string, inc sequencer.Seq) {
	if _, err := s.registry.set(server, name, ""); err != nil {
		return // it was the server's first, and is not kept
	}
	if len(s.registry.servers[server]) == 0 {
		return
	}
	o, err := s.ask(ctx, s.registry.intent(server, s.agent, inc), func() bool { return s.liveIncarnation() != inc })
	if err == nil && o != nil && o.Kind == sequencer.OutcomeRefused {
		delete(s.registry.servers, server) // as in the log
	}
}

// set changes one entry; back undoes that.
func (r *registry) set(server, name, signature string) (back func(), err error) {
	tools := r.servers[server]
	former, had := tools[name]
	switch {
	case signature == "" && !had:
		return nil, api.Problemf(api.CodeNotFound, "no tool %q of server %q is registered here", name, server)
	case tools == nil && len(r.servers) >= maxToolServers:
		return nil, api.Problemf(api.CodeLimit, "%d tool servers are registered already", maxToolServers)
	case signature != "" && !had && len(tools) >= maxServerTools:
		return nil, api.Problemf(api.CodeLimit, "server %q has %d tools already", server, maxServerTools)
	case tools == nil:
		tools = map[string]string{}
		r.servers[server] = tools
	}
	put := func(to string) {
		if to == "" {
			delete(tools, name)
		} else {
			tools[name] = to
		}
		if len(tools) > 0 {
			r.servers[server] = tools
		} else {
			delete(r.servers, server)
		}
	}
	put(signature)
	return func() { put(former) }, nil
}

// catalogue is what a policy announces of its tools: pins are held against it. A policy that has none pins nothing.
type catalogue interface {
	Catalogue() (server string, tools []sequencer.Tool)
}

// announceTools registers the policy's tools for an incarnation. No seal of it can come before that in the log.
func (s *Agent) announceTools(ctx context.Context, inc sequencer.Seq) error {
	c, ok := s.tools.(catalogue)
	if !ok {
		return nil
	}
	server, tools := c.Catalogue()
	if len(tools) == 0 {
		return nil
	}
	in := &sequencer.Intent{Kind: sequencer.IntentRegister, Agent: s.agent, Incarnation: inc,
		Register: &sequencer.Register{Server: server, Generation: 1, Tools: tools}}
	ctx, cancel := s.clock.Within(ctx, appendTry)
	defer cancel()
	if _, err := s.append(ctx, in); err != nil {
		return fmt.Errorf("register the policy's tools: %w", err)
	}
	return nil
}
