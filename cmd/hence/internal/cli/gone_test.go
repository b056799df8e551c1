package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/streams"
)

// What ends because a decision is gone starts again; other ends are ends.
func TestGoneRestarts(t *testing.T) {
	var said strings.Builder
	cfg := streams.Config{Brokers: []string{"127.0.0.1:1"}, NATS: "nats://127.0.0.1:1",
		Logger: slog.New(slog.NewTextHandler(&said, nil))}
	ends := []error{fmt.Errorf("follow: %w", streams.ErrGone), fmt.Errorf("again: %w", streams.ErrGone),
		errors.New("full")}
	runs := 0
	err := overLogsIn(t.Context(), cfg, time.Millisecond, func(context.Context) error {
		runs++
		return ends[runs-1]
	})
	if runs != len(ends) || !errors.Is(err, ends[2]) ||
		strings.Count(said.String(), "a decision is no longer in the log") != 2 {
		t.Errorf("%d runs, %v, %s", runs, err, said.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := overLogsIn(ctx, cfg, time.Hour, func(context.Context) error {
		cancel()
		return ends[0]
	}); !errors.Is(err, streams.ErrGone) {
		t.Errorf("told to end: %v", err)
	}
}
