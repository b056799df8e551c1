package demo

import (
	"context"
	"time"
)

// pause waits for d, or returns ctx's error at once when it ends.
func pause(ctx context.Context, d time.Duration) error { return pauseUntil(ctx, d, nil) }

// pauseUntil is pause that is cut short when stop is closed: what comes after it is done at once.
func pauseUntil(ctx context.Context, d time.Duration, stop <-chan struct{}) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-stop:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
