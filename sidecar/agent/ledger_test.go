package agent

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// A rewritten journal has the calls of settled transactions without their arguments. They come back from the log when
// such a one is retracted, also after a restart.
func TestRewrittenJournalOfSettledCalls(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world), func(c *setup) { c.Limits.JournalBytes = 1 })
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("seal: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	d := a.session.delivery
	if d.Drain(ctx) > 0 {
		t.Fatal("events are not published")
	}
	settled := func() bool {
		p, _ := a.session.delivery.Call(sequencer.TxID(tx.ID()), 0)
		return p.Args == nil
	}
	if err := a.session.eventually(ctx, settled); err != nil {
		t.Fatal(err)
	}
	d.Mu.Lock()
	d.Shortly = 0
	d.Mu.Unlock()
	if err := d.Mark(); err != nil {
		t.Fatal(err)
	}
	journal := a.die(t, door)
	if !strings.Contains(string(journal), `"Args":null`) {
		t.Error("the journal was not rewritten")
	}
	b := reborn(t, log, "a", journal, quick(world)).aloneNow()
	retractNow(t, log, b, tx.ID())
	retracted(t, log, tx.ID())
	world.expect(t, "set x", "back x")
	if list := log.Residue(); len(list) > 0 {
		t.Errorf("the list of residues: %+v", list)
	}
}
