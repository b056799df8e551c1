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
