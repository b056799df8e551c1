package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

// goneAgainIn is the pause before a decision is looked for again that was gone.
const goneAgainIn = 5 * time.Second

// overLogs runs f until it ends by itself. When the log is lost meanwhile, with the brokers' disks, it says so and
// runs f again: nothing of the former log holds. The same where a decision is gone: a snapshot may lead past
// it by now, or the topic has been repaired.
func overLogs(ctx context.Context, cfg streams.Config, f func(context.Context) error) error {
	return overLogsIn(ctx, cfg, goneAgainIn, f)
}

func overLogsIn(ctx context.Context, cfg streams.Config, again time.Duration, f func(context.Context) error) error {
	for {
		inner, cancel := context.WithCancelCause(ctx)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			if err := streams.SameLog(inner, cfg); err != nil {
				cancel(err)
			}
		}()
		err := f(inner)
		why := context.Cause(inner)
		if why == nil && errors.Is(err, streams.ErrOtherLog) {
			why = err // the sidecar has seen it first
		}
		cancel(nil)
		<-watched
		if ctx.Err() == nil && why == nil && errors.Is(err, streams.ErrGone) {
			cfg.Logger.Error("a decision is no longer in the log: all parts restart", "error", err, "pause", again)
			if pause.Sleep(ctx, again) != nil {
				return err
			}
			continue
		}
		if ctx.Err() != nil || why == nil {
			return err
		}
		if !errors.Is(why, streams.ErrOtherLog) {
			return errors.Join(err, fmt.Errorf("watch the log: %w", why))
		}
		cfg.Logger.Error("the log is lost: all parts restart on an empty log", "error", why)
	}
}
