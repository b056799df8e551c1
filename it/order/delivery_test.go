package order

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/traffic"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

// observer follows a workspace's decisions and counts the ways on which they came.
type observer struct {
	mu     sync.Mutex
	chains map[uint64]string
	ways   map[string]int
	seq    sequencer.Seq
	moved  chan struct{} // closed and replaced when seq moves
	ended  chan error
}

func observe(t *testing.T, d *harness.Deployment, c *streams.Client) *observer {
	t.Helper()
	o := &observer{chains: map[uint64]string{}, ways: map[string]int{}, moved: make(chan struct{}),
		ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := c.Follow(ctx, d.Workspace, 0, o.apply)
		if ctx.Err() == nil {
			t.Errorf("an observer ended: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return o
}

func (o *observer) apply(out *sequencer.Outcome, way streams.Way) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if out.Seq != o.seq+1 {
		return fmt.Errorf("seq %d came after %d", out.Seq, o.seq)
	}
	o.seq = out.Seq
	o.chains[uint64(out.Seq)] = fmt.Sprintf("%x", out.Chain)
	o.ways[way.String()]++
	close(o.moved)
	o.moved = make(chan struct{})
	return nil
}

// reach waits until the observer has a seq.
func (o *observer) reach(t *testing.T, seq sequencer.Seq, bound time.Duration) {
	t.Helper()
	deadline := time.After(bound)
	for {
		o.mu.Lock()
		at, moved := o.seq, o.moved
		o.mu.Unlock()
		if at >= seq {
			return
		}
		select {
		case <-moved:
		case <-deadline:
			t.Fatalf("an observer is at seq %d, %v after the log had %d", at, bound, seq)
		}
	}
}

func (o *observer) figures() (chains map[uint64]string, ways map[string]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.chains), maps.Clone(o.ways)
}

// observed runs traffic under observers, waits until each has all of it, and holds that all chains are the log's.
func observed(t *testing.T, d *harness.Deployment, during func(), observers map[string]*observer) int {
	t.Helper()
	rec := traffic.NewRecorder()
	sidecars := d.Sidecars(t, 4)
	finished := make(chan error, 1)
	go func() {
		finished <- traffic.Run(t.Context(), sidecars, traffic.Plan{Transactions: 80, Scopes: 40, Reads: 2, Writes: 1,
			Think: 2 * time.Millisecond, Seed: 3}, rec)
	}()
	if during != nil {
		during()
	}
	select {
	case err := <-finished:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("an agent waits for ever: %s", rec.Figures())
	}
	outcomes := harness.DecisionsOf(t, d.Servers, d.Workspace, rec.Attempts())
	harness.Holds(t, rec.Attempts(), outcomes)
	last := outcomes[len(outcomes)-1].Seq
	chains := map[string]map[uint64]string{"log": {}}
	for _, c := range harness.Checked(outcomes) {
		chains["log"][c.Seq] = c.Chain
	}
	for name, o := range observers {
		o.reach(t, last, 20*time.Second)
		chains[name], _ = o.figures()
	}
	shared, found := check.SameChain(chains)
	for _, v := range found {
		t.Error(v)
	}
	if shared < len(outcomes) {
		t.Errorf("%d of %d decisions were observed", shared, len(outcomes))
	}
	return len(outcomes)
}

// TestDeliveryQuiet counts the ways on which decisions come when nothing is wrong.
func TestDeliveryQuiet(t *testing.T) {
	d := harness.Deploy(t, harness.Start(t))
	d.Sidecar(t, "first") // the workspace has its first decision
	o := observe(t, d, d.Dial(t))
	o.reach(t, 1, 20*time.Second)
	n := observed(t, d, nil, map[string]*observer{"quiet": o})
	_, ways := o.figures()
	t.Logf("%d decisions came by %v", n, ways)
	if ways[streams.WayNATS.String()]*100 < n*99 {
		t.Errorf("%d of %d decisions came by NATS: want at least 99 %%", ways[streams.WayNATS.String()], n)
	}
}

// TestDeliveryDamaged drops or swaps every tenth message: the chain stays the same and no agent waits for ever.
func TestDeliveryDamaged(t *testing.T) {
	d := harness.Deploy(t, harness.Start(t))
	d.Sidecar(t, "first")
	observers := map[string]*observer{}
	for name, faults := range map[string]streams.Faults{
		"drops": {DropEvery: 10}, "swaps": {SwapEvery: 10}, "both": {DropEvery: 7, SwapEvery: 10},
	} {
		cfg := d.Config
		cfg.Faults = faults
		observers[name] = observe(t, d, d.DialWith(t, cfg))
	}
	n := observed(t, d, nil, observers)
	for name, o := range observers {
		_, ways := o.figures()
		t.Logf("%s: %d decisions came by %v", name, n, ways)
		if ways[streams.WayNATS.String()] == n {
			t.Errorf("%s: every decision came by NATS: nothing was damaged", name)
		}
	}
}

// TestDeliveryWithoutNATS stops NATS in the middle of the traffic: Kafka delivers, later, and nothing is missing.
func TestDeliveryWithoutNATS(t *testing.T) {
	d := harness.Deploy(t, harness.StartOwn(t))
	d.Sidecar(t, "first")
	o := observe(t, d, d.Dial(t))
	o.reach(t, 1, 20*time.Second)
	n := observed(t, d, func() {
		o.reach(t, 60, time.Minute)
		d.KillNATS(t)
		o.reach(t, 160, time.Minute)
		d.UpNATS(t)
	}, map[string]*observer{"without": o})
	_, ways := o.figures()
	t.Logf("%d decisions came by %v", n, ways)
	if ways[streams.WayKafka.String()]+ways[streams.WayJetStream.String()] == 0 {
		t.Error(errors.New("every decision came by NATS although it was stopped"))
	}
}
