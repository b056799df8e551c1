package tables

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/hence-dev/hence/sequencer"
)

// Harms is a ground that serves a workspace at two nodes, of which a harm befalls the second.
type Harms interface {
	Harmed(ctx context.Context, harm *Harm) (Place, error)
}

// Harm befalls the way between a node and the log.
type Harm struct {
	mu    sync.Mutex
	cut   bool
	lost  sequencer.Scope
	conns map[net.Conn]struct{}
}

// Cut closes the node's connections to the servers and lets it make none, or lets it make them again.
func (h *Harm) Cut(cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = cut
	for conn := range h.conns {
		if cut {
			_ = conn.Close() // what it says is of no use
		}
	}
	h.conns = map[net.Conn]struct{}{}
}

// Lose lets no decision that writes a shard come to the node's view; empty: all come.
func (h *Harm) Lose(scope sequencer.Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = scope
}

// Loses reports whether a decision is one that does not come.
func (h *Harm) Loses(o *sequencer.Outcome) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range o.Shards {
		if o.Shards[i].Scope == h.lost {
			return true
		}
	}
	return false
}

// Dial is a dialer for the node.
func (h *Harm) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context,
	string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.cut {
			_ = conn.Close() // it was never the node's
			return nil, fmt.Errorf("connect to %s: %w", address, syscall.ECONNREFUSED)
		}
		if h.conns == nil {
			h.conns = map[net.Conn]struct{}{}
		}
		h.conns[conn] = struct{}{}
		return conn, nil
	}
}
