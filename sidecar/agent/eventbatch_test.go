package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// upgraded is a log whose processors read a format of hence.events that a test sets.
type upgraded struct {
	Log
	format atomic.Uint32
	asked  atomic.Int32
}

func (d *upgraded) KnownEvents(context.Context, string) (uint32, error) {
	defer d.asked.Add(1)
	return d.format.Load(), nil
}

// turnOf makes a transaction that reads and writes.
func (r *rig) turnOf(t *testing.T) sequencer.TxID {
	t.Helper()
	ctx := background(t)
	tx := must(r.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Read(ctx, "shard:/x"))(t)
	if err := tx.Write(ctx, "shard:/x", []byte("1"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	must(tx.Seal(ctx))(t)
	return sequencer.TxID(tx.ID())
}

// recordsOf waits for the events of a turn, and returns how many records have them.
func recordsOf(t *testing.T, log *memlog.Log, tx sequencer.TxID) (records int) {
	t.Helper()
	err := log.Until(background(t), func() bool {
		records = 0
		kinds := map[topology.EventKind]bool{}
		for _, events := range log.EventRecords() {
			if events[0].Tx != tx {
				continue
			}
			records++
			for _, ev := range events {
				kinds[ev.Kind] = true
			}
		}
		return kinds[topology.EventRead] && kinds[topology.EventWrite] && kinds[topology.EventSeal]
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// The events of a transaction share a record once all processors read such, and not before; a processor that does not
// is asked for again.
func TestEventsShareARecordOnceTheyAreRead(t *testing.T) {
	log := newLog()
	door := &upgraded{Log: log.Door()}
	door.format.Store(topology.EventsSingle)
	a := start(t, "a", door)
	ask := func(format uint32) {
		t.Helper()
		door.format.Store(format)
		before := door.asked.Load()
		s := a.session
		s.loop.Run(func() {
			s.formatAfter = time.Time{}
			s.learnFormat(s.clock.Now())
		})
		for door.asked.Load() == before {
			a.turnOf(t)
		}
	}
	ask(topology.EventsSingle)
	for range 5 {
		if n := recordsOf(t, log, a.turnOf(t)); n != 3 {
			t.Fatalf("the events of one turn are in %d records, and each must have its own", n)
		}
	}
	ask(topology.EventsBatched)
	began := time.Now()
	for n := 0; n != 1; n = recordsOf(t, log, a.turnOf(t)) { // a turn may take longer than its reads wait
		if time.Since(began) > testWait {
			t.Fatal("the events of no turn are in one record")
		}
	}
	ask(topology.EventsSingle)
	began = time.Now()
	for n := 0; n != 3; n = recordsOf(t, log, a.turnOf(t)) { // the answer is heard while the first is made
		if time.Since(began) > testWait {
			t.Fatal("the events of turns still share records")
		}
	}
}

// While the events topic takes nothing, no call is made and no seal is sent: a later settlement by another sidecar
// would know of neither.
func TestNothingLeavesBeforeItsEvents(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, withTools(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	door.Silence(true)
	must(tx.Effect(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t) // it is held until the commit
	sealed := make(chan error, 1)
	go func() {
		_, err := tx.Seal(ctx)
		sealed <- err
	}()
	other := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	called := make(chan error, 1)
	go func() {
		_, err := other.Effect(ctx, "set", at{At: "y"}, client.EffectOptions{})
		called <- err
	}()
	for before := door.FailedEvents(); door.FailedEvents() < before+6; { // three tries of both
		select {
		case err := <-sealed:
			t.Fatalf("the seal is answered, %v, and its call is not in the events topic", err)
		case err := <-called:
			t.Fatalf("the call is answered, %v, and is not in the events topic", err)
		case <-time.After(time.Millisecond):
		}
	}
	world.expect(t)
	for _, in := range log.Intents() {
		if in.Kind == sequencer.IntentSeal {
			t.Errorf("%s is in the log, and its call is not in the events topic", in.ID())
		}
	}
	door.Silence(false)
	if err := errors.Join(<-sealed, <-called); err != nil {
		t.Error(err)
	}
}
