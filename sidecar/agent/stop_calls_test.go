package agent

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
)

// A sidecar that is told to stop lets a call end that is being made: cut off, nobody would know of one without a key.
// The next start settles by its answer.
func TestStopLetsCallsEnd(t *testing.T) {
	log, world, dir := newLog(), newSink(), t.TempDir()
	keep := func(c *setup) { c.DataDir = dir }
	a := start(t, "a", log.Door(), quick(world), keep)
	ctx := background(t)
	gateway := make(chan struct{})
	world.set(func() { world.block["unmail"] = gateway })
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Effect(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t)
	must(tx.Seal(ctx))(t)
	<-world.entered
	stopped := make(chan error, 1)
	go func() { stopped <- a.stop() }()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for a.session.lease.Left() > 0 {
		select {
		case <-poll.C:
		case err := <-stopped:
			t.Fatalf("it stopped while a call was being made: %v", err)
		}
	}
	close(gateway)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	world.set(func() { clear(world.block) })
	b := start(t, "a", log.Door(), quick(world), keep).aloneNow()
	awaitKind(ctx, t, log, sequencer.OutcomeSettled)
	world.expect(t, "unmail x")
	if list := must(b.client.Residue(ctx, client.ResidueQuery{}))(t); len(list.Items) != 0 {
		t.Errorf("it left residue: %+v", list.Items)
	}
}
