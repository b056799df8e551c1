package agent

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// stranger joins an agent without a sidecar, and returns its incarnation.
func stranger(t *testing.T, log *memlog.Log, agent string) sequencer.Seq {
	t.Helper()
	in := &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: agent,
		Join: &sequencer.Join{ID: agent + " joins", Logic: sequencer.Logic}}
	must(log.Add(in))(t)
	var inc sequencer.Seq
	for _, o := range log.Outcomes() {
		if o.Kind == sequencer.OutcomeJoined && o.Agent == agent {
			inc = o.Incarnation
		}
	}
	return inc
}

// endLease lets time pass until an incarnation's lease has ended.
func endLease(t *testing.T, log *memlog.Log, inc sequencer.Seq) {
	t.Helper()
	for range 10_000 {
		for _, o := range log.Outcomes() {
			if o.Kind == sequencer.OutcomeLeaseEnded && o.Incarnation == inc {
				return
			}
		}
		if err := log.Tick(1); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("the lease of %d does not end", inc)
}

// endLease ends a sidecar's lease while it sees nothing of the log. By its own clock it is over as well: the log's
// ticks come faster here than a sidecar may count on.
func (r *rig) endLease(t *testing.T, log *memlog.Log) {
	t.Helper()
	endLease(t, log, r.session.inc())
	r.session.lease.end()
}

// live waits until a sidecar has a session younger than another one, and returns its incarnation.
func (r *rig) live(t *testing.T, former sequencer.Seq) (inc sequencer.Seq) {
	t.Helper()
	again := func() bool { inc = r.session.liveIncarnation(); return inc > former }
	if err := r.session.eventually(background(t), again); err != nil {
		t.Fatal(err)
	}
	return inc
}

// rejoin ends a sidecar's lease, and waits until it has another one.
func (r *rig) rejoin(t *testing.T, log *memlog.Log) {
	t.Helper()
	now := r.live(t, 0)
	r.session.lease.end()
	endLease(t, log, now)
	r.live(t, now)
}

// What was adopted while a sidecar's lease was over is not its own any more when it joins again: it makes no
// call of it.
func TestAdoptedMeanwhile(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	ctx := background(t)
	var txs []*client.Tx
	for _, where := range []string{"x", "y"} {
		tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		must(tx.Effect(ctx, "unmail", at{At: where}, client.EffectOptions{}))(t)
		txs = append(txs, tx)
	}
	held(t, a, log, door, txs...)
	a.endLease(t, log)
	other := stranger(t, log, "b")
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: sequencer.TxID(txs[0].ID()), N: 1, Agent: "b",
		Incarnation: other}))(t)
	door.Release()
	a.final(ctx, t, txs[1].ID())
	world.expect(t, "unmail y")
	endLease(t, log, other) // it is not settled: it is an orphan again, and the next join's
	a.rejoin(t, log)
	a.final(ctx, t, txs[0].ID())
	world.expect(t, "unmail y")
	if list := log.Residue(); len(list) != 1 || list[0].Result != sequencer.ResultUnresolved {
		t.Errorf("the list of residues: %+v", list)
	}
}

// What another sidecar has released in this agent's stead is compensated in the turn of a retraction, by the sidecar
// that the log names: the agent's own journal has seen no call.
func TestTurnOfAdopted(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "stage", at{At: "x"}, client.EffectOptions{}))(t)
	held(t, a, log, door, tx)
	a.endLease(t, log)
	b := start(t, "b", log.Door(), quick(world))
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: sequencer.TxID(tx.ID()), N: 1, Agent: "b",
		Incarnation: b.session.inc()}))(t)
	b.final(ctx, t, tx.ID())
	world.expect(t, "stage x")
	if b.session.delivery.Drain(ctx) > 0 {
		t.Fatal("events are not published")
	}
	gone := b.session.inc()
	_ = b.stop()
	endLease(t, log, gone)
	door.Release()
	a.live(t, gone)
	retractNow(t, log, a, tx.ID())
	awaitKind(ctx, t, log, sequencer.OutcomeTurn)
	a.rejoin(t, log)
	retracted(t, log, tx.ID())
	world.expect(t, "stage x", "back x")
}
