package agent

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

// Of two held calls of one transaction the later one was made by hand first. A turn undoes them by index, so the
// compensation of the other one would put back what the later one wrote: it is residue.
func TestRetractMadeOutOfOrder(t *testing.T) {
	for name, c := range map[string]struct {
		order []uint32
		want  []string
	}{
		"as issued": {[]uint32{0, 1}, []string{"stage x", "stage x/y", "back x/y", "back x"}},
		"reversed":  {[]uint32{1, 0}, []string{"stage x/y", "stage x", "back x/y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, world := newLog(), newSink()
			a, ctx := start(t, "a", log.Door(), quick(world)), background(t)
			world.set(func() { world.deny["stage"] = true })
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			must(tx.Effect(ctx, "stage", at{At: "x"}, client.EffectOptions{Key: "k0"}))(t)
			must(tx.Effect(ctx, "stage", at{At: "x/y"}, client.EffectOptions{Key: "k1"}))(t)
			must(tx.Seal(ctx))(t)
			a.final(ctx, t, tx.ID())
			world.set(func() { clear(world.deny) })
			for _, index := range c.order {
				must(a.client.RetryResidue(ctx, tx.ID(), index, false))(t)
			}
			retractNow(t, log, a, tx.ID())
			retracted(t, log, tx.ID())
			world.expect(t, c.want...)
			for _, r := range log.Residue() {
				left := len(c.want) == 3 && r.Index == 0
				if left != (r.State == topology.ResidueOpen) || left && !strings.Contains(r.Detail, "effect 1") {
					t.Errorf("the list: %+v", r)
				}
			}
		})
	}
}

// A held call runs at the commit, after all that ran at once: a turn undoes it first, whatever its index is, and also
// where it was made by hand later still.
func TestRetractHeldFirst(t *testing.T) {
	for name, byHand := range map[string]bool{"at the commit": false, "by hand": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, world := newLog(), newSink()
			a, ctx := start(t, "a", log.Door(), quick(world)), background(t)
			world.set(func() { world.deny["stage"] = byHand })
			tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
			must(tx.Effect(ctx, "stage", at{At: "x"}, client.EffectOptions{Key: "k0"}))(t)
			must(tx.Effect(ctx, "set", at{At: "x/y"}, client.EffectOptions{}))(t)
			must(tx.Seal(ctx))(t)
			a.final(ctx, t, tx.ID())
			if world.set(func() { clear(world.deny) }); byHand {
				must(a.client.RetryResidue(ctx, tx.ID(), 0, false))(t)
			}
			retractNow(t, log, a, tx.ID())
			retracted(t, log, tx.ID())
			world.expect(t, "set x/y", "stage x", "back x", "back x/y")
		})
	}
}

// A further try that was not answered may have come after another member of the cone had written the same, too.
func TestRetractCrossedUnanswered(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), quick(world)), start(t, "b", log.Door(), quick(world))
	ctx := background(t)
	world.set(func() { world.deny["stage"] = true })
	tx := must(a.client.Do(ctx, "stage", at{At: "x"}, client.EffectOptions{Key: "k"}))(t).Tx
	a.final(ctx, t, tx)
	own := must(b.client.Do(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t).Tx
	a.final(ctx, t, own)
	world.set(func() { clear(world.deny); world.lose["stage"] = 1 })
	if _, err := a.client.RetryResidue(ctx, tx, 0, false); problemCode(err) != api.CodeToolUnreachable {
		t.Fatalf("tried again: %v", err)
	}
	retractNow(t, log, a, tx)
	retracted(t, log, tx)
	world.expect(t, "set x", "stage x", "back x")
	list := log.Residue()
	if len(list) != 1 || list[0].State != topology.ResidueOpen || list[0].Result == sequencer.ResultClean ||
		!strings.Contains(list[0].Detail, own) {
		t.Errorf("the list: %+v", list)
	}
}
