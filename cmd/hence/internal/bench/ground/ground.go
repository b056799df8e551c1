// Package ground is what a benchmark stands on: servers, embedded or running, and the parts of Hence over them, in
// this process or as child processes. It says what they use and what they write.
package ground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/usage"
	"github.com/hence-dev/hence/cmd/hence/internal/cluster"
	"github.com/hence-dev/hence/cmd/hence/internal/otlp"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
)

// Options say what to stand on.
type Options struct {
	Brokers     []string // empty: embedded servers
	NATS        string   // of the same cluster as Brokers
	Replication int
	Partitions  int32
	Data        bool   // embedded servers keep what they have in a folder, which is removed at the end
	Program     string // the binary that runs processors and sidecars as child processes; "": this process does
	Traces      string // address of a collector of spans; "": no spans
	Name        string // of this benchmark, for instances and topics; used once
	Logger      *slog.Logger
}

// Ground is running servers, processors and, once agents have asked for them, sidecars. The caller must Close it.
type Ground struct {
	Options
	Servers streams.Config

	dir      string
	embedded *embedded.Servers
	cluster  cluster.Cluster
	looks    *kgo.Client // at offsets
	spans    *sdktrace.TracerProvider
}

// Start starts what is not there.
func Start(ctx context.Context, o Options) (g *Ground, err error) {
	g = &Ground{Options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if g.dir, err = os.MkdirTemp("", "hence-bench-"); err != nil {
		return g, fmt.Errorf("make a folder for journals: %w", err)
	}
	servers := streams.Config{Brokers: o.Brokers, NATS: o.NATS, Replication: o.Replication, Partitions: o.Partitions,
		Instance: o.Name, Logger: o.Logger}
	if len(o.Brokers) == 0 {
		var kept embedded.Options
		if o.Data {
			kept.DataDir = g.servers()
		}
		if g.embedded, err = embedded.Start(ctx, kept); err != nil {
			return g, fmt.Errorf("start the embedded servers: %w", err)
		}
		servers.Brokers, servers.NATS, servers.Dial = g.embedded.Brokers, g.embedded.NATS, g.embedded.Dial
	}
	if g.Servers, err = servers.Checked(); err != nil {
		return g, err
	}
	if err := streams.EnsureTopics(ctx, g.Servers); err != nil {
		return g, fmt.Errorf("create the topics: %w", err)
	}
	if g.looks, err = kgo.NewClient(g.Servers.BaseOptions()...); err != nil {
		return g, fmt.Errorf("connect to %v: %w", g.Servers.Brokers, err)
	}
	parts := cluster.Config{Streams: g.Servers, Dir: g.dir, Program: o.Program, Announce: io.Discard}
	if o.Traces != "" {
		g.traced(&parts)
	}
	if g.cluster, err = cluster.Start(ctx, parts); err != nil {
		return g, fmt.Errorf("start the processors: %w", err)
	}
	return g, nil
}

// traced lets the parts send spans of the requests that carry a sampled trace, and of no other.
func (g *Ground) traced(parts *cluster.Config) {
	const quick = "200" // ms between two batches, so that a short run has all of them
	if g.Program != "" {
		parts.Env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + g.Traces, "OTEL_TRACES_SAMPLER=parentbased_always_off",
			"OTEL_BSP_SCHEDULE_DELAY=" + quick}
		return
	}
	exporter := otlp.New(otlp.Settings{URL: g.Traces + "/v1/traces", Header: http.Header{}})
	g.spans = sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())),
		sdktrace.WithBatcher(exporter))
	parts.Tracer = g.spans.Tracer("hence/bench")
}

// Failed receives one error when a part has ended for good.
func (g *Ground) Failed() <-chan error { return g.cluster.Failed() }

// Door is where an agent's sidecar serves it.
type Door = cluster.Door

// Doors start sidecars for agents of a workspace, one of their own each or one for all of them, and return where each
// is served, once it is.
func (g *Ground) Doors(ctx context.Context, workspace string, each bool, names ...string) (all []Door, err error) {
	if !each {
		all, err = g.cluster.Sidecar(ctx, workspace, names...)
	} else {
		for _, name := range names {
			own, failed := g.cluster.Sidecar(ctx, workspace, name)
			if err = failed; err != nil {
				break
			}
			all = append(all, own...)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start the sidecars: %w", err)
	}
	return all, nil
}

// Group is processes that do one thing.
type Group struct {
	Name   string
	PIDs   []int32
	Load   bool // they ask, and are no part of what is asked
	Family bool // it is one process, and its children belong to it
}

// Processes are all that take part. A server that is not seen on this machine is an error, and left out.
func (g *Ground) Processes() (all []Group, unseen error) {
	own := Group{Name: "all in one process", PIDs: []int32{int32(os.Getpid())}}
	if g.Program != "" {
		all = append(all, Group{Name: "processors", PIDs: g.Children(RoleProcessors)},
			Group{Name: "sidecars", PIDs: g.Children(RoleSidecar)})
		own.Name = "clients and embedded servers"
	}
	if g.embedded == nil {
		own.Name, own.Load = "clients", g.Program != ""
		if g.Program == "" {
			own.Name = "clients, processors and sidecars"
		}
		kafka := Group{Name: "Kafka"}
		for _, address := range g.Servers.Brokers {
			pid, err := usage.Listener(address)
			unseen = errors.Join(unseen, err)
			if err == nil {
				kafka.PIDs = append(kafka.PIDs, pid)
			}
		}
		nats := Group{Name: "NATS"}
		for address := range strings.SplitSeq(g.Servers.NATS, ",") {
			u, err := url.Parse(address)
			if err == nil {
				var pid int32
				if pid, err = usage.Listener(u.Host); err == nil {
					nats.PIDs = append(nats.PIDs, pid)
				}
			}
			unseen = errors.Join(unseen, err)
		}
		all = append(all, kafka, nats)
	}
	return append(all, own), unseen
}

// Children are the processes of a role; none where it runs in this one.
func (g *Ground) Children(role string) (pids []int32) {
	for _, child := range g.cluster.Running() {
		if child.Role == role {
			pids = append(pids, int32(child.PID))
		}
	}
	return pids
}

// Spans waits until the spans that this process has begun are sent.
func (g *Ground) Spans(ctx context.Context) error {
	if g.spans == nil {
		return nil
	}
	if err := g.spans.ForceFlush(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// Close ends everything that Start began, and removes what it left.
func (g *Ground) Close() (err error) {
	if g.cluster != nil {
		g.cluster.Close()
	}
	if g.spans != nil {
		err = g.spans.Shutdown(context.Background())
	}
	if g.looks != nil {
		g.looks.Close()
	}
	if g.embedded != nil {
		err = errors.Join(err, g.embedded.Close())
	}
	if g.dir != "" {
		err = errors.Join(err, os.RemoveAll(g.dir))
	}
	return err
}
