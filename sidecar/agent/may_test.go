package agent

import (
	"context"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// sealing seals a transaction in the background.
func sealing(ctx context.Context, t *testing.T, tx *client.Tx) chan client.Decision {
	decided := make(chan client.Decision, 1)
	go func() {
		d, err := tx.Seal(ctx)
		if err != nil {
			t.Error(err)
		}
		decided <- d
	}()
	return decided
}

// sealLater seals a transaction and returns once it waits in the log.
func sealLater(ctx context.Context, t *testing.T, r *rig, tx *client.Tx) chan client.Decision {
	t.Helper()
	decided := sealing(ctx, t, tx)
	waits := func() bool {
		seen, ok := r.view.Transaction(sequencer.TxID(tx.ID()))
		return ok && seen.Waiting != nil
	}
	if err := r.session.eventually(ctx, waits); err != nil {
		t.Fatalf("%s does not wait: %v", tx.ID(), err)
	}
	return decided
}

// What an ordered transaction claims at its begin is kept from younger transactions until its seal has narrowed it.
func TestMayBindsTheYounger(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door(), withPolicy(t, notesPolicy)), start(t, "b", log.Door())
	ctx := background(t)
	old := open(ctx, t, a, client.BeginOptions{Mode: "ordered", May: writes("order:/1", "order:/1"),
		Tools: []client.PlannedCall{{Tool: "note"}}}) // without its arguments: all notes
	touches := open(ctx, t, b, client.BeginOptions{Mode: "ordered"})
	short := 30 * time.Millisecond
	got := must(touches.Touch(ctx, writes("order:/1"), client.TouchOptions{Wait: &short}))(t)
	if got.State != api.TouchWaiting || len(got.BlockedBy) != 1 || got.BlockedBy[0].Tx != old.ID() {
		t.Errorf("a touch of what is claimed: %+v", got)
	}
	put := open(ctx, t, b, client.BeginOptions{})
	if err := put.Write(ctx, "shard:/notes/9", []byte("x"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	decided := sealLater(ctx, t, b, put)
	free := open(ctx, t, b, client.BeginOptions{})
	if err := free.Write(ctx, "shard:/free", []byte("x"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := must(free.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("what nobody claims: %+v", d)
	}
	must(old.Effect(ctx, "note", noteArgs{"1", "x"}, client.EffectOptions{}))(t)
	if d := must(old.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("the older one: %+v", d)
	}
	if d := <-decided; d.State != api.StateCommitted {
		t.Errorf("after the claim: %+v", d)
	}
	if got := touch(ctx, t, touches, writes("order:/1")); got.State != api.TouchGranted {
		t.Errorf("after the claim: %+v", got)
	}
	if d := must(touches.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("the younger one: %+v", d)
	}
}

// A footprint beyond what was claimed is refused; the attempt that is locked claims nothing.
func TestMayIsTheFootprint(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), withPolicy(t, notesPolicy), func(c *setup) { c.Limits.LockedAfter = 2 })
	ctx := background(t)
	within := client.BeginOptions{Mode: "ordered", May: []client.Want{{Scope: "shard:/a/**", Access: "write"},
		{Scope: "shard:/b", Access: "read"}}}
	for _, c := range []struct {
		read, write, code string
	}{
		{"shard:/a/1", "shard:/a/2", ""}, {"shard:/b", "shard:/a/1", ""},
		{"shard:/b", "shard:/b", "incomplete_footprint"}, {"shard:/c", "shard:/a/1", "incomplete_footprint"},
	} {
		tx := open(ctx, t, a, within)
		must(tx.Read(ctx, c.read))(t)
		if err := tx.Write(ctx, c.write, []byte("x"), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if d := must(tx.Seal(ctx))(t); d.Code != c.code {
			t.Errorf("%+v: %+v", c, d)
		}
	}
	tx := open(ctx, t, a, within)
	for _, want := range []string{"ordered", "locked"} {
		must(tx.Effect(ctx, "note", noteArgs{"1", "x"}, client.EffectOptions{}))(t)
		if d := must(tx.Seal(ctx))(t); d.Code != "incomplete_footprint" {
			t.Fatalf("a tool outside: %+v", d)
		}
		if tx = must(tx.Retry(ctx))(t); tx.Opened().Mode != want {
			t.Fatalf("tried again in mode %s, want %s", tx.Opened().Mode, want)
		}
	}
	must(tx.Effect(ctx, "note", noteArgs{"1", "x"}, client.EffectOptions{}))(t)
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("locked, without a claim: %+v", d)
	}
}

// An eager call runs under what was claimed for its tool.
func TestMayOfEagerCall(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), withTools(world))
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{Mode: "ordered", May: writes("thing:/**")})
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	must(tx.Effect(ctx, "look", at{At: "y"}, client.EffectOptions{}))(t)
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("decided: %+v", d)
	}
	world.expect(t, "set x", "look y")
}

// A claim that cannot be made is refused at the begin, and nothing is begun.
func TestMayRefused(t *testing.T) {
	log, world := newLog(), newSink()
	plain, tools := start(t, "a", log.Door()), start(t, "b", log.Door(), withTools(world))
	notes := start(t, "c", log.Door(), withPolicy(t, notesPolicy))
	ctx := background(t)
	planned := func(tool string, args any) client.BeginOptions {
		return client.BeginOptions{Mode: "ordered", Tools: []client.PlannedCall{{Tool: tool, Args: args}}}
	}
	mode := func(name string, o client.BeginOptions) client.BeginOptions { o.Mode = name; return o }
	claim := client.BeginOptions{May: writes("order:/1")}
	before := log.Seq()
	for i, c := range []struct {
		by   *rig
		o    client.BeginOptions
		code string
	}{
		{plain, claim, api.CodeBadRequest}, {plain, mode("optimistic", claim), api.CodeBadRequest},
		{plain, mode("locked", claim), api.CodeBadRequest},
		{notes, mode("locked", planned("note", nil)), api.CodeBadRequest},
		{plain, mode("ordered", client.BeginOptions{May: writes("order")}), api.CodeBadScope},
		{plain, client.BeginOptions{Mode: "ordered", May: []client.Want{{Scope: "order:/1", Access: "own"}}},
			api.CodeBadRequest},
		{plain, planned("note", nil), api.CodeNoPolicy}, {tools, planned("set", at{At: "x"}), api.CodeTool},
		{notes, planned("", nil), api.CodeBadRequest}, {notes, planned("note", []int{1}), api.CodeBadRequest},
		{notes, planned("notes", nil), api.CodeTool}, {notes, planned("note", map[string]int{"other": 1}), api.CodeTool},
	} {
		if _, err := c.by.client.Begin(ctx, c.o); problemCode(err) != c.code {
			t.Errorf("%d: begin answers %v, want %s", i, err, c.code)
		}
		if _, err := c.by.client.Speculate(ctx, 2, c.o); problemCode(err) != c.code {
			t.Errorf("%d: a group answers %v, want %s", i, err, c.code)
		}
	}
	for _, o := range log.Outcomes() {
		if o.Kind == sequencer.OutcomeBegun && o.Seq > before {
			t.Errorf("something was begun: %+v", o)
		}
	}
	g := must(notes.client.Speculate(ctx, 2, client.BeginOptions{Mode: "ordered", May: writes("order:/1")}))(t)
	if len(g.Branches()) != 2 {
		t.Errorf("a group that claims: %+v", g)
	}
}
