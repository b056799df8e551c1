package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/processor"
)

// ground is what the sidecars of "hence run" and "hence up" stand on: a cluster that is there, or one in this process.
type ground struct {
	streams streams.Config
	tracer  trace.Tracer // nil: no spans
	dir     string       // of the journals; "": below the user's cache
}

// onCluster calls f with a cluster that others run. It may be away: the sidecars wait for it. What f is given ends
// when the cluster has lost its log: nothing that the programs know is true then.
func onCluster(ctx context.Context, s servers, dir string, logger *slog.Logger,
	f func(context.Context, ground) error) error {
	telemetry, err := startTelemetry("hence-sidecar", logger)
	if err != nil {
		return err
	}
	defer telemetry.stop(logger)
	cfg := s.config(logger)
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		if err := streams.SameLog(ctx, cfg); err != nil {
			cancel(fmt.Errorf("watch the log: %w", err))
		}
	})
	return f(ctx, ground{streams: cfg, tracer: telemetry.tracer("hence/sidecar"), dir: dir})
}

// embed starts Kafka, NATS and the processors in this process for as long as f runs. What f is given ends when one of
// them does. Without a folder nothing is kept.
func embed(ctx context.Context, dir string, logger *slog.Logger, f func(context.Context, ground) error) (err error) {
	telemetry, err := startTelemetry("hence-run", logger)
	if err != nil {
		return err
	}
	defer telemetry.stop(logger)
	journals := dir
	if dir == "" {
		if journals, err = os.MkdirTemp("", "hence-"); err != nil {
			return fmt.Errorf("make a folder for the run: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(journals)) }()
	}
	servers, err := embedded.Start(ctx, embedded.Options{DataDir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	cfg := streams.Config{Brokers: servers.Brokers, NATS: servers.NATS, Logger: logger}
	if err := streams.EnsureTopics(ctx, cfg); err != nil {
		return fmt.Errorf("create the topics: %w", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var processors sync.WaitGroup
	defer processors.Wait()
	defer stop() // after f: sidecars settle until their end
	processors.Go(func() {
		if err := processor.Run(running, cfg); running.Err() == nil {
			cancel(fmt.Errorf("the processors ended: %w", err))
		}
	})
	return f(ctx, ground{streams: cfg, tracer: telemetry.tracer("hence/sidecar"), dir: journals})
}

// journal is the folder of an agent's journal.
func (g ground) journal(workspace, agent string) (string, error) {
	if g.dir != "" {
		return filepath.Join(g.dir, "sidecar", workspace, agent), nil
	}
	return cachedJournal(workspace, agent)
}
