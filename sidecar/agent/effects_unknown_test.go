package agent

import (
	"encoding/json"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// While it is not known what became of a call, no later one of its transaction moves the same: the first may have to
// be repeated, and would then overtake it. Here it had begun when its session's lease was too short to repeat it.
func TestCallAfterUnknown(t *testing.T) {
	log, world := newLog(), newSink()
	a, ctx := start(t, "a", log.Door(), quick(world)), background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	err := inside(a.session, func() error {
		s, own := a.session, a.session.txs[sequencer.TxID(tx.ID())]
		args := json.RawMessage(`{"at":"x"}`)
		e := gate.Effect{Tx: own.id, Incarnation: own.incarnation, Tool: must(s.tools.Find("charge", args))(t),
			Key: "k", Args: args}
		i := must(s.issue(ctx, own, e))(t)
		if err := s.mayRun(ctx, own, i); err != nil {
			return err
		}
		return s.marks.Mark(gate.Mark{Tx: own.id, Index: 0, Step: gate.StepStarted})
	})
	if err != nil {
		t.Fatal(err)
	}
	must(tx.Effect(ctx, "set", at{At: "y"}, client.EffectOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("sealed: %+v", d)
	}
	world.expect(t, "set y", "charge x", "set x")
}
