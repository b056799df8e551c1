package streams_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
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
	w := teststreams.New(t)
	began := time.Now()
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	t.Logf("first decision %v after the processors were started", time.Since(began))
	x := &waits{by: make(map[sequencer.TxID]chan struct{})}
	w.FollowWith(c, "shop", x.take)
	var took []time.Duration
	for range 300 {
		tx, in := a.Intent("orders/1", "x")
		decided := x.expect(tx)
		at := time.Now()
		a.Append(in)
		<-decided
		took = append(took, time.Since(at))
	}
	p50, p99 := quantiles(took)
	t.Logf("append to Follow, one at a time: p50 %v, p99 %v", p50, p99)
	w.Until("the other view", func() bool { return v.Len() >= 301 })
	if v.By(streams.WayNATS) < v.Len()*99/100 {
		t.Errorf("of %d decisions only %d came by NATS", v.Len(), v.By(streams.WayNATS))
	}
}

// BenchmarkDecisions has 64 agents in 8 workspaces, each with one transaction at a time.
func BenchmarkDecisions(b *testing.B) {
	w := teststreams.New(b, func(c *streams.Config) { c.Partitions = 8 })
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	var agents []*teststreams.Agent
	var views []*waits
	var joins []*teststreams.View
	for i := range 64 {
		name := fmt.Sprint("w", i%8)
		if i < 8 {
			views = append(views, &waits{by: make(map[sequencer.TxID]chan struct{})})
			joins = append(joins, &teststreams.View{Ways: make(map[streams.Way]int), Grown: make(chan struct{}, 1)})
			w.FollowWith(c, name, func(o *sequencer.Outcome, way streams.Way) error {
				if o.Kind == sequencer.OutcomeJoined {
					joins[i].Note(o)
				}
				return views[i].take(o, way)
			})
		}
		agents = append(agents, w.Join(c, joins[i%8], name, fmt.Sprint("a", i)))
	}
	var mu sync.Mutex
	var all []time.Duration
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, a := range agents {
		wg.Go(func() {
			took := make([]time.Duration, 0, b.N/64+1)
			for range b.N/64 + 1 {
				tx, in := a.Intent(fmt.Sprint("orders/", i), "x")
				decided := views[i%8].expect(tx)
				at := time.Now()
				a.Append(in)
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
