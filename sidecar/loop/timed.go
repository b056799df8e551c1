package loop

import (
	"context"
	"errors"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology/pause"
)

// Clock is where a sidecar has its time from.
type Clock interface {
	Now() time.Time
	// Steady is for how long something surely lasts, and no date: it counts while the machine sleeps where the system
	// can tell, and nothing sets it.
	Steady() time.Time
	// Sleep returns nil after d, or at once why ctx ended before.
	Sleep(ctx context.Context, d time.Duration) error
	// Within is ctx, ended after d at the latest.
	Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Ticker gives a time about every d until stop is called.
	Ticker(d time.Duration) (c <-chan time.Time, stop func())
}

// Timed is a loop with a clock. What it adds to the loop is said inside of flows, and gives way.
type Timed struct {
	*Loop
	Clock  Clock
	Pauses pause.Doubling // of Retry
}

// Do gives way to other flows while io waits for something outside of the agent.
func Do[T any](l Timed, io func() (T, error)) (out T, err error) {
	l.Loop.Do(func() { out, err = io() })
	return out, err
}

// Until gives way until cond holds, ctx ends or the agent stops. cond may also look at the view: each decision is
// followed by a flow.
func (l Timed) Until(ctx context.Context, cond func() bool) error {
	return stopped(l.Await(ctx, cond))
}

// UntilOn is Until with a condition that only what is watched can turn true.
func (l Timed) UntilOn(ctx context.Context, w *Watched, cond func() bool) error {
	return stopped(l.AwaitOn(ctx, w, cond))
}

func stopped(err error) error {
	if errors.Is(err, ErrStopped) {
		return api.ErrStopped
	}
	return err
}

// Retry calls f until it succeeds or ctx ends, with growing pauses in which others go on.
func (l Timed) Retry(ctx context.Context, f func() error, failed func(error)) error {
	pauses := l.Pauses
	for {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil { // the failure is that of the context: nothing to complain of
			return context.Cause(ctx)
		}
		failed(err)
		if !l.Sleep(ctx, pauses.Next()) {
			return context.Cause(ctx)
		}
	}
}

// Sleep lets others go on for a while; it reports false when ctx ended first.
func (l Timed) Sleep(ctx context.Context, d time.Duration) bool {
	var err error
	l.Loop.Do(func() { err = l.Clock.Sleep(ctx, d) })
	return err == nil
}
