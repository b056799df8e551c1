package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hence-dev/hence/cmd/hence/internal/beside"
	"github.com/hence-dev/hence/cmd/hence/internal/otlp"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/processor"
	"github.com/hence-dev/hence/topology/pause"
)

// streamsCmd is the configuration of "hence streams".
type streamsCmd struct {
	servers
	topicShape
	logging
	output
	parent
	sealing
	lookback
	Listen       string `default:"127.0.0.1:7421" help:"Address for health and metrics; port 0 takes a free one."`
	Replica      string `enum:"a,b" default:"a" help:"Replica, a or b; both publish the same decisions."`
	Instance     string `placeholder:"NAME" help:"Member name in the consumer group; default: the host name."`
	NATSReplicas int    `name:"nats-replicas" default:"1" help:"Replicas of the JetStream streams; 3 on a real cluster."`
	CreateTopics bool   `default:"true" negatable:"" help:"Create missing topics."`
}

func (c *streamsCmd) prepare() error { return c.needs(c.Anomalies) }

// recheckIn is the pause before topics that are not as they must be are looked at again.
const recheckIn = 5 * time.Second

// Run processes until the context ends. It waits for whatever is away, and for topics to be fixed.
func (c *streamsCmd) Run(ctx context.Context, s Streams) error {
	collectSooner()
	ctx, cancel := c.bind(ctx, s.In)
	defer cancel()
	registry, logger := prometheus.NewRegistry(), c.logger(s.Err)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg := c.apply(c.config(logger))
	telemetry, err := otlp.Start("hence-streams", binaryVersion(), logger)
	if err != nil {
		return err
	}
	defer telemetry.Stop(logger)
	cfg.Replica, cfg.Instance, cfg.Metrics = c.Replica, c.Instance, registry
	cfg.NATSReplicas = c.NATSReplicas
	if cfg.SealKey, err = c.sealing.load(); err != nil {
		return err
	}
	cfg.Anomalies = c.operations(c.Anomalies)
	cfg.CreateTopics, cfg.Health = c.CreateTopics, new(streams.Health)
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen for health checks, choose another address with --listen: %w", err)
	}
	ops := &http.Server{Handler: opsHandler(cfg.Health, registry), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- ops.Serve(listener) }()
	err = c.announce(s.Out, "http://"+listener.Addr().String())
	for err == nil {
		err = beside.QuietEnd(ctx, overLogs(ctx, cfg, func(ctx context.Context) error { return processor.Run(ctx, cfg) }))
		if ctx.Err() != nil || !errors.Is(err, streams.ErrTopics) {
			break
		}
		cfg.Logger.Error("the topics are wrong: no record is processed until they are fixed", "error", err)
		err = nil
		_ = pause.Sleep(ctx, recheckIn) // the next run sees that ctx has ended
	}
	closing := ops.Close()
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		closing = errors.Join(closing, end)
	}
	return errors.Join(err, closing)
}

// announce says where to ask; whether the processors work is what the answer says.
func (c *streamsCmd) announce(w io.Writer, address string) error {
	if c.json() {
		return printReady(w, c.output, "streams", c.Instance, address)
	}
	_, err := fmt.Fprintf(w, "streams of replica %s: health and metrics at %s\n", c.Replica, address)
	return err
}

// opsHandler answers whether the processors live and work, and their metrics.
func opsHandler(health *streams.Health, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, `{"ok":true}`) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		status, answer := readyOf(health.Ready(), health.Notes())
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	})
	return mux
}

// readyOf is what a readiness check is answered. Notes are there to be looked at, and leave it ready: one workspace
// that has stopped must not keep the others' sidecars from being started.
func readyOf(ready map[string]error, notes map[string]string) (status int, answer map[string]any) {
	status = http.StatusOK
	parts := map[string]string{}
	for part, err := range ready {
		parts[part] = "ok"
		if err != nil {
			parts[part], status = err.Error(), http.StatusServiceUnavailable
		}
	}
	answer = map[string]any{"ready": status == http.StatusOK, "parts": parts}
	if len(notes) > 0 {
		answer["notes"] = notes
	}
	return status, answer
}
