package processor_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// produces reports whether a request has a record, not compressed, that says a text.
func produces(r kmsg.Request, text string) bool {
	for _, t := range r.(*kmsg.ProduceRequest).Topics {
		for _, p := range t.Partitions {
			if bytes.Contains(p.Records, []byte(text)) {
				return true
			}
		}
	}
	return false
}

// Nothing of a decision is published before Kafka has acknowledged its intent: the broker holds an intent back while
// others are decided, and neither NATS nor hence.decisions has a word of its transaction until it lets go.
func TestNothingIsPublishedBeforeItsIntentIsAcknowledged(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	held, others := w.Dial(w.Cfg), w.Dial(w.Cfg) // of two connections: the broker answers each one's requests in order
	v := w.Follow(others, "shop")
	a, b := w.Join(held, v, "shop", "ann"), w.Join(others, v, "shop", "bob")
	tx, in := a.Intent("orders/1", "x")
	conn, err := nats.Connect(w.Cfg.NATS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	var said atomic.Int32
	_, err = conn.Subscribe(topology.DecisionSubject("shop"), func(m *nats.Msg) {
		if m.Header.Get(topology.HeaderTx) == string(tx) {
			said.Add(1)
		}
	})
	if err := errors.Join(err, conn.Flush()); err != nil { // it hears from here on
		t.Fatal(err)
	}
	arrived, release := make(chan struct{}), make(chan struct{})
	kafka := w.Servers.Kafka()
	var holding atomic.Bool
	kafka.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if produces(r, string(tx)) && holding.CompareAndSwap(false, true) {
			close(arrived)
			kafka.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	appended := make(chan error, 1)
	go func() {
		_, err := held.Append(context.Background(), "shop", in)
		appended <- err
	}()
	<-arrived
	for range 20 {
		w.Decided(v, b.Write("orders/2", "y"))
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	decisions, _ := w.Published("shop")
	for _, o := range decisions {
		if o.Tx == tx {
			said.Add(1)
		}
	}
	select {
	case err := <-appended:
		t.Fatalf("the hold did not land: %v", err)
	default:
	}
	if n := said.Load(); n > 0 {
		t.Errorf("%d decisions of %s are published, and its intent is not acknowledged", n, tx)
	}
	close(release)
	w.Decided(v, tx)
	if err := <-appended; err != nil {
		t.Error(err)
	}
}
