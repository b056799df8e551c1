package streams_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
)

// The broker goes away in the middle of the work and comes back with its data: nothing that was acknowledged is lost,
// and nobody has to be started again.
func TestBrokerStopsAndStarts(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, embedded.Options{DataDir: t.TempDir()})
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	a := w.join(c, v, "shop", "ann")
	for round := range 2 {
		for i := range 20 {
			a.write(fmt.Sprint("orders/", i%3), fmt.Sprint(round))
		}
		w.servers.StopKafka()
		tx, in := a.intent("orders/9", "x")
		brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := c.Append(brief, "shop", in)
		cancel()
		if !errors.Is(err, streams.ErrUnknown) {
			t.Fatalf("append without a broker: %v", err)
		}
		if err := w.servers.StartKafka(); err != nil {
			t.Fatal(err)
		}
		a.append(in) // unknown: the same intent again
		if o := w.decided(v, tx); o.Kind != sequencer.OutcomeCommitted {
			t.Errorf("%s is %s", tx, o.Kind)
		}
	}
	w.tablesEqual(v, "shop")
}

// A sidecar whose sequencer is cut off from NATS, while it is not, finds the decisions in Kafka, however busy it is
// itself: only a decision shows that NATS brings them.
func TestOwnAppendsDoNotPutKafkaOff(t *testing.T) {
	w := newWorld(t)
	stop := w.run(w.cfg)
	c := w.dial(w.cfg)
	ann := w.join(c, w.follow(c, "shop"), "shop", "ann")
	clock := &handClock{now: time.Unix(1000, 0)}
	busy, cut := w.cfg, w.cfg
	busy.Clock, cut.NATS = clock, ""
	ann.c = w.dial(busy)
	v := w.follow(ann.c, "shop")
	soon := func(what string, decisions int) {
		w.until(what, func() bool {
			ann.renew()
			clock.advance(100 * time.Millisecond)
			return v.len() >= decisions
		})
	}
	soon("the join", 1)
	stop()
	w.run(cut)
	ann.write("x", "y")
	soon("a decision that NATS does not bring", 2)
	if v.by(streams.WayKafka) == 0 {
		t.Error("it did not come by Kafka")
	}
}
