package processor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/internal/teststreams"
)

// The broker goes away in the middle of the work and comes back with its data: nothing that was acknowledged is lost,
// and no process has to be started again.
func TestBrokerStopsAndStarts(t *testing.T) {
	t.Parallel()
	w := teststreams.NewIn(t, embedded.Options{DataDir: t.TempDir()})
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	for round := range 2 {
		for i := range 20 {
			a.Write(fmt.Sprint("orders/", i%3), fmt.Sprint(round))
		}
		w.Servers.StopKafka()
		tx, in := a.Intent("orders/9", "x")
		brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := c.Append(brief, "shop", in)
		cancel()
		if !errors.Is(err, streams.ErrUnknown) {
			t.Fatalf("append without a broker: %v", err)
		}
		if err := w.Servers.StartKafka(); err != nil {
			t.Fatal(err)
		}
		a.Append(in) // unknown: the same intent again
		if o := w.Decided(v, tx); o.Kind != sequencer.OutcomeCommitted {
			t.Errorf("%s is %s", tx, o.Kind)
		}
	}
	tablesEqual(w, v, "shop")
}

// A sidecar whose sequencer is cut off from NATS, while it is not, finds the decisions in Kafka, however busy it is
// itself: only a decision shows that NATS brings them.
func TestOwnAppendsDoNotPutKafkaOff(t *testing.T) {
	w := teststreams.New(t)
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	ann := w.Join(c, w.Follow(c, "shop"), "shop", "ann")
	clock := &handClock{now: time.Unix(1000, 0)}
	busy, cut := w.Cfg, w.Cfg
	busy.Clock, cut.NATS = clock, ""
	ann.Client = w.Dial(busy)
	v := w.Follow(ann.Client, "shop")
	soon := func(what string, decisions int) {
		w.Until(what, func() bool {
			renew(ann)
			clock.advance(100 * time.Millisecond)
			return v.Len() >= decisions
		})
	}
	soon("the join", 1)
	stop()
	w.Run(cut)
	ann.Write("x", "y")
	soon("a decision that NATS does not bring", 2)
	if v.By(streams.WayKafka) == 0 {
		t.Error("it did not come by Kafka")
	}
}
