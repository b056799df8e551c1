package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// A call that was begun under one lease does not start under the next one of the same sidecar: in between another
// sidecar may have settled its transaction.
func TestCallOfFormerLease(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	tool := must(a.config.Tools.Find("set", []byte(`{"at":"x"}`)))(t)
	e := gate.Effect{Tx: "a.1.1", Tool: tool, Args: []byte(`{"at":"x"}`)}
	run := func(ctx context.Context) error {
		g := gate.New(gate.Options{Tools: a.config.Tools, Marks: noMarks{}, Lease: &a.session.lease})
		_, err := g.Run(ctx, e)
		return err
	}
	under := func(inc sequencer.Seq) context.Context {
		defer a.session.stand()()
		return a.session.under(background(t), inc)
	}
	former := a.live(t, 0)
	before := under(former)
	a.rejoin(t, log)
	for name, ctx := range map[string]context.Context{"begun before": before, "of a former one": under(former)} {
		if err := run(ctx); !errors.Is(err, gate.ErrLease) {
			t.Errorf("%s: %v", name, err)
		}
	}
	world.expect(t)
	if err := run(under(a.live(t, former))); err != nil {
		t.Errorf("of this one: %v", err)
	}
	world.expect(t, "set x")
}

type noMarks struct{}

func (noMarks) Mark(gate.Mark) error { return nil }
