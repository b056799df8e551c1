package agent

import (
	"sync"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// What a retraction could not undo is undone when it is tried again; it is never made a second time.
func TestRetryOfRetracted(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t)
	must(tx.Effect(ctx, "stage", at{At: "y"}, client.EffectOptions{}))(t)
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	world.set(func() { world.down["back"] = 1 << 20 })
	retractNow(t, log, a, tx.ID())
	retracted(t, log, tx.ID())
	world.set(func() { clear(world.down) })
	if _, err := a.client.RetryResidue(ctx, tx.ID(), 0, true); problemIn(t, err).Code != api.CodeTool {
		t.Errorf("one that nothing undoes: %v", err)
	}
	if r := must(a.client.RetryResidue(ctx, tx.ID(), 1, false))(t); r.State != "resolved" {
		t.Errorf("tried again: %+v", r)
	}
	world.expect(t, "unmail x", "stage y", "back y")
}

// Two who try the same residue again at once make one call.
func TestRetryAtOnce(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), quick(world)), start(t, "b", log.Door(), quick(world))
	ctx := background(t)
	world.set(func() { world.down["unmail"] = 1 << 20 })
	done := must(a.client.Do(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t)
	a.final(ctx, t, done.Tx)
	b.final(ctx, t, done.Tx)
	block := make(chan struct{})
	world.set(func() { clear(world.down); world.block["unmail"] = block })
	var both sync.WaitGroup
	for _, r := range []*rig{a, b} {
		both.Go(func() { _, _ = r.client.RetryResidue(ctx, done.Tx, 0, true) })
	}
	<-world.entered
	awaitKind(ctx, t, log, sequencer.OutcomeWaiting)
	close(block)
	both.Wait()
	world.expect(t, "unmail x")
}

// A try that is not answered may have happened: what it names counts as written.
func TestRetryUnanswered(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	world.set(func() { world.down["mail"] = 3 })
	done := must(a.client.Do(ctx, "mail", at{At: "x", Key: "k"}, client.EffectOptions{}))(t)
	a.final(ctx, t, done.Tx)
	world.set(func() { clear(world.down); world.lose["mail"] = 1 })
	before := log.Seq()
	if _, err := a.client.RetryResidue(ctx, done.Tx, 0, false); problemIn(t, err).Code != api.CodeToolUnreachable {
		t.Errorf("not answered: %v", err)
	}
	world.expect(t, "mail x")
	written := func() bool {
		for _, o := range log.Outcomes() {
			for _, w := range o.Writes {
				if o.Seq > before && w.Scope == "thing:/x" {
					return true
				}
			}
		}
		return false
	}
	if err := log.Until(ctx, written); err != nil {
		t.Errorf("the try is no write of what it may have moved: %v", err)
	}
}
