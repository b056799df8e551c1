package view

import (
	"context"
	"log/slog"
	"time"

	"github.com/hence-dev/hence/topology/pause"
)

// The shortest and the longest pause between two tries of something.
const (
	PauseLeast = 20 * time.Millisecond
	PauseMost  = 500 * time.Millisecond
)

// Retry calls f until it succeeds or ctx ends, with growing pauses.
func Retry(ctx context.Context, f func() error, failed func(error)) error {
	return pause.Retry(ctx, pause.Doubling{Least: PauseLeast, Most: PauseMost}, f, failed)
}

// Sleep waits; it reports false when ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool { return pause.Sleep(ctx, d) == nil }

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
