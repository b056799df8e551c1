package adapters

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sequencer"
)

// MetaKey is where an MCP server finds the key of a call, in the request's _meta.
const MetaKey = "hence/key"

// mcpAdapter calls tools of one MCP server. Their results are handed on whole: they are for the model.
type mcpAdapter struct {
	spec    gate.MCPSpec
	class   sequencer.Class
	servers *upstream.Set
}

func newMCP(servers *upstream.Set, d gate.Decl) (gate.Adapter, error) {
	spec, err := readSpec[gate.MCPSpec](d)
	if err != nil {
		return nil, err
	}
	if servers != nil && !servers.Has(spec.Server) {
		var all []string
		for _, s := range servers.States() {
			all = append(all, s.Name)
		}
		return nil, fmt.Errorf("no MCP server %.40q is configured: name one of %s", spec.Server, strings.Join(all, ", "))
	}
	return &mcpAdapter{spec: spec, class: d.Class, servers: servers}, nil
}

// tool is the server's name of a called tool, or the public one, which the server's session knows as well.
func (a *mcpAdapter) tool(c gate.Call) string {
	if a.spec.Tool != "" {
		return a.spec.Tool
	}
	if _, found := a.servers.Tool(a.spec.Server, c.Tool); found {
		return c.Tool
	}
	return strings.TrimPrefix(c.Tool, a.spec.Server+"__")
}

// Call makes one call. What the server says of a call that it did not let in is a refusal; what a tool says of its own
// failure proves nothing, unless the declaration says that it does.
func (a *mcpAdapter) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	if a.servers == nil {
		return gate.Answer{}, notSent("this process reaches no MCP server: start it with --mcp FILE")
	}
	call := upstream.Call{Tool: a.tool(c), Hash: a.spec.Schema, Args: c.Args, Meta: map[string]any{},
		Progress: gate.ProgressOf(ctx)}
	if c.Key != "" {
		call.Meta[MetaKey] = c.Key
	}
	if c.Traceparent != "" {
		call.Meta["traceparent"] = c.Traceparent
	}
	res, err := a.servers.Call(ctx, a.spec.Server, call)
	switch {
	case errors.Is(err, upstream.ErrNotSent):
		return gate.Answer{}, notSent("%s", detail(err.Error()))
	case err != nil:
		return gate.Answer{}, unknown("%s", detail(err.Error()))
	case len(res.Raw) > MaxAnswer && a.class != sequencer.ClassRead:
		// It has acted: that is what counts, and a compensation is made of what is kept of it, which is nothing.
		return gate.Answer{Detail: fmt.Sprintf("the result has %d bytes, at most %d are kept", len(res.Raw), MaxAnswer)}, nil
	case len(res.Raw) > MaxAnswer:
		return gate.Answer{}, unknown("the result has %d bytes: at most %d are taken", len(res.Raw), MaxAnswer)
	case !res.IsError:
		return gate.Answer{Result: res.Raw}, nil
	case a.class == sequencer.ClassRead: // nothing hangs on it: the model is told what the tool says
		return gate.Answer{Detail: detail(res.Said), Result: res.Raw}, nil
	case res.Refused, a.spec.Error == gate.ErrorRefused:
		return gate.Answer{Refused: true, Detail: detail(res.Said), Result: res.Raw}, nil
	}
	return gate.Answer{}, unknown("the tool says that it failed, and not whether it acted: %s", detail(res.Said))
}

// LookUp: the protocol has no way to ask what became of a call.
func (a *mcpAdapter) LookUp(context.Context, gate.Call) (gate.Answer, error) {
	return gate.Answer{}, gate.ErrNoLookup
}

// Check refuses a tool that its server is known not to have. While the server starts or is away nothing is known.
func (a *mcpAdapter) Check(c gate.Call) error {
	if a.servers == nil {
		return nil
	}
	if s, _ := a.servers.State(a.spec.Server); s.Phase != upstream.Ready {
		return nil
	}
	t, found := a.servers.Tool(a.spec.Server, a.tool(c))
	switch {
	case !found:
		return notSent("the MCP server %s has no tool %.80q", a.spec.Server, a.tool(c))
	case a.spec.Schema != "" && a.spec.Schema != t.Hash:
		return notSent("the MCP server %s has changed the schemas of %.80q: they are %s, and the policy relies on %s: look "+
			"at the tool, and write its new hash into the policy", a.spec.Server, t.Name, t.Hash, a.spec.Schema)
	}
	return nil
}
