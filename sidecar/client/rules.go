package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hence-dev/hence/sidecar/api"
)

// The shapes of rules and tools.
type (
	// Rules are the workspace's settings.
	Rules = api.Rules
	// RulesChange says which of them change.
	RulesChange = api.RulesChange
	// Tool is a tool as it was registered.
	Tool = api.Tool
)

// Rules are the workspace's rules in force.
func (c *Client) Rules(ctx context.Context) (Rules, error) {
	var out Rules
	err := c.json(ctx, http.MethodGet, c.inWorkspace("/rules"), nil, nil, &out)
	return out, err
}

// SetRules changes the rules of a version that was read before.
func (c *Client) SetRules(ctx context.Context, version uint32, change RulesChange) (Rules, error) {
	var out Rules
	body, err := json.Marshal(change)
	if err != nil {
		return out, fmt.Errorf("write the change of the rules: %w", err)
	}
	got, err := c.call(ctx, request{method: http.MethodPut, path: c.inWorkspace("/rules"), body: body,
		header: map[string]string{"Content-Type": "application/json",
			"If-Match": strconv.Quote(strconv.FormatUint(uint64(version), 10))}})
	if err != nil {
		return out, err
	}
	return out, decode(got, &out)
}

// PutTool registers a tool of a server; an empty server is "tools".
func (c *Client) PutTool(ctx context.Context, server, name, signature string) (Tool, error) {
	var out Tool
	in := api.PutTool{Server: server, Signature: signature}
	err := c.json(ctx, http.MethodPut, "/v1/tools/"+url.PathEscape(name), nil, in, &out)
	return out, err
}

// DeleteTool withdraws a tool.
func (c *Client) DeleteTool(ctx context.Context, server, name string) (Tool, error) {
	var out Tool
	query := url.Values{}
	if server != "" {
		query.Set("server", server)
	}
	err := c.json(ctx, http.MethodDelete, "/v1/tools/"+url.PathEscape(name), query, nil, &out)
	return out, err
}
