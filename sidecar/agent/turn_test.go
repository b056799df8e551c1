package agent

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// retractNow asks the log to retract a transaction.
func retractNow(t *testing.T, log *memlog.Log, r *rig, tx string) {
	t.Helper()
	in := &sequencer.Intent{Kind: sequencer.IntentRetract, Tx: sequencer.TxID(tx), N: 1, Agent: r.config.Agent,
		Incarnation: r.session.inc()}
	must(log.Add(in))(t)
}

// A retracted transaction is undone in its turn, with what followed from it, the most recent first; what has left for
// good is on the list.
func TestTurn(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), quick(world)), start(t, "b", log.Door(), quick(world))
	ctx := background(t)
	first := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(first.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	must(first.Effect(ctx, "mail", at{At: "y"}, client.EffectOptions{}))(t)
	must(first.Seal(ctx))(t)
	b.final(ctx, t, first.ID())
	second := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	must(second.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	if d := must(second.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("decided: %+v", d)
	}
	a.final(ctx, t, first.ID())
	a.final(ctx, t, second.ID())
	retractNow(t, log, a, first.ID())
	for _, tx := range []string{first.ID(), second.ID()} {
		retracted(t, log, tx)
	}
	world.expect(t, "set x", "mail y", "set x", "back x", "back x")
	list := log.Residue()
	if len(list) != 1 || list[0].Tool != "mail" || list[0].Result != sequencer.ResultLeaked {
		t.Errorf("the list of residues: %+v", list)
	}
}

// retracted waits until a transaction's turn is settled.
func retracted(t *testing.T, log *memlog.Log, tx string) {
	t.Helper()
	done := func() bool {
		turned := false
		for _, o := range log.Outcomes() {
			if string(o.Tx) != tx {
				continue
			}
			turned = turned || o.Kind == sequencer.OutcomeTurn
			if turned && o.Kind == sequencer.OutcomeSettled {
				return true
			}
		}
		return false
	}
	if err := log.Until(background(t), done); err != nil {
		for _, o := range log.Outcomes() {
			t.Logf("%d %v %s %s %s %s", o.Seq, o.Kind, o.Tx, o.Intent, o.Code, o.Detail)
		}
		t.Fatalf("%s is not undone: %v", tx, err)
	}
}

// A turn survives the process: the next one finds the calls' marks in the journal, and what settling them took away in
// the log.
func TestTurnSurvives(t *testing.T) {
	for name, whole := range map[string]bool{"with the journal": true, "without it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, world := newLog(), newSink()
			door := log.Door()
			a := start(t, "a", door, quick(world))
			ctx := background(t)
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
			must(tx.Seal(ctx))(t)
			a.final(ctx, t, tx.ID())
			if a.session.delivery.Drain(ctx) > 0 {
				t.Fatal("events are not published")
			}
			world.set(func() { world.block["back"] = make(chan struct{}) })
			retractNow(t, log, a, tx.ID())
			<-world.entered
			journal := a.die(t, door)
			world.set(func() { clear(world.block) })
			if !whole {
				journal = nil
			}
			reborn(t, log, "a", journal, quick(world)).aloneNow()
			retracted(t, log, tx.ID())
			world.expect(t, "set x", "back x")
		})
	}
}
