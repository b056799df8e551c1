package view

import (
	"context"
	"log/slog"
	"time"
)

// The shortest and the longest pause between two tries of something.
const (
	PauseLeast = 20 * time.Millisecond
	PauseMost  = 500 * time.Millisecond
)

// Retry calls f until it succeeds or ctx ends, with growing pauses.
func Retry(ctx context.Context, f func() error, failed func(error)) error {
	pause := PauseLeast
	for {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failed(err)
		if !Sleep(ctx, pause) {
			return context.Cause(ctx)
		}
		pause = min(2*pause, PauseMost)
	}
}

// Sleep waits; it reports false when ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Complain says what a retry waits for, once for each reason: brokers may be away for an hour.
func Complain(log *slog.Logger, what string) func(error) {
	said := ""
	return func(err error) {
		if text := err.Error(); text != said {
			said = text
			log.Warn(what, "cause", err)
		}
	}
}
