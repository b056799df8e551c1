package upstream

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tapped is a transport that keeps what a program answers to calls as it was written: the SDK decodes it, and numbers
// that are no float64 and fields that it does not know are lost. A connection over HTTP is tapped below the SDK, which
// asks it for more than its interface says (heard).
type tapped struct{ mcp.Transport }

// Connect opens the transport.
func (t tapped) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tap{Connection: c, waits: map[jsonrpc.ID]*rawAnswer{}}, nil
}

type rawKey struct{}

// rawAnswer takes the answer to the call that its context carries.
type rawAnswer struct {
	mu   sync.Mutex
	text json.RawMessage
}

// tapping is a context whose call's answer is kept.
func tapping(ctx context.Context) (context.Context, *rawAnswer) {
	a := &rawAnswer{}
	return context.WithValue(ctx, rawKey{}, a), a
}

// get is the answer as it was written; nil: none was kept.
func (a *rawAnswer) get() json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text
}

type tap struct {
	mcp.Connection
	mu    sync.Mutex
	waits map[jsonrpc.ID]*rawAnswer
}

// Write notes whose answer a call's will be.
func (t *tap) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "tools/call" {
		if a, ok := ctx.Value(rawKey{}).(*rawAnswer); ok {
			t.mu.Lock()
			t.waits[r.ID] = a
			t.mu.Unlock()
		}
	}
	return t.Connection.Write(ctx, m)
}

// Read keeps an answer before the SDK decodes it. A second answer to one call has no waiter.
func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := t.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Response); ok && err == nil {
		t.mu.Lock()
		a := t.waits[r.ID]
		delete(t.waits, r.ID)
		t.mu.Unlock()
		if a != nil {
			a.mu.Lock()
			a.text = append(json.RawMessage(nil), r.Result...)
			a.mu.Unlock()
		}
	}
	return m, err
}
