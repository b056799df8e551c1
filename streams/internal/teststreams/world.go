// Package teststreams is what the tests of streams, its processors and its inspections share: embedded servers with
// processors, agents that write and views that check what they are given. Only external tests can use it, since it
// uses these packages itself.
package teststreams

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
	"github.com/hence-dev/hence/streams/processor"
)

// Main runs a package's tests, several of them at once, and fails when goroutines are left.
func Main(m *testing.M) {
	// Most of the time tests wait for servers and ticks: more of them than there are cores run at once.
	if err := flag.Set("test.parallel", "5"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// sarama's metrics library keeps one ticker for the whole process.
		goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// Patience bounds each wait of a test: the machine may be busy.
const Patience = time.Minute

// World is embedded servers with a configuration for them.
type World struct {
	T       testing.TB
	Servers *embedded.Servers
	Cfg     streams.Config
	Reg     *prometheus.Registry // that Cfg counts in
}

// New starts servers without options and creates the topics; both end with the test.
func New(t testing.TB, change ...func(*streams.Config)) *World {
	t.Helper()
	return NewIn(t, embedded.Options{}, change...)
}

// NewIn is New, with options of the servers.
func NewIn(t testing.TB, o embedded.Options, change ...func(*streams.Config)) *World {
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
	w := &World{T: t, Servers: servers, Reg: prometheus.NewRegistry()}
	w.Cfg = streams.Config{Brokers: servers.Brokers, NATS: servers.NATS, Dial: servers.Dial, Partitions: 2,
		Instance: "one", MemoryStream: true, Metrics: w.Reg}
	if os.Getenv("HENCE_TEST_LOG") != "" { // any value: the processors' lines go to stderr
		w.Cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	for _, c := range change {
		c(&w.Cfg)
	}
	if err := streams.EnsureTopics(t.Context(), w.Cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

// Run starts the processors; the returned function stops them and waits.
func (w *World) Run(cfg streams.Config) (stop func()) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := processor.Run(ctx, cfg); err != nil && ctx.Err() == nil {
			w.T.Errorf("run: %v", err)
		}
	})
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); done.Wait() }) }
	w.T.Cleanup(stop)
	return stop
}

// Dial makes a client that is closed with the test.
func (w *World) Dial(cfg streams.Config) *streams.Client {
	w.T.Helper()
	c, err := streams.Dial(w.T.Context(), cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(c.Close)
	return c
}

// Context ends after Patience, or with the test.
func (w *World) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	w.T.Cleanup(cancel)
	return ctx
}

// Count sums a metric over all series whose labels contain the given pairs.
func (w *World) Count(name string, pairs ...string) float64 {
	w.T.Helper()
	families, err := w.Reg.Gather()
	if err != nil {
		w.T.Fatal(err)
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

// Until polls a condition until it holds.
func (w *World) Until(what string, holds func() bool) {
	w.T.Helper()
	deadline := time.After(Patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			w.T.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// View is a follower that collects what it is given and checks order and chain.
type View struct {
	mu       sync.Mutex
	outcomes []sequencer.Outcome
	Ways     map[streams.Way]int
	Grown    chan struct{}
}

// Follow starts a view; it ends with the test.
func (w *World) Follow(c *streams.Client, workspace string) *View {
	w.T.Helper()
	v := &View{Ways: make(map[streams.Way]int), Grown: make(chan struct{}, 1)}
	w.FollowWith(c, workspace, v.take)
	return v
}

// FollowWith calls apply for each decision of a workspace, until the test ends.
func (w *World) FollowWith(c *streams.Client, workspace string, apply func(*sequencer.Outcome, streams.Way) error) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		err := c.Follow(ctx, workspace, 0, apply)
		if ctx.Err() == nil {
			w.T.Errorf("follow: %v", err)
		}
	})
	w.T.Cleanup(func() { cancel(); done.Wait() })
}

var errOrder = errors.New("out of order")

func (v *View) take(o *sequencer.Outcome, way streams.Way) error {
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
	v.Ways[way]++
	select {
	case v.Grown <- struct{}{}:
	default:
	}
	return nil
}

// Note keeps an outcome without looking at its place.
func (v *View) Note(o *sequencer.Outcome) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.outcomes = append(v.outcomes, *o)
}

// Len is how many decisions it has been given.
func (v *View) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.outcomes)
}

// By is how many of them came by one way.
func (v *View) By(way streams.Way) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.Ways[way]
}

// All are copies of those decisions.
func (v *View) All() []sequencer.Outcome {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]sequencer.Outcome(nil), v.outcomes...)
}

// Decided waits for the decision of a transaction.
func (w *World) Decided(v *View, tx sequencer.TxID) sequencer.Outcome {
	w.T.Helper()
	var found sequencer.Outcome
	w.Until("decision of "+string(tx), func() bool {
		for _, o := range v.All() {
			if o.Tx == tx && (o.Kind == sequencer.OutcomeCommitted || o.Kind == sequencer.OutcomeAborted) {
				found = o
				return true
			}
		}
		return false
	})
	return found
}

// Agent writes transactions into one workspace.
type Agent struct {
	World       *World
	Client      *streams.Client
	View        *View
	Workspace   string
	Name        string
	Incarnation sequencer.Seq
	N           int
}

// Join appends a join and waits for its decision.
func (w *World) Join(c *streams.Client, v *View, workspace, name string) *Agent {
	w.T.Helper()
	a := &Agent{World: w, Client: c, View: v, Workspace: workspace, Name: name}
	id := "j-" + workspace + "-" + name
	a.Append(&sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: name, Join: &sequencer.Join{ID: id}})
	w.Until("join of "+name, func() bool {
		for _, o := range v.All() {
			if o.Kind == sequencer.OutcomeJoined && o.Agent == name {
				a.Incarnation = o.Seq
				return true
			}
		}
		return false
	})
	return a
}

// Append adds an intent to the agent's workspace.
func (a *Agent) Append(in *sequencer.Intent) {
	a.World.T.Helper()
	if _, err := a.Client.Append(a.World.Context(), a.Workspace, in); err != nil {
		a.World.T.Fatal(err)
	}
}

// Write seals a transaction of one record that writes one shard.
func (a *Agent) Write(shard, content string) sequencer.TxID {
	a.World.T.Helper()
	tx, in := a.Intent(shard, content)
	a.Append(in)
	return tx
}

// Intent is what Write appends, with its transaction.
func (a *Agent) Intent(shard, content string) (sequencer.TxID, *sequencer.Intent) {
	a.N++
	tx := sequencer.TxID(fmt.Sprintf("%s-%d", a.Name, a.N))
	return tx, &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: tx, N: 1, Agent: a.Name, Incarnation: a.Incarnation,
		Base: a.Incarnation, Begin: &sequencer.Begin{}, Seal: &sequencer.Seal{Shards: []sequencer.ShardWrite{{
			Scope: sequencer.Scope("shard:/" + shard), Type: "text/plain", Content: []byte(content)}}}}
}
