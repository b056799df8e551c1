package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/view"
)

// pass lets the log's time go on at its pace until the test is over, or stop is called.
func pass(t *testing.T, log *memlog.Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		beat := time.NewTicker(view.TickLength)
		defer beat.Stop()
		for waited := sequencer.Tick(0); ; waited++ {
			if next := log.Weighs(); next > 0 && waited >= next {
				_ = log.Tick(1)
				waited = 0
			}
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
			}
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// nobodyTimes is how often the check is made; HENCE_NOBODY sets it.
func nobodyTimes(t *testing.T) int {
	t.Helper()
	text := os.Getenv("HENCE_NOBODY")
	if text == "" {
		return 2
	}
	return must(strconv.Atoi(text))(t)
}

// An agent's machine is gone after its commit: its keyed calls are at the sink within two lease times, its un-keyed
// ones on the list. Nothing waits for what they hold; the other sidecars are idle, or busy with something else.
func TestNobodyComes(t *testing.T) {
	const ticks = 16
	times := nobodyTimes(t)
	took := make(chan sequencer.Tick, times)
	t.Run("each", func(t *testing.T) {
		for n := range times {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				took <- nobodyComes(t, ticks, n)
			})
		}
	})
	close(took)
	var longest sequencer.Tick
	for one := range took {
		longest = max(longest, one)
	}
	t.Logf("%d times: the longest took %d ticks of %v, two lease times are %d", times, longest, view.TickLength, 2*ticks)
}

// leaving is an agent that goes for good, with what it leaves.
type leaving struct {
	*rig
	door *memlog.Door
	txs  []*client.Tx // a keyed call and an un-keyed one that are committed, and an eager one that is open
}

// leave begins an agent's transactions, and seals the first two while it sees no decision.
func leave(ctx context.Context, t *testing.T, log *memlog.Log, agent string, policy func(*setup)) *leaving {
	t.Helper()
	a := &leaving{door: log.Door()}
	a.rig = start(t, agent, a.door, policy)
	for _, tool := range []string{"mail", "unmail", "set"} {
		tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		must(tx.Effect(ctx, tool, at{At: tool + agent}, client.EffectOptions{}))(t)
		a.txs = append(a.txs, tx)
	}
	held(t, a.rig, log, a.door, a.txs[:2]...)
	if a.session.delivery.Drain(ctx) > 0 {
		t.Fatal("events are not published")
	}
	return a
}

// nobodyComes returns how long it took in the log's time, which passes slower where the machine has much to do.
func nobodyComes(t *testing.T, ticks sequencer.Tick, n int) (took sequencer.Tick) {
	t.Helper()
	log, world := newLog(), newSink()
	leases(t, log, ticks)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	policy := func(c *setup) { c.Tools = &testTools{sink: world, maxTime: time.Second} }
	idle := start(t, "idle", log.Door(), policy)
	busy := start(t, "busy", log.Door(), policy)
	start(t, "other", log.Door()) // it has no policy
	pass(t, log)
	var gone []*leaving
	for i := range 2 {
		gone = append(gone, leave(ctx, t, log, fmt.Sprintf("gone-%d-%d", n, i), policy))
	}
	for _, a := range gone {
		a.die(t, a.door)
	}
	now := func() sequencer.Tick { // of the last decision: the busy one keeps it young
		all := log.Outcomes()
		return all[len(all)-1].Time
	}
	for died := now(); !isSettled(idle, gone); took = now() - died {
		if took > 2*ticks {
			rows, _, err := idle.session.events.Unsettled(ctx, "default", "", 10)
			t.Fatalf("after two lease times are not settled: %+v, %v; the world saw %q", rows, err, world.world())
		}
		must(busy.client.Put(ctx, "shard:/busy", []byte("1"), client.WriteOptions{}))(t)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		_ = log.Until(short, func() bool { return isSettled(idle, gone) })
		cancel()
	}
	checkLeft(t, log, world, gone)
	return took
}

// isSettled reports whether a sidecar sees that nothing is left to do of what others have left.
func isSettled(by *rig, gone []*leaving) bool {
	for _, a := range gone {
		for _, tx := range a.txs {
			if seen, ok := by.view.Transaction(sequencer.TxID(tx.ID())); !ok || !seen.Final {
				return false
			}
		}
	}
	return true
}

// checkLeft holds what became of it: the keyed call happened, the un-keyed one is on the list, the eager one undone.
func checkLeft(t *testing.T, log *memlog.Log, world *sink, gone []*leaving) {
	t.Helper()
	var want, listed, list []string
	for _, a := range gone {
		name := a.config.Agent
		want = append(want, "set set"+name, "mail mail"+name, "back set"+name)
		listed = append(listed, a.txs[1].ID()+" unmail unresolved")
	}
	for _, r := range log.Residue() {
		list = append(list, fmt.Sprintf("%s %s %s", r.Tx, r.Tool, r.Result))
	}
	got := world.world()
	for _, texts := range [][]string{want, listed, list, got} {
		slices.Sort(texts)
	}
	if !slices.Equal(got, want) || !slices.Equal(list, listed) {
		t.Errorf("the world saw %q, want %q; on the list are %q, want %q", got, want, list, listed)
	}
}

// What no sidecar of the workspace has a tool for is on the list within a bound, though it may have left.
func TestNobodyHasThePolicy(t *testing.T) {
	for _, has := range []string{"no policy", "another policy"} {
		t.Run(has, func(t *testing.T) {
			t.Parallel()
			log, world := newLog(), newSink()
			leases(t, log, 40)
			ctx := background(t)
			door := log.Door()
			a := start(t, "a", door, quick(world))
			var txs []*client.Tx
			for _, tool := range []string{"mail", "set", "stage"} {
				tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
				must(tx.Effect(ctx, tool, at{At: tool, Key: "k"}, client.EffectOptions{}))(t)
				txs = append(txs, tx)
			}
			held(t, a, log, door, txs[0], txs[2])
			if a.session.delivery.Drain(ctx) > 0 {
				t.Fatal("events are not published")
			}
			b := start(t, "b", log.Door(), func(c *setup) {
				quick(world)(c)
				if c.Tools = nil; has == "another policy" {
					c.Tools = otherTools{}
				}
			})
			gone := a.session.inc()
			a.die(t, door)
			endLease(t, log, gone)
			var asked time.Time
			since := func(back time.Duration) {
				defer b.session.stand()()
				asked = b.session.clock.Now()
				b.session.settlements().Ended(gone, "a", asked.Add(-back))
			}
			if err := b.view.Reach(ctx, log.Seq()); err != nil {
				t.Fatal(err)
			}
			bound := b.session.settlements().Surrender()
			since(bound - 5*time.Second)
			lookedSince(ctx, b, log, asked)
			if got := adopters(log, sequencer.TxID(txs[0].ID())); len(got) > 0 {
				t.Errorf("before the bound it is adopted by %v", got)
			}
			since(bound)
			for _, tx := range txs {
				b.final(ctx, t, tx.ID())
			}
			world.expect(t, "set set")
			list := log.Residue()
			if len(list) != len(txs) {
				t.Errorf("on the list: %+v", list)
			}
			for _, r := range list {
				if r.Result != sequencer.ResultUnresolved && r.Tool != "set" || r.Agent != "a" || r.Detail == "" {
					t.Errorf("on the list: %+v", r)
				}
			}
		})
	}
}

// lookedSince returns once a sidecar has looked for orphans after a time, and is to look again.
func lookedSince(ctx context.Context, b *rig, log *memlog.Log, asked time.Time) {
	for looked := false; !looked; {
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		_ = b.view.Reach(short, log.Seq()+1)
		cancel()
		looked = inside(b.session, b.session.settlements().LooksAgain).After(asked)
	}
}

// otherTools is a policy that knows none of the tools.
type otherTools struct{ settle.NoTools }

// A sidecar whose lease ends after it has adopted a transaction settles that once it has adopted it again.
func TestAdoptedAgain(t *testing.T) {
	log, world := newLog(), newSink()
	leases(t, log, 13)
	ctx := background(t)
	tx, _ := leftBehind(t, log, world, "held")
	_, former, _, _ := api.OwnerOf(sequencer.TxID(tx))
	endLease(t, log, former)
	door := log.Door()
	b := start(t, "b", door, declared(world, "sealed"))
	inc := b.session.inc()
	door.Hold() // it sees the adoption and the end of its lease together
	b.session.loop.Run(func() { b.session.settlements().Adopt(ctx, sequencer.TxID(tx)) })
	if err := log.Until(ctx, func() bool { return len(adopters(log, sequencer.TxID(tx))) > 0 }); err != nil {
		t.Fatal(err)
	}
	endLease(t, log, inc)
	door.Release()
	b.final(ctx, t, tx)
	world.expect(t, "mail x")
	if list := log.Residue(); len(list) > 0 {
		t.Errorf("on the list: %+v", list)
	}
	adopted := 0
	for _, o := range log.Outcomes() {
		if o.Kind == sequencer.OutcomeAdopted && string(o.Tx) == tx {
			adopted++
		}
	}
	if adopted != 2 {
		t.Errorf("it was adopted %d times", adopted)
	}
}

// What was decided before a sidecar's view began, and had an owner when the sidecar looked, is adopted once the lease
// of that owner has ended: the view shows nothing of it.
func TestLeftBeforeTheView(t *testing.T) {
	log, world := newLog(), newSink()
	leases(t, log, 13)
	ctx := background(t)
	tx, _ := leftBehind(t, log, world, "undo")
	_, former, _, _ := api.OwnerOf(sequencer.TxID(tx))
	b := start(t, "b", log.Door(), declared(world, "sealed"))
	b.session.loop.Run(func() {
		s := b.session
		if s.view.Owes() {
			t.Error("the view shows what was decided before it began")
		}
		if again := s.settlements().Look(ctx, time.Hour); again != 0 {
			t.Error("what has an owner is to be adopted")
		}
	})
	endLease(t, log, former)
	b.final(ctx, t, tx)
	world.expect(t, "set x", "back x")
}
