package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxOrders bounds the orders whose keys are remembered.
const maxOrders = 20_000

// shelf is an MCP server: it has pieces of a few things, and orders more. An order with the key of a former one, which
// Hence sends as hence/key, is that order again.
type shelf struct {
	mu      sync.Mutex
	pieces  map[string]int
	ordered map[string]string // by key: the answer
}

// thing is what both tools are called with.
type thing struct {
	Item  string `json:"item" jsonschema:"name of the thing, such as mugs"`
	Count int    `json:"count,omitempty" jsonschema:"how many to order"`
}

func newShelf() http.Handler {
	s := &shelf{pieces: map[string]int{"mugs": 10, "bowls": 4}, ordered: map[string]string{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "shelf", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "look", Description: "How many pieces of a thing there are.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, s.look)
	mcp.AddTool(server, &mcp.Tool{Name: "order", Description: "Orders pieces of a thing. An order cannot be taken back."},
		s.order)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true})
}

func (s *shelf) look(_ context.Context, _ *mcp.CallToolRequest, in thing) (*mcp.CallToolResult, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return said(fmt.Sprintf("%d %s", s.pieces[in.Item], in.Item)), nil, nil
}

func (s *shelf) order(_ context.Context, r *mcp.CallToolRequest, in thing) (*mcp.CallToolResult, any, error) {
	if in.Count < 1 || in.Count > 1000 {
		return nil, nil, fmt.Errorf("count is %d: order 1 to 1000", in.Count)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, _ := r.Params.Meta["hence/key"].(string)
	if answer, known := s.ordered[key]; known && key != "" {
		return said(answer), nil, nil
	}
	if len(s.ordered) >= maxOrders {
		return nil, nil, fmt.Errorf("there were %d orders: start the server again", len(s.ordered))
	}
	s.pieces[in.Item] += in.Count
	answer := fmt.Sprintf("ordered %d %s", in.Count, in.Item)
	s.ordered[key] = answer
	return said(answer), nil, nil
}

func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}
