package agent

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// A sidecar that is told to stop lets a call in progress end: cut off, one without a key has an unknown outcome.
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

// What ends by itself is told also when the sidecar stops meanwhile: a request waits for the answer to its eager call,
// and one that waits for its turn in the same transaction gets it, as long as Limits.StopWait lasts.
func TestStopTellsAnswers(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), withTools(world), func(c *setup) { c.Limits.StopWait = time.Second })
	ctx := background(t)
	gateway := make(chan struct{})
	world.set(func() { world.block["set"] = gateway })
	tx := open(ctx, t, a, client.BeginOptions{})
	called, wrote := make(chan error, 1), make(chan error, 1)
	go func() {
		got, err := tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{})
		if err == nil && got.State != api.EffectDone {
			t.Errorf("the call is %+v", got)
		}
		called <- err
	}()
	<-world.entered
	go func() {
		text := "1"
		_, err := a.session.Write(ctx, tx.ID(), &api.Write{Scope: "shard:/x", Content: &text})
		wrote <- err
	}()
	stopped := make(chan error, 1)
	go func() { stopped <- a.stop() }()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for a.session.eventually(ctx, func() bool { return true }) == nil { // as half of StopWait has passed: no more waits
		<-poll.C
	}
	close(gateway)
	if err := <-called; err != nil {
		t.Errorf("the answer of a call that was being made: %v", err)
	}
	if err := <-wrote; err != nil {
		t.Errorf("a write that waited for the call: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
