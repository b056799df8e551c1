package sim

import (
	"context"
	"time"

	"github.com/hence-dev/hence/topology/pause"
)

// Sleep is part of agent.Clock: the bubble's time is virtual.
func (h *host) Sleep(ctx context.Context, d time.Duration) error { return pause.Sleep(ctx, d) }

// Within is part of agent.Clock.
func (h *host) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}
