package streams_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

// quantiles sorts durations and returns the median and the 99th percentile.
func quantiles(took []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// waits lets a view announce decisions of transactions.
type waits struct {
	mu sync.Mutex
	by map[sequencer.TxID]chan struct{}
}

func (x *waits) expect(tx sequencer.TxID) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := make(chan struct{})
	x.by[tx] = c
	return c
}

func (x *waits) take(o *sequencer.Outcome, _ streams.Way) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.by[o.Tx]; c != nil {
		close(c)
		delete(x.by, o.Tx)
	}
	return nil
}

func TestAppendIsDecidedAndFollowed(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	t.Logf("first decision %v after the processors were started", time.Since(began))
	x := &waits{by: make(map[sequencer.TxID]chan struct{})}
	w.followWith(c, "shop", x.take)
	var took []time.Duration
	for range 300 {
		tx, in := a.intent("orders/1", "x")
		decided := x.expect(tx)
		at := time.Now()
		a.append(in)
		<-decided
		took = append(took, time.Since(at))
	}
	p50, p99 := quantiles(took)
	t.Logf("append to Follow, one at a time: p50 %v, p99 %v", p50, p99)
	w.until("the other view", func() bool { return v.len() >= 301 })
	if v.by(streams.WayNATS) < v.len()*99/100 {
		t.Errorf("of %d decisions only %d came by NATS", v.len(), v.by(streams.WayNATS))
	}
}

// BenchmarkDecisions has 64 agents in 8 workspaces, each with one transaction at a time.
func BenchmarkDecisions(b *testing.B) {
	w := newWorld(b, func(c *streams.Config) { c.Partitions = 8 })
	w.run(w.cfg)
	c := w.dial(w.cfg)
	var agents []*agent
	var views []*waits
	var joins []*view
	for i := range 64 {
		name := fmt.Sprint("w", i%8)
		if i < 8 {
			views = append(views, &waits{by: make(map[sequencer.TxID]chan struct{})})
			joins = append(joins, &view{ways: make(map[streams.Way]int), grown: make(chan struct{}, 1)})
			w.followWith(c, name, func(o *sequencer.Outcome, way streams.Way) error {
				if o.Kind == sequencer.OutcomeJoined {
					joins[i].note(o)
				}
				return views[i].take(o, way)
			})
		}
		agents = append(agents, w.join(c, joins[i%8], name, fmt.Sprint("a", i)))
	}
	var mu sync.Mutex
	var all []time.Duration
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, a := range agents {
		wg.Go(func() {
			took := make([]time.Duration, 0, b.N/64+1)
			for range b.N/64 + 1 {
				tx, in := a.intent(fmt.Sprint("orders/", i), "x")
				decided := views[i%8].expect(tx)
				at := time.Now()
				a.append(in)
				<-decided
				took = append(took, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	wg.Wait()
	b.StopTimer()
	p50, p99 := quantiles(all)
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(p50.Microseconds()), "p50-µs")
	b.ReportMetric(float64(p99.Microseconds()), "p99-µs")
}
