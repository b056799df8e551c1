package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// A compensation survives the death of its process at any step: with a key it happens once; without one at most once,
// and then the list shows it as unresolved.
func TestUndoSurvives(t *testing.T) {
	for _, tool := range []string{"set", "unset"} {
		for _, step := range []string{diesBefore, diesCalling, diesAfter} {
			for _, journal := range []string{"with the journal", "without it"} {
				t.Run(fmt.Sprintf("%s/%s/%s", tool, step, journal), func(t *testing.T) {
					t.Parallel()
					undoSurvives(t, tool, step, journal == "with the journal")
				})
			}
		}
	}
}

func undoSurvives(t *testing.T, tool, step string, whole bool) {
	log, world := newLog(), newSink()
	leases(t, log, 13)
	door := log.Door()
	a := start(t, "a", door, quick(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, tool, at{At: "x"}, client.EffectOptions{}))(t)
	if a.session.delivery.Drain(ctx) > 0 {
		t.Fatal("events are not published")
	}
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	if step == diesCalling {
		world.set(func() { world.block["back"] = make(chan struct{}) })
	}
	short, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = tx.Abort(short, "") }()
	awaitKind(ctx, t, log, sequencer.OutcomeAborted)
	if step == diesAfter {
		door.FailAppends(1 << 30)
	}
	if step != diesBefore {
		door.Release()
	}
	switch step {
	case diesCalling:
		<-world.entered
	case diesAfter:
		a.marked(ctx, t, log, gate.StepUndone)
	}
	cancel()
	<-ended
	journal := a.die(t, door)
	world.set(func() { clear(world.block) })
	if !whole {
		journal = nil
	}
	b := reborn(t, log, "a", journal, quick(world)).aloneNow()
	b.final(ctx, t, tx.ID())
	clean := tool == "set" || step == diesAfter || step == diesBefore && whole
	if clean {
		world.expect(t, tool+" x", "back x")
	} else {
		world.expect(t, tool+" x")
	}
	if list := log.Residue(); clean != (len(list) == 0) || !clean && list[0].Result != sequencer.ResultUnresolved {
		t.Errorf("the list of residues: %+v", list)
	}
}

func awaitKind(ctx context.Context, t *testing.T, log interface {
	Until(context.Context, func() bool) error
	Outcomes() []*sequencer.Outcome
}, kind sequencer.OutcomeKind) {
	t.Helper()
	seen := func() bool {
		return slices.ContainsFunc(log.Outcomes(), func(o *sequencer.Outcome) bool { return o.Kind == kind })
	}
	if err := log.Until(ctx, seen); err != nil {
		t.Fatalf("no decision of kind %v: %v", kind, err)
	}
}

// A call whose answer is lost is repeated under its key; without one the transaction can only be aborted, and the list
// shows the call as unresolved.
func TestLostAnswers(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	world.set(func() { world.lose["set"], world.lose["unset"] = 1, 1 })
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	if r := must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t); r.State != api.EffectDone {
		t.Errorf("with a key: %+v", r)
	}
	_, err := tx.Effect(ctx, "unset", at{At: "y"}, client.EffectOptions{})
	if p := problemIn(t, err); p.Code != string(sequencer.CodeToolFailed) || p.Decision == nil {
		t.Errorf("without a key: %+v", p)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateAborted || d.Code != string(sequencer.CodeToolFailed) {
		t.Errorf("the seal: %+v", d)
	}
	a.final(ctx, t, tx.ID())
	world.expect(t, "set x", "unset y", "back x")
	list := must(a.client.Residue(ctx, client.ResidueQuery{State: "open"}))(t)
	if len(list.Items) != 1 || list.Items[0].Result != "unresolved" || list.Items[0].Tool != "unset" {
		t.Errorf("the list of residues: %+v", list)
	}
}

// A tool that refuses did nothing, and the transaction goes on.
func TestToolRefuses(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	world.set(func() { world.deny["set"] = true })
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	r := must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	if r.State != api.EffectFailed || !strings.Contains(r.Detail, "no") {
		t.Errorf("the receipt: %+v", r)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("the seal: %+v", d)
	}
	world.expect(t)
}

// A lease that ends while a release is under way stops nothing for good: the sidecar joins again and finishes it.
func TestLeaseEndsInSettlement(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	block := make(chan struct{})
	world.set(func() { world.block["mail"] = block })
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t)
	must(tx.Seal(ctx))(t)
	<-world.entered
	former := a.session.inc()
	for ended := false; !ended; {
		if err := log.Tick(1); err != nil {
			t.Fatal(err)
		}
		for _, o := range log.Outcomes() {
			ended = ended || o.Kind == sequencer.OutcomeLeaseEnded
		}
	}
	if err := a.session.eventually(ctx, func() bool { return a.session.liveIncarnation() > former }); err != nil {
		t.Fatal(err)
	}
	world.set(func() { delete(world.block, "mail") })
	close(block)
	a.final(ctx, t, tx.ID())
	world.expect(t, "mail x")
	if list := log.Residue(); len(list) > 0 {
		t.Errorf("the list of residues: %+v", list)
	}
}

// A sidecar that waits for an orphan adopts it after a while, undoes what it did and goes on.
func TestAdoption(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	b := start(t, "b", log.Door(), quick(world), func(c *setup) { c.Limits.RenewEvery = time.Millisecond })
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	if a.session.delivery.Drain(ctx) > 0 {
		t.Fatal("events are not published")
	}
	a.die(t, door)
	next := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
	done := make(chan error, 1)
	go func() {
		_, err := next.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{})
		done <- err
	}()
	awaitKind(ctx, t, log, sequencer.OutcomeWaiting)
	beat := time.NewTicker(4 * time.Millisecond)
	defer beat.Stop()
	for waiting := true; waiting; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			waiting = false
		case <-beat.C:
			if err := log.Tick(1); err != nil { // time goes on: the lease of a ends, that of b is renewed
				t.Fatal(err)
			}
			if err := b.view.Reach(ctx, log.Seq()); err != nil {
				t.Fatal(err)
			}
		}
	}
	awaitKind(ctx, t, log, sequencer.OutcomeAdopted)
	world.expect(t, "set x", "back x", "set x")
	if d := must(next.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("decided: %+v", d)
	}
}

// A call whose transaction ends while it runs is answered with how it ended, and undone.
func TestAbortedWhileRunning(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), quick(world)), start(t, "b", log.Door(), quick(world))
	ctx := background(t)
	older := must(b.client.Begin(ctx, client.BeginOptions{Mode: "ordered"}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	block := make(chan struct{})
	world.set(func() { world.block["set"] = block })
	done := make(chan error, 1)
	go func() {
		_, err := tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{})
		done <- err
	}()
	<-world.entered
	wounder := make(chan error, 1)
	go func() {
		_, err := older.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{})
		wounder <- err
	}()
	awaitKind(ctx, t, log, sequencer.OutcomeAborted)
	world.set(func() { delete(world.block, "set") })
	inner := must(a.session.known(sequencer.TxID(tx.ID())))(t)
	wounded := func() bool {
		return inner.decided()
	}
	if err := a.session.eventually(ctx, wounded); err != nil {
		t.Fatal(err)
	}
	close(block)
	if p := problemIn(t, <-done); p.Code != string(sequencer.CodeWounded) || !strings.Contains(p.Detail, "undone") {
		t.Errorf("the call of the wounded one: %+v", p)
	}
	if err := <-wounder; err != nil {
		t.Fatal(err)
	}
	world.expect(t, "set x", "back x", "set x")
}
