package agent

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

// final waits until a transaction is settled.
func (r *rig) final(ctx context.Context, t *testing.T, tx string) {
	t.Helper()
	done := func() bool {
		seen, ok := r.view.Transaction(sequencer.TxID(tx))
		return ok && seen.Final
	}
	if err := r.session.eventually(ctx, done); err != nil {
		t.Fatalf("%s is not final: %v", tx, err)
	}
}

// Two agents of one name, each on a log or in a workspace of its own, have the same transactions; a sink that both
// call takes neither's call for the other's.
func TestKeysOfTwoLogs(t *testing.T) {
	world := newSink()
	ctx := background(t)
	for i, where := range []string{"x", "y"} {
		a := start(t, "a", newLog().Door(), withTools(world))
		tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		if tx.ID() != "a.1.1" {
			t.Fatalf("log %d: the first transaction is %s", i, tx.ID())
		}
		must(tx.Effect(ctx, "set", at{At: where}, client.EffectOptions{}))(t)
		must(tx.Effect(ctx, "charge", at{At: where}, client.EffectOptions{}))(t)
		if err := tx.Abort(ctx, "over"); err != nil {
			t.Fatal(err)
		}
		a.final(ctx, t, tx.ID())
	}
	world.expect(t, "set x", "charge x", "back x", "back x", "set y", "charge y", "back y", "back y")
}

// An eager call runs before the commit, a held one after it, and the world sees each once.
func TestEffects(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), withTools(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	looked := must(tx.Effect(ctx, "look", at{At: "x"}, client.EffectOptions{}))(t)
	if looked.State != api.EffectDone || looked.Index != nil {
		t.Errorf("the read: %+v", looked)
	}
	set := must(tx.Effect(ctx, "set", at{At: "a"}, client.EffectOptions{}))(t)
	if set.State != api.EffectDone || string(set.Result) != `"set a"` || *set.Index != 0 {
		t.Errorf("the eager call: %+v", set)
	}
	mail := must(tx.Effect(ctx, "mail", at{At: "b", Key: "k"}, client.EffectOptions{}))(t)
	if mail.State != api.EffectHeld || mail.Note == "" || *mail.Index != 1 || mail.Key != "k" {
		t.Errorf("the irreversible call: %+v", mail)
	}
	stage := must(tx.Effect(ctx, "stage", at{At: "c"}, client.EffectOptions{}))(t)
	if stage.State != api.EffectStaged || *stage.Index != 2 {
		t.Errorf("the bufferable call: %+v", stage)
	}
	world.expect(t, "look x", "set a")
	d := must(tx.Seal(ctx))(t)
	if d.State != api.StateCommitted {
		t.Fatalf("decided: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	world.expect(t, "look x", "set a", "mail b", "stage c")
	list := must(tx.Effects(ctx))(t)
	var states []string
	for _, e := range list.Effects {
		states = append(states, e.State)
	}
	want := []string{api.EffectDone, api.EffectReleased, api.EffectReleased}
	if !slices.Equal(states, want) || !list.Final {
		t.Errorf("the list: %+v", list)
	}
	var kinds map[topology.EventKind]int
	all := func() bool {
		kinds = map[topology.EventKind]int{}
		for _, ev := range log.Events() {
			kinds[ev.Kind]++
		}
		return kinds[topology.EventEffect] == 3 && kinds[topology.EventRead] == 1 && kinds[topology.EventAnswer] == 3
	}
	if err := log.Until(ctx, all); err != nil {
		t.Errorf("events: %v", kinds)
	}
}

// A one-shot call is a transaction of its own.
func TestOneShot(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), withTools(world))
	ctx := background(t)
	done := must(a.client.Do(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t)
	if done.Decision.State != api.StateCommitted || done.Effect.Tool != "mail" {
		t.Fatalf("done: %+v", done)
	}
	a.final(ctx, t, done.Tx)
	world.expect(t, "mail x")
	done = must(a.client.Do(ctx, "look", at{At: "x"}, client.EffectOptions{}))(t)
	if done.Decision.State != api.StateCommitted || string(done.Effect.Result) != `"look x"` {
		t.Fatalf("a read: %+v", done)
	}
}

// An abort undoes what ran, the last first, and drops what was held.
func TestAbortCompensates(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), withTools(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	for _, where := range []string{"a", "b", "c"} {
		must(tx.Effect(ctx, "set", at{At: where}, client.EffectOptions{}))(t)
		must(tx.Effect(ctx, "mail", at{At: where}, client.EffectOptions{}))(t)
	}
	if err := tx.Abort(ctx, "changed its mind"); err != nil {
		t.Fatal(err)
	}
	a.final(ctx, t, tx.ID())
	world.expect(t, "set a", "set b", "set c", "back c", "back b", "back a")
	for _, e := range must(tx.Effects(ctx))(t).Effects {
		want := api.EffectUndone
		if e.Class == "irreversible" {
			want = api.EffectDropped
		}
		if e.State != want {
			t.Errorf("%+v, want %s", e, want)
		}
	}
}

// No transaction overwrites a scope whose compensation is pending, and none commits on what is compensated away.
func TestPendingCompensationHolds(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), withTools(world)), start(t, "b", log.Door(), withTools(world))
	ctx := background(t)
	first := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(first.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	reader := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	must(reader.Effect(ctx, "look", at{At: "x"}, client.EffectOptions{}))(t)

	open := make(chan struct{})
	world.set(func() { world.block["back"] = open })
	if err := first.Abort(ctx, ""); err != nil {
		t.Fatal(err)
	}
	<-world.entered // the compensation is under way
	second := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	done := make(chan error, 1)
	go func() {
		_, err := second.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{})
		done <- err
	}()
	waits := func() bool {
		seen, ok := a.view.Transaction(sequencer.TxID(second.ID()))
		return ok && seen.Waiting != nil
	}
	if err := a.session.eventually(ctx, waits); err != nil {
		t.Fatal(err)
	}
	world.expect(t, "set x", "look x")
	world.set(func() { delete(world.block, "back") })
	close(open)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	world.expect(t, "set x", "look x", "back x", "set x")
	if d := must(reader.Seal(ctx))(t); d.State != api.StateAborted {
		t.Errorf("who read the value that was compensated away: %+v", d)
	}
}

// A request that waits for longer than one may is sent again under its key, and its call is made once.
func TestCallOutlastsRequest(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), withTools(world), func(c *setup) { c.Limits.WaitMost = 30 * time.Millisecond })
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	block, done := make(chan struct{}), make(chan error, 1)
	world.set(func() { world.block["set"] = block })
	go func() {
		_, err := tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{})
		done <- err
	}()
	busy := time.After(testWait)
	for entered := false; !entered || busy != nil; {
		select {
		case err := <-done:
			t.Fatalf("it was answered while the tool was busy: %v", err)
		case <-world.entered:
			entered, busy = true, time.After(100*time.Millisecond)
		case <-busy: // the request has ended by then, and was sent again
			if busy = nil; !entered {
				t.Fatal("the tool was not called")
			}
		}
	}
	world.set(func() { delete(world.block, "set") })
	close(block)
	if err := <-done; err != nil {
		t.Error(err)
	}
	world.expect(t, "set x")
}
