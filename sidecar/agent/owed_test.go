package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/machine"
)

// As many settlements as may run at once, which all fail, do not keep a later one from its end.
func TestFailingSettlementsMakeWay(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	var txs []*client.Tx
	for i := range 32 {
		tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		must(tx.Effect(ctx, "unmail", at{At: fmt.Sprint("x", i)}, client.EffectOptions{}))(t)
		txs = append(txs, tx)
	}
	held(t, a, log, door, txs...)
	a.die(t, door)
	b := start(t, "a", log.Door(), soon, inFolder(a.config.DataDir)) // it has no policy: it cannot release them
	owing := func() bool { return inside(b.session, func() bool { return b.session.settle.Owing() == 32 }) }
	comes(ctx, t, "all are known", owing)
	tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Touch(ctx, []client.Want{{Scope: "thing:/z", Access: "write"}}, client.TouchOptions{}))(t)
	if err := tx.Abort(ctx, "over"); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = tx.Settle(ctx, nil, true) }()
	b.final(ctx, t, tx.ID())
}

// A transaction whose abort is on its way is not forgotten while many others end: its calls are undone.
func TestUndecidedIsKept(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world), func(c *setup) { c.Limits.Decided = 4 })
	abandoned := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(abandoned.Effect(ctx, "set", at{At: "y"}, client.EffectOptions{}))(t)
	world.set(func() { world.block["unset"] = make(chan struct{}) })
	go func() { _, _ = abandoned.Effect(ctx, "unset", at{At: "x"}, client.EffectOptions{}) }()
	<-world.entered
	door.Hold()
	comes(ctx, t, "it is aborted", func() bool {
		return hasOutcome(log.Outcomes(), sequencer.OutcomeAborted, abandoned.ID())
	})
	for range 5 { // as many requests of their own that are refused
		must(flow(a.session, func() (*tx, error) {
			one, err := a.session.startBare(ctx)
			if err == nil {
				a.session.drop(one, "its only request was refused")
			}
			return one, err
		}))(t)
	}
	door.Release()
	a.final(ctx, t, abandoned.ID())
	world.expect(t, "set y", "back y")
}

// What is lost for good is not settled while a former process may begin calls by its own clock.
func TestLostForGoodWaits(t *testing.T) {
	ctx, log, world := background(t), newLog(), newSink()
	leases(t, log, 13)
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold() // it does not hear that it was replaced
	b := start(t, "a", goneLog{log.Door()}, quick(world))
	until, _ := b.until(tx.ID())
	b.final(ctx, t, tx.ID())
	if left := until.Sub(machine.Clock{}.Steady()); until.IsZero() || left > 0 {
		t.Errorf("settled although the former process has its lease for %v more", left)
	}
}

// What a try by hand moves is held until a call without an answer cannot land any more.
func TestTryByHandIsHeld(t *testing.T) {
	const takes = 500 * time.Millisecond
	ctx, log, world := background(t), newLog(), newSink()
	tools := func(c *setup) {
		quick(world)(c)
		c.Tools = &testTools{sink: world, maxTime: takes}
	}
	a, b := start(t, "a", log.Door(), tools), start(t, "b", log.Door(), tools)
	id := heldBack(t, a, world, "mail", "k")
	world.set(func() { world.down["mail"] = 1 })
	began := time.Now()
	if _, err := a.client.RetryResidue(ctx, id, 0, true); err == nil {
		t.Error("the try was answered")
	}
	tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "mail"}, client.EffectOptions{}))(t)
	if d := time.Since(began); d < takes {
		t.Errorf("another one was granted what the call moves %v after it left; it may take %v", d, takes)
	}
}
