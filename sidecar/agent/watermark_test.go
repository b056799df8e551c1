package agent

import (
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology/machine"
)

// fakeClock moves when the test says so; pauses and bounds are the machine's.
type fakeClock struct {
	machine.Clock
	mu   sync.Mutex
	now  time.Time
	beat chan time.Time
}

func (f *fakeClock) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakeClock) Steady() time.Time { return f.Now() }

func (f *fakeClock) Ticker(time.Duration) (<-chan time.Time, func()) { return f.beat, func() {} }

// advance moves the clock and returns once the beat before this one has been worked off.
func (f *fakeClock) advance(d time.Duration) {
	f.mu.Lock()
	f.now = f.now.Add(d)
	now := f.now
	f.mu.Unlock()
	f.beat <- now
}

// The watermark follows the view, stops at the oldest open transaction or loose read, and is repeated in time to renew
// the lease, not more often.
func TestWatermark(t *testing.T) {
	log := newLog()
	clock := &fakeClock{now: time.Unix(1e9, 0), beat: make(chan time.Time)}
	a := startWith(t, "a", log.Door(), func(c *setup) {
		c.Machine.Clock, c.Limits.WatermarkSeqs = clock, 1
	})
	ctx := background(t)
	marks := func() (out []sequencer.Seq) {
		for _, in := range log.Intents() {
			if in.Kind == sequencer.IntentWatermark {
				out = append(out, in.Watermark.Seq)
			}
		}
		return out
	}
	second := func(n int) {
		for range n {
			clock.advance(time.Second)
		}
		clock.advance(0)
	}
	expect := func(what string, n int, last sequencer.Seq) {
		t.Helper()
		got := marks()
		if len(got) != n || n > 0 && got[n-1] != last {
			t.Fatalf("%s: watermarks %v, wanted %d, the last %d", what, got, n, last)
		}
	}
	second(2)
	expect("idle", 0, 0)
	second(7)
	expect("idle for longer", 3, 1)
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	second(1)
	expect("moved", 4, 2)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(a.client.Put(ctx, "shard:/x", []byte("2"), client.WriteOptions{}))(t)
	second(2)
	expect("an open transaction", 4, 2)
	second(1)
	expect("its lease", 5, 2)
	must(tx.Seal(ctx))(t)
	must(a.client.Get(ctx, "shard:/x"))(t)
	at := log.Seq()
	must(start(t, "b", log.Door()).client.Put(ctx, "shard:/y", nil, client.WriteOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	second(1)
	expect("a loose read", 6, at)
	must(a.client.Put(ctx, "shard:/x", []byte("3"), client.WriteOptions{}))(t)
	second(1)
	expect("sealed", 7, log.Seq())
	idle := must(a.client.Begin(ctx, client.BeginOptions{DeadlineMs: 1000}))(t)
	clock.advance(time.Minute)
	if d := must(idle.Status(ctx, testWait))(t); d.Code != "deadline" {
		t.Fatalf("left lying: %+v", d)
	}
}

// A lease of a minute is renewed three times in it, and not every 3 s.
func TestLongLeasesAreRenewedRarely(t *testing.T) {
	log := newLog()
	leases(t, log, 240)
	clock := &fakeClock{now: time.Unix(1e9, 0), beat: make(chan time.Time)}
	startWith(t, "a", log.Door(), func(c *setup) { c.Machine.Clock = clock })
	for _, at := range []struct{ second, renewed int }{{19, 0}, {21, 1}, {38, 1}, {41, 2}} {
		for clock.Now().Before(time.Unix(1e9+int64(at.second), 0)) {
			clock.advance(time.Second)
		}
		clock.advance(0)
		n := 0
		for _, in := range log.Intents() {
			if in.Kind == sequencer.IntentWatermark {
				n++
			}
		}
		if n != at.renewed {
			t.Fatalf("the lease was renewed %d times in %d s, want %d", n, at.second, at.renewed)
		}
	}
}

// Of the shortest leases nothing is sure, and of rules that are not known nothing at all: they are renewed all the
// same, not with each beat, and a renewal has time to reach the log.
func TestRenewalsWithoutASureLease(t *testing.T) {
	for _, c := range []struct {
		name string
		view view.Settings
		want time.Duration
	}{
		{"unknown", view.Settings{Rules: sequencer.DefaultRules()}, renewLeast},
		{"unknown and nothing", view.Settings{}, renewLeast},
		{"the shortest", view.Settings{Known: true, Rules: sequencer.Rules{LeaseTicks: leaseMargin}},
			leaseMargin * view.TickLength / 3},
		{"as by default", view.Settings{Known: true, Rules: sequencer.DefaultRules()}, renewLeast},
	} {
		if got := renewUnder(c.view); got != c.want {
			t.Errorf("%s: renewed every %s, want %s", c.name, got, c.want)
		}
	}
}

// An agent that only watches says how far it is when many seqs have passed, and to renew its lease; one that has
// something open when that is over.
func TestWatermarkOfAWatcher(t *testing.T) {
	log := newLog()
	clock := &fakeClock{now: time.Unix(1e9, 0), beat: make(chan time.Time)}
	a := startWith(t, "a", log.Door(), func(c *setup) {
		c.Machine.Clock, c.Limits.WatermarkSeqs = clock, 10
	})
	b := start(t, "b", log.Door())
	ctx := background(t)
	others := func(n int) {
		t.Helper()
		for range n {
			must(b.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
		}
		if err := a.view.Reach(ctx, log.Seq()); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, marked bool) {
		t.Helper()
		count := func() (n int) {
			for _, in := range log.Intents() {
				if in.Kind == sequencer.IntentWatermark && in.Agent == "a" {
					n++
				}
			}
			return n
		}
		before := count()
		clock.advance(time.Second)
		clock.advance(0)
		if got := count() > before; got != marked {
			t.Fatalf("%s: a watermark %v, wanted %v", what, got, marked)
		}
	}
	others(10)
	expect("ten decisions", true)
	others(9)
	expect("nine decisions", false)
	others(1)
	expect("one more", true)
	others(1)
	expect("one decision", false)
	expect("two seconds later", false)
	expect("its lease", true)
	others(1)
	must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	others(2)
	expect("what is open has moved", true)
	others(2)
	expect("it is still open", false)
}
