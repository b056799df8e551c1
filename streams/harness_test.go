package streams_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
)

func TestMain(m *testing.M) {
	// Most of the time tests wait for servers and ticks: more of them than there are cores run at once.
	if err := flag.Set("test.parallel", "5"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// sarama's metrics library keeps one ticker for the whole process.
		goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

const patience = time.Minute // the machine may be busy

// world is embedded servers with a configuration for them.
type world struct {
	t       testing.TB
	servers *embedded.Servers
	cfg     streams.Config
	reg     *prometheus.Registry
}

func newWorld(t testing.TB, change ...func(*streams.Config)) *world {
	t.Helper()
	return newWorldIn(t, embedded.Options{}, change...)
}

// newWorldIn starts the servers with options.
func newWorldIn(t testing.TB, o embedded.Options, change ...func(*streams.Config)) *world {
	t.Helper()
	servers, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, servers: servers, reg: prometheus.NewRegistry()}
	w.cfg = streams.Config{Brokers: servers.Brokers, NATS: servers.NATS, Partitions: 2, Instance: "one",
		MemoryStream: true, Metrics: w.reg}
	if os.Getenv("HENCE_TEST_LOG") != "" { // any value: the processors' lines go to stderr
		w.cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	for _, c := range change {
		c(&w.cfg)
	}
	if err := streams.EnsureTopics(t.Context(), w.cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

// run starts the processors; the returned function stops them and waits.
func (w *world) run(cfg streams.Config) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := streams.Run(ctx, cfg); err != nil && ctx.Err() == nil {
			w.t.Errorf("run: %v", err)
		}
	})
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); done.Wait() }) }
	w.t.Cleanup(stop)
	return stop
}

func (w *world) dial(cfg streams.Config) *streams.Client {
	w.t.Helper()
	c, err := streams.Dial(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

func (w *world) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// count sums a metric over all series whose labels contain the given pairs.
func (w *world) count(name string, pairs ...string) float64 {
	w.t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if labelled(m, pairs) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func labelled(m *dto.Metric, pairs []string) bool {
	for i := 0; i < len(pairs); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == pairs[i] && l.GetValue() == pairs[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

// until polls a condition until it holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// view is a follower that collects what it is given and checks order and chain.
type view struct {
	mu       sync.Mutex
	outcomes []sequencer.Outcome
	ways     map[streams.Way]int
	grown    chan struct{}
}

// follow starts a view; it ends with the test.
func (w *world) follow(c *streams.Client, workspace string) *view {
	w.t.Helper()
	v := &view{ways: make(map[streams.Way]int), grown: make(chan struct{}, 1)}
	w.followWith(c, workspace, v.take)
	return v
}

func (w *world) followWith(c *streams.Client, workspace string, apply func(*sequencer.Outcome, streams.Way) error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		err := c.Follow(ctx, workspace, 0, apply)
		if ctx.Err() == nil {
			w.t.Errorf("follow: %v", err)
		}
	})
	w.t.Cleanup(func() { cancel(); done.Wait() })
}

var errOrder = errors.New("out of order")

func (v *view) take(o *sequencer.Outcome, way streams.Way) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var chain sequencer.Hash
	if n := len(v.outcomes); n > 0 {
		chain = v.outcomes[n-1].Chain
	}
	if o.Seq != sequencer.Seq(len(v.outcomes)+1) {
		return fmt.Errorf("%w: %d after %d", errOrder, o.Seq, len(v.outcomes))
	}
	if o.ChainAfter(chain) != o.Chain {
		return fmt.Errorf("%w: the chain breaks at %d", errOrder, o.Seq)
	}
	v.outcomes = append(v.outcomes, *o)
	v.ways[way]++
	select {
	case v.grown <- struct{}{}:
	default:
	}
	return nil
}

// note keeps an outcome without looking at its place.
func (v *view) note(o *sequencer.Outcome) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.outcomes = append(v.outcomes, *o)
}

func (v *view) len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.outcomes)
}

func (v *view) by(way streams.Way) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ways[way]
}

func (v *view) all() []sequencer.Outcome {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]sequencer.Outcome(nil), v.outcomes...)
}

// decided waits for the decision of a transaction.
func (w *world) decided(v *view, tx sequencer.TxID) sequencer.Outcome {
	w.t.Helper()
	var found sequencer.Outcome
	w.until("decision of "+string(tx), func() bool {
		for _, o := range v.all() {
			if o.Tx == tx && (o.Kind == sequencer.OutcomeCommitted || o.Kind == sequencer.OutcomeAborted) {
				found = o
				return true
			}
		}
		return false
	})
	return found
}

// agent writes transactions into one workspace.
type agent struct {
	w           *world
	c           *streams.Client
	v           *view
	workspace   string
	name        string
	incarnation sequencer.Seq
	n           int
}

// join appends a join and waits for its decision.
func (w *world) join(c *streams.Client, v *view, workspace, name string) *agent {
	w.t.Helper()
	a := &agent{w: w, c: c, v: v, workspace: workspace, name: name}
	id := "j-" + workspace + "-" + name
	a.append(&sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: name, Join: &sequencer.Join{ID: id}})
	w.until("join of "+name, func() bool {
		for _, o := range v.all() {
			if o.Kind == sequencer.OutcomeJoined && o.Agent == name {
				a.incarnation = o.Seq
				return true
			}
		}
		return false
	})
	return a
}

func (a *agent) append(in *sequencer.Intent) {
	a.w.t.Helper()
	if _, err := a.c.Append(a.w.context(), a.workspace, in); err != nil {
		a.w.t.Fatal(err)
	}
}

// write seals a transaction of one record that writes one shard.
func (a *agent) write(shard, content string) sequencer.TxID {
	a.w.t.Helper()
	tx, in := a.intent(shard, content)
	a.append(in)
	return tx
}

func (a *agent) intent(shard, content string) (sequencer.TxID, *sequencer.Intent) {
	a.n++
	tx := sequencer.TxID(fmt.Sprintf("%s-%d", a.name, a.n))
	return tx, &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: tx, N: 1, Agent: a.name, Incarnation: a.incarnation,
		Base: a.incarnation, Begin: &sequencer.Begin{}, Seal: &sequencer.Seal{Shards: []sequencer.ShardWrite{{
			Scope: sequencer.Scope("shard:/" + shard), Type: "text/plain", Content: []byte(content)}}}}
}
