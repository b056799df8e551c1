package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
)

// What was adopted while no process of the agent ran is read from the log by the next one, whose journal is whole: it
// makes no call of it. Nor of one that is in the journal and not answered any more, because others came after it.
func TestAdoptedInBetween(t *testing.T) {
	for answered, later := range map[int]int{4096: 0, 1: 1} {
		log, world := newLog(), newSink()
		door := log.Door()
		a := start(t, "a", door, quick(world))
		ctx := background(t)
		tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		must(tx.Effect(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t)
		all := []*client.Tx{tx}
		for range later {
			all = append(all, must(a.client.Begin(ctx, client.BeginOptions{}))(t))
		}
		held(t, a, log, door, all...)
		inc := a.session.inc()
		a.die(t, door)
		endLease(t, log, inc)
		other := stranger(t, log, "b")
		must(log.Add(&sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: sequencer.TxID(tx.ID()), N: 1, Agent: "b",
			Incarnation: other}))(t)
		endLease(t, log, other) // it is an orphan again, and the next join's
		a = start(t, "a", log.Door(), quick(world), inFolder(a.config.DataDir),
			func(c *setup) { c.Limits.Decided = answered })
		a.final(ctx, t, tx.ID())
		world.expect(t)
		if list := log.Residue(); len(list) != 1 || list[0].Result != sequencer.ResultUnresolved {
			t.Errorf("with %d answered, residue: %+v", answered, list)
		}
	}
}

// The time that an agent has to say what it did by itself begins again with each start: nothing is settled sooner,
// and what it says then counts.
func TestOwnWaitsAgain(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	touch(ctx, t, tx, writes("order:/1"))
	waits := func(r *rig) func() bool {
		return func() bool {
			defer r.session.stand()()
			until := r.session.settlements().AgentUntil(sequencer.TxID(tx.ID()))
			return until.After(time.Now().Add(time.Minute))
		}
	}
	for range 2 {
		a = a.crash(t, log.Door(), nil)
		comes(ctx, t, "it waits for the agent", waits(a))
	}
	undone := []client.SettledEffect{{Scopes: []string{"order:/1"}, Result: "clean"}}
	if d := must(a.client.Tx(tx.ID()).Settle(ctx, undone, true))(t); !d.Final {
		t.Errorf("said: %+v", d)
	}
	if list := log.Residue(); len(list) != 0 {
		t.Errorf("residue: %+v", list)
	}
}

// Numbers of intents, of settlements, of transactions and of catalogues begin again at each start, and none is taken
// for one of the start before: each has its own incarnation.
func TestRestartNumbersAnew(t *testing.T) {
	log, world := newLog(), newSink()
	ctx := background(t)
	a := start(t, "a", log.Door(), quick(world))
	var want []string
	for n := range 4 {
		if n > 0 {
			a = start(t, "a", log.Door(), quick(world), inFolder(a.copied(t, nil)))
		}
		r := start(t, fmt.Sprint("r", n), log.Door())
		signature := fmt.Sprint("signature ", n)
		if tool := must(a.client.PutTool(ctx, "mine", "tool", signature))(t); tool.Signature != signature {
			t.Errorf("start %d: the tool is %+v", n, tool)
		}
		for _, where := range []string{"x", "y"} {
			done := must(a.client.Do(ctx, "unmail", at{At: where}, client.EffectOptions{}))(t)
			a.final(ctx, t, done.Tx)
			want = append(want, "unmail "+where)
		}
		must(r.client.Put(ctx, "shard:/x", nil, client.WriteOptions{}))(t)
		put := must(a.client.Put(ctx, "shard:/y", nil, client.WriteOptions{}))(t)
		if got := must(a.client.Retract(ctx, put.Tx, "", false))(t); len(got.Cone) != 1 {
			t.Errorf("start %d: retracted %+v", n, got)
		}
	}
	world.expect(t, want...)
}
