package agent

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/machine"
)

// dieIn starts a further process of agent a and ends it in the first call of a tool, which has happened by then.
func dieIn(ctx context.Context, t *testing.T, log *memlog.Log, world *sink, tool string, opts ...func(*setup)) {
	t.Helper()
	world.set(func() { world.hang[tool] = 1 })
	patient := func(c *setup) { c.Tools.(*testTools).maxTime = 3 * time.Second }
	door := log.Door()
	b := start(t, "a", door, append(opts, quick(world), patient)...).aloneNow()
	select {
	case <-world.entered:
	case <-ctx.Done():
		t.Fatalf("%s is not called", tool)
	}
	b.die(t, door)
}

// comesBack lets a process that another one of its agent has replaced read the log and join again. Its lease is over
// by its own clock: the other one did not wait for that.
func comesBack(ctx context.Context, t *testing.T, a *rig, door *memlog.Door) {
	t.Helper()
	a.session.lease.end()
	door.Release()
	comes(ctx, t, "it sees that it was replaced", func() bool { return a.session.inc() == 0 })
	_, _ = a.client.Begin(ctx, client.BeginOptions{}) // refused once: the agent reads again
}

// A process that comes back after another one of its agent does not make a call without a key that the other may have
// made: on a copy of the folder it had it in its journal, too.
func TestComesBackAfterACopy(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	leases(t, log, 13)
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t)
	held(t, a, log, door, tx)
	dieIn(ctx, t, log, world, "unmail", inFolder(a.copied(t, nil)))
	world.expect(t, "unmail x")
	comesBack(ctx, t, a, door)
	a.final(ctx, t, tx.ID())
	world.expect(t, "unmail x")
	if list := log.Residue(); len(list) != 1 || list[0].Result != sequencer.ResultUnresolved {
		t.Errorf("residue: %+v", list)
	}
}

// later is a clock that is put forward.
type later struct {
	machine.Clock
	by *atomic.Int64
}

func (c later) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.by.Load())) }

// Nor does it repeat a call under a key that the sink has forgotten since.
func TestComesBackWhenTheKeyIsForgotten(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	leases(t, log, 13)
	door := log.Door()
	var by atomic.Int64
	a := start(t, "a", door, quick(world), func(c *setup) {
		c.Tools = forgetful{c.Tools.(*testTools), time.Hour}
		c.Machine.Clock = later{by: &by}
	})
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "mail", at{At: "x", Key: "k"}, client.EffectOptions{}))(t)
	held(t, a, log, door, tx)
	dieIn(ctx, t, log, world, "mail")
	world.expect(t, "mail x")
	by.Store(int64(2 * time.Hour))
	world.set(func() { clear(world.answers) })
	comesBack(ctx, t, a, door)
	a.final(ctx, t, tx.ID())
	world.expect(t, "mail x")
}

// A call that the other process made to find out counts, although the one that comes back withdraws it: it never ran
// there.
func TestComesBackAndWithdraws(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	leases(t, log, 13)
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	done := make(chan error, 1)
	go func() {
		_, err := tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{})
		done <- err
	}()
	comes(ctx, t, "the call is granted and published", func() bool {
		return hasOutcome(log.Outcomes(), sequencer.OutcomeGranted, tx.ID()) &&
			hasEvent(log.Events(), topology.EventEffect, tx.ID())
	})
	world.set(func() { world.mute, world.block["back"] = true, make(chan struct{}) })
	other := log.Door()
	b := start(t, "a", other, quick(world)).aloneNow()
	<-world.entered
	world.expect(t, "set x")
	comes(ctx, t, "all is published", func() bool { return b.session.delivery.Drain(ctx) == 0 })
	b.die(t, other)
	world.set(func() { clear(world.block) })
	a.session.lease.end()
	door.Release()
	if err := <-done; err == nil {
		t.Error("the call was made")
	}
	comesBack(ctx, t, a, door)
	a.final(ctx, t, tx.ID())
	world.expect(t, "set x", "back x")
}

// A turn gives calls their arguments back before it undoes them. A start on a folder of that time asks whether another
// process has had a session since, as for calls that have no arguments yet.
func TestRefilledCallsHadOthers(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	leases(t, log, 13)
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "unset", at{At: "x"}, client.EffectOptions{}))(t)
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	door.FailAppends(1 << 30)
	a.session.lease.end()
	retractNow(t, log, a, tx.ID())
	comes(ctx, t, "the calls have their arguments back", func() bool {
		_, kept := a.session.delivery.Owed(sequencer.TxID(tx.ID()))
		return !kept.Stripped
	})
	one, other := a.copied(t, nil), a.copied(t, nil)
	a.die(t, door)
	dieIn(ctx, t, log, world, "back", inFolder(other))
	world.expect(t, "unset x", "back x")
	start(t, "a", log.Door(), quick(world), inFolder(one)).aloneNow()
	retracted(t, log, tx.ID())
	world.expect(t, "unset x", "back x")
}
