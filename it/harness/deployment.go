package harness

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/processor"
)

// readyBound is how long processors and sidecars may take to be ready; a group on real servers forms slowly when its
// former members did not say farewell.
const readyBound = 60 * time.Second

// Deployment is one workspace of its own on some servers, with processors and sidecars in this process.
type Deployment struct {
	*Servers
	Workspace string
	Config    streams.Config // of processors and clients started from now on

	dir      string
	stop     func()
	registry *prometheus.Registry // of the running processors
}

// Deploy starts processors over servers. They stop with the test, after its sidecars.
func Deploy(tb testing.TB, servers *Servers) *Deployment {
	tb.Helper()
	name := "it-" + strings.ToLower(rand.Text()[:10])
	d := &Deployment{Servers: servers, Workspace: name, dir: tb.TempDir(), Config: streams.Config{
		Brokers: servers.Brokers, NATS: servers.NATS, Instance: name, Logger: Logger(tb),
	}}
	d.StartProcessors(tb)
	tb.Cleanup(d.StopProcessors)
	return d
}

// Replica starts a second group of processors for the same workspaces, with tables of its own.
func (d *Deployment) Replica(tb testing.TB, replica string) *Deployment {
	tb.Helper()
	second := &Deployment{Servers: d.Servers, Workspace: d.Workspace, dir: d.dir, Config: d.Config}
	second.Config.Replica = replica
	ctx, cancel := context.WithTimeout(tb.Context(), topicsBound)
	defer cancel()
	if err := streams.EnsureTopics(ctx, second.Config); err != nil {
		tb.Fatal(err)
	}
	second.StartProcessors(tb)
	tb.Cleanup(second.StopProcessors)
	return second
}

// In is the deployment as another workspace sees it: the same processors, sidecars of its own.
func (d *Deployment) In(workspace string) *Deployment {
	return &Deployment{Servers: d.Servers, Workspace: workspace, Config: d.Config, dir: d.dir, registry: d.registry}
}

// Logger logs warnings and worse to the test.
func Logger(tb testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(&testWriter{tb: tb}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// testWriter writes to a test as long as that runs.
type testWriter struct {
	mu   sync.Mutex
	tb   testing.TB
	once sync.Once
	over bool
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.once.Do(func() {
		w.tb.Cleanup(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.over = true
		})
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.tb.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// StartProcessors runs sequencer, closure and frontier until StopProcessors.
func (d *Deployment) StartProcessors(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d.registry = prometheus.NewRegistry()
	cfg := d.Config
	cfg.Metrics = d.registry
	ended := make(chan error, 1)
	go func() { ended <- processor.Run(ctx, cfg) }()
	d.stop = func() {
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			tb.Errorf("the processors ended: %v", err)
		}
	}
}

// StopProcessors stops them and waits until they have ended; their state in memory is gone.
func (d *Deployment) StopProcessors() {
	if d.stop != nil {
		d.stop()
		d.stop = nil
	}
}

// Count is the sum of one of the processors' counters over its labels.
func (d *Deployment) Count(tb testing.TB, name string) (sum float64) {
	tb.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	if !described(d.registry, name) {
		tb.Fatalf("the processors have no counter %s", name)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// described says whether a registry knows a metric; one with labels is gathered only once it was touched.
func described(r *prometheus.Registry, name string) bool {
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		r.Describe(all)
	}()
	known := false
	for desc := range all {
		known = known || strings.Contains(desc.String(), `fqName: "`+name+`"`)
	}
	return known
}

// Dial connects a client of the log that lives as long as the test.
func (d *Deployment) Dial(tb testing.TB) *streams.Client {
	tb.Helper()
	return d.DialWith(tb, d.Config)
}

// DialWith is Dial with a configuration of the test's own.
func (d *Deployment) DialWith(tb testing.TB, cfg streams.Config) *streams.Client {
	tb.Helper()
	cfg.Metrics = prometheus.NewRegistry()
	c, err := streams.Dial(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// Sidecar is one running sidecar with a client of it.
type Sidecar struct {
	Agent  string
	URL    string
	Token  string
	Client *client.Client
	Stop   func() // ends it gracefully, once
}

// Sidecar starts a sidecar for an agent and waits until it is ready. It stops with the test.
func (d *Deployment) Sidecar(tb testing.TB, agent string) *Sidecar {
	tb.Helper()
	return d.SidecarWith(tb, sidecar.Config{Agent: agent})
}

// SidecarWith is Sidecar with a configuration of the test's own; workspace and folder are the deployment's.
func (d *Deployment) SidecarWith(tb testing.TB, cfg sidecar.Config) *Sidecar {
	tb.Helper()
	s, err := d.startSidecar(tb, cfg)
	if err != nil {
		tb.Fatalf("sidecar of %s: %v", cfg.Agent, err)
	}
	return s
}

// Sidecars starts n sidecars at once, named agent-1 and so on.
func (d *Deployment) Sidecars(tb testing.TB, n int) []*Sidecar {
	tb.Helper()
	return d.SidecarsWith(tb, n, sidecar.Config{})
}

// SidecarsWith is Sidecars with a configuration of the test's own.
func (d *Deployment) SidecarsWith(tb testing.TB, n int, cfg sidecar.Config) []*Sidecar {
	tb.Helper()
	var cfgs []sidecar.Config
	for i := range n {
		cfg.Agent = fmt.Sprintf("agent-%d", i+1)
		cfgs = append(cfgs, cfg)
	}
	return d.SidecarsOf(tb, cfgs)
}

// SidecarsOf starts a sidecar for each configuration, at once.
func (d *Deployment) SidecarsOf(tb testing.TB, cfgs []sidecar.Config) []*Sidecar {
	tb.Helper()
	n := len(cfgs)
	all, errs := make([]*Sidecar, n), make([]error, n)
	var starting sync.WaitGroup
	for i, cfg := range cfgs {
		starting.Go(func() { all[i], errs[i] = d.startSidecar(tb, cfg) })
	}
	starting.Wait()
	for i, err := range errs {
		if err != nil {
			tb.Fatalf("sidecar %d of %d: %v", i+1, n, err)
		}
	}
	return all
}

func (d *Deployment) startSidecar(tb testing.TB, cfg sidecar.Config) (*Sidecar, error) {
	streamsCfg := d.Config
	streamsCfg.Metrics = prometheus.NewRegistry()
	log, err := streams.Dial(tb.Context(), streamsCfg)
	if err != nil {
		return nil, err
	}
	cfg.Workspace, cfg.Logger = d.Workspace, d.Config.Logger
	cfg.DataDir = filepath.Join(d.dir, cfg.Agent)
	s, err := sidecar.New(cfg, log)
	if err != nil {
		log.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("the sidecar of %s ended: %v", cfg.Agent, err)
		}
		log.Close()
	})
	tb.Cleanup(stop)
	select {
	case <-s.Ready():
	case err := <-ended:
		ended <- nil
		return nil, fmt.Errorf("it ended before it was ready: %w", err)
	case <-time.After(readyBound):
		return nil, fmt.Errorf("it was not ready in %v", readyBound)
	}
	return &Sidecar{Agent: cfg.Agent, URL: s.URL(), Token: s.Token(), Stop: stop,
		Client: client.New(s.URL(), s.Token(), client.WithWorkspace(d.Workspace))}, nil
}

// Follow gathers a workspace's decisions until the context ends or enough says so.
func (d *Deployment) Follow(ctx context.Context, c *streams.Client, after sequencer.Seq,
	each func(*sequencer.Outcome, streams.Way) error) error {
	return c.Follow(ctx, d.Workspace, after, each)
}
