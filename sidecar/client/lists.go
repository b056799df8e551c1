package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/hence-dev/hence/sidecar/api"
)

// Page is which part of a list is asked for. After is the Next of the page before, Limit 0 the sidecar's default. Pick
// selects by the names that the route takes; an empty value selects all.
type Page struct {
	After string
	Limit int
	Pick  map[string]string
}

func (p Page) query() url.Values {
	query := withLimit(url.Values{}, p.Limit)
	if p.After != "" {
		query.Set("after", p.After)
	}
	for name, value := range p.Pick {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// Transactions lists transactions of all agents, newest first; it picks by state, agent and code.
func (c *Client) Transactions(ctx context.Context, p Page) (out api.TxList, err error) {
	err = c.json(ctx, http.MethodGet, c.inWorkspace("/tx"), p.query(), nil, &out)
	return out, err
}

// Effects lists the agent's own tool calls; it picks by tool, state and tx.
func (c *Client) Effects(ctx context.Context, p Page) (out api.EffectList, err error) {
	err = c.json(ctx, http.MethodGet, c.inWorkspace("/effects"), p.query(), nil, &out)
	return out, err
}

// Agents lists the agents whose sidecars live; it picks by agent.
func (c *Client) Agents(ctx context.Context, p Page) (out api.AgentList, err error) {
	err = c.json(ctx, http.MethodGet, c.inWorkspace("/agents"), p.query(), nil, &out)
	return out, err
}

// MCPServers lists the MCP servers whose tools the sidecar serves.
func (c *Client) MCPServers(ctx context.Context) (out api.MCPServers, err error) {
	err = c.json(ctx, http.MethodGet, "/v1/mcp", nil, nil, &out)
	return out, err
}

// Tools lists the agent's own tools; it picks by server.
func (c *Client) Tools(ctx context.Context, p Page) (out api.ToolList, err error) {
	err = c.json(ctx, http.MethodGet, c.inWorkspace("/tools"), p.query(), nil, &out)
	return out, err
}
