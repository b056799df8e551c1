package agent

import (
	"context"
	"sync"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// namesake lets the first intent of a kind come to the log after another's of the same number, which is refused.
type namesake struct {
	*memlog.Door
	log   *memlog.Log
	kind  sequencer.IntentKind
	other sequencer.Seq // the other's incarnation
	lost  error         // what becomes of the intent itself; nil: it is appended
	once  *sync.Once
}

func (d namesake) Append(ctx context.Context, workspace string, in *sequencer.Intent) (int64, error) {
	var err error
	if in.Kind == d.kind {
		d.once.Do(func() {
			first := *in
			first.Agent, first.Incarnation = "b", d.other
			if _, err = d.log.Add(&first); err == nil {
				err = d.lost
			}
		})
	}
	if err != nil {
		return 0, err
	}
	return d.Door.Append(ctx, workspace, in)
}

// A settlement is not given up because one of the same number was refused: a former process's, or another agent's.
func TestRefusedSettleOfAnother(t *testing.T) {
	log, world := newLog(), newSink()
	other := stranger(t, log, "b")
	a := start(t, "a", namesake{log.Door(), log, sequencer.IntentSettle, other, memlog.ErrLost, new(sync.Once)},
		quick(world))
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Effect(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t)
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	world.expect(t, "mail x")
}

// Of two who ask for one retraction at the same seq, one whose lease is over, the other gets its own answer.
func TestRefusedRetractOfAnother(t *testing.T) {
	log := newLog()
	other := stranger(t, log, "b")
	endLease(t, log, other)
	a := start(t, "a", namesake{log.Door(), log, sequencer.IntentRetract, other, nil, new(sync.Once)})
	ctx := background(t)
	put := must(a.client.Put(ctx, "shard:/x", []byte("x"), client.WriteOptions{}))(t)
	if r, err := a.client.Retract(ctx, put.Tx, "", false); err != nil || len(r.Cone) != 1 {
		t.Errorf("asked for: %+v, %v", r, err)
	}
}
