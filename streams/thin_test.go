package streams_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

func TestAppendIsDecidedAndFollowed(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	t.Logf("first decision %v after the processors were started", time.Since(began))
	var took []time.Duration
	for range 200 {
		tx, in := a.intent("orders/1", "x")
		at := time.Now()
		a.append(in)
		for !has(v, tx) {
			<-v.grown
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	t.Logf("append to Follow: p50 %v, p99 %v", took[len(took)/2], took[len(took)*99/100])
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ways[streams.WayNATS] < len(v.outcomes)*99/100 {
		t.Errorf("of %d decisions only %v came by NATS", len(v.outcomes), v.ways)
	}
	_ = os.Stderr
}

func has(v *view, tx sequencer.TxID) bool {
	for _, o := range slices.Backward(v.all()) {
		if o.Tx == tx {
			return true
		}
	}
	return false
}
