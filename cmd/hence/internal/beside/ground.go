package beside

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/cmd/hence/internal/otlp"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/processor"
)

// Ground is what the sidecars of "hence run" and "hence up" stand on: a cluster that is there, or one in this process.
type Ground struct {
	Streams streams.Config
	Tracer  trace.Tracer // nil: no spans
	Dir     string       // of the journals; "": below the user's cache
}

// OnCluster calls f with a cluster that others run, and dir as the folder of the journals. It may be away: the
// sidecars wait for it. What f is given ends when the cluster has lost its log: nothing that the programs know is true
// then.
func OnCluster(ctx context.Context, cfg streams.Config, dir, version string,
	f func(context.Context, Ground) error) error {
	telemetry, err := otlp.Start("hence-sidecar", version, cfg.Logger)
	if err != nil {
		return err
	}
	defer telemetry.Stop(cfg.Logger)
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		if err := streams.SameLog(ctx, cfg); err != nil {
			cancel(fmt.Errorf("watch the log: %w", err))
		}
	})
	return f(ctx, Ground{Streams: cfg, Tracer: telemetry.Tracer("hence/sidecar"), Dir: dir})
}

// Embed starts Kafka, NATS and the processors in this process for as long as f runs. What f is given ends when one of
// them does. Without a folder nothing is kept. Anomalies are looked for among so many operations, 0: not at all.
func Embed(ctx context.Context, dir, version string, anomalies int, logger *slog.Logger,
	f func(context.Context, Ground) error) (err error) {
	telemetry, err := otlp.Start("hence-run", version, logger)
	if err != nil {
		return err
	}
	defer telemetry.Stop(logger)
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
	cfg := streams.Config{Brokers: servers.Brokers, NATS: servers.NATS, Dial: servers.Dial, Logger: logger,
		Anomalies: anomalies}
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
	return f(ctx, Ground{Streams: cfg, Tracer: telemetry.Tracer("hence/sidecar"), Dir: journals})
}

// Journal is the folder of an agent's journal.
func (g Ground) Journal(workspace, agent string) (string, error) {
	if g.Dir != "" {
		return filepath.Join(g.Dir, "sidecar", workspace, agent), nil
	}
	return CachedJournal(workspace, agent)
}

// CachedJournal is the folder of an agent's journal where none is named.
func CachedJournal(workspace, agent string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for the journal, name one with --data-dir: %w", err)
	}
	return filepath.Join(cache, "hence", "sidecar", workspace, agent), nil
}
