package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// ruled changes the rules of a log.
func ruled(t *testing.T, log *memlog.Log, version uint32, change func(*sequencer.Rules)) {
	t.Helper()
	r := sequencer.DefaultRules()
	r.Version, r.Logic = version, sequencer.Logic
	change(&r)
	if _, err := log.Add(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &r}); err != nil {
		t.Fatal(err)
	}
}

// A changed tool for which the log has no room is not registered, and the server's other tools stay; a plan on the
// tool as it was does not commit.
func TestToolWithoutRoom(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), withTools(newSink()))
	ctx := background(t)
	must(a.client.PutTool(ctx, "", "search", "s1"))(t)
	must(a.client.PutTool(ctx, "", "read", "r1"))(t)
	ruled(t, log, 1, func(r *sequencer.Rules) {
		r.MaxBytes, r.MaxInline, r.MaxInlineTotal, r.MaxKept = 700, 0, 0, 1<<16
	})
	_, err := a.client.PutTool(ctx, "", "search", strings.Repeat("s", 690))
	if problemCode(err) != api.CodeLimit {
		t.Errorf("the changed tool: %v", err)
	}
	sealed := func(name, signature string) client.Decision {
		tx := open(ctx, t, a, client.BeginOptions{})
		return must(tx.SealPinned(ctx, []client.Pin{{Name: name, Signature: signature}}))(t)
	}
	if d := sealed("search", "s1"); d.Code != string(sequencer.CodePhantomTool) {
		t.Errorf("a plan on the tool as it was: %+v", d)
	}
	if d := sealed("read", "r1"); d.State != api.StateCommitted {
		t.Errorf("a plan on another tool of the server: %+v", d)
	}
	must(a.client.PutTool(ctx, "", "search", "s3"))(t)
	if d := sealed("search", "s3"); d.State != api.StateCommitted {
		t.Errorf("once there is room: %+v", d)
	}
}

// A settlement that the log refuses for its scopes is not the last: the transaction is settled as unresolved.
func TestForeignScopesAreNotTheEnd(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), withTools(world))
	ctx := background(t)
	gateway := make(chan struct{})
	world.set(func() { world.block["mail"] = gateway })
	tx := open(ctx, t, a, client.BeginOptions{})
	must(tx.Effect(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t)
	must(tx.Seal(ctx))(t)
	<-world.entered
	s := a.session
	id := sequencer.TxID(tx.ID())
	foreign := gate.Settlement{Effects: []sequencer.Settled{{Scopes: []sequencer.Scope{"res:/other"},
		Result: sequencer.ResultLeaked}}}
	if err := inside(s, func() error { return s.settlements().Append(ctx, id, foreign) }); err != nil {
		t.Fatal(err)
	}
	if last := log.Outcomes()[log.Seq()-1]; last.Code != sequencer.CodeWrongScopes {
		t.Fatalf("the foreign settlement: %s %s", last.Kind, last.Code)
	}
	if err := inside(s, func() error { return s.settlements().Settle(ctx, id) }); err != nil {
		t.Fatal(err)
	}
	a.final(ctx, t, tx.ID())
	close(gateway)
	if !slices.ContainsFunc(log.Residue(), func(r topology.Residue) bool {
		return string(r.Tx) == tx.ID() && strings.Contains(r.Detail, "not its own")
	}) {
		t.Errorf("residue: %+v", log.Residue())
	}
}

// What two transactions changed while the workspace observed is on the list of residues once it enforces, though both
// were undone.
func TestObservedTogether(t *testing.T) {
	log, world := newLog(), newSink()
	a, b := start(t, "a", log.Door(), withTools(world)), start(t, "b", log.Door(), withTools(world))
	ctx := background(t)
	ruled(t, log, 1, func(r *sequencer.Rules) { r.Observe = true })
	at1 := log.Seq()
	for _, r := range []*rig{a, b} {
		if err := r.view.Reach(ctx, at1); err != nil {
			t.Fatal(err)
		}
	}
	one, two := open(ctx, t, a, client.BeginOptions{}), open(ctx, t, b, client.BeginOptions{})
	must(one.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	must(two.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	ruled(t, log, 2, func(*sequencer.Rules) {})
	a.final(ctx, t, one.ID())
	b.final(ctx, t, two.ID())
	for _, tx := range []*client.Tx{one, two} {
		if d := must(tx.Status(ctx, 0))(t); d.Code != string(sequencer.CodeRulesChanged) || !d.Retryable {
			t.Errorf("%s: %+v", tx.ID(), d)
		}
	}
	listed := func() bool {
		found := map[string]bool{}
		for _, r := range log.Residue() {
			if r.Tool == "observed" && r.Result == sequencer.ResultUnresolved {
				found[string(r.Tx)] = true
			}
		}
		return found[one.ID()] && found[two.ID()]
	}
	if err := log.Until(ctx, listed); err != nil {
		t.Errorf("residue: %+v: %v", log.Residue(), err)
	}
}

// A retraction behind a transaction of an agent that is gone comes to its end: the log says what it waits for, and a
// sidecar adopts that.
func TestRetractionBehindOrphan(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world))
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}))(t)
	must(tx.Seal(ctx))(t)
	a.final(ctx, t, tx.ID())
	inc := stranger(t, log, "gone")
	var scopes []sequencer.Want
	for _, o := range log.Outcomes() {
		if o.Kind == sequencer.OutcomeCommitted {
			for _, w := range o.Writes {
				scopes = append(scopes, sequencer.Want{Scope: w.Scope, Access: sequencer.WriteAccess})
			}
		}
	}
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentTouch, Tx: "gone.9.1", N: 1, Agent: "gone", Incarnation: inc,
		Base: log.Seq(), Begin: &sequencer.Begin{}, Touch: &sequencer.Touch{Wants: scopes}}))(t)
	must(a.client.Retract(ctx, tx.ID(), "wrong", false))(t)
	endLease(t, log, inc)
	if err := log.Until(ctx, func() bool {
		return slices.ContainsFunc(log.Outcomes(), func(o *sequencer.Outcome) bool {
			return o.Kind == sequencer.OutcomeSettled && string(o.Tx) == tx.ID() && o.Retraction != ""
		})
	}); err != nil {
		t.Fatalf("the retraction stands: %v", err)
	}
	if got := adopters(log, "gone.9.1"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("adopted by %v", got)
	}
	world.expect(t, "set x", "back x")
}

// A retraction that is refused says why, and nothing of a transaction that stands as it did.
func TestRetractWhileObserving(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), withTools(newSink()))
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	if err := tx.Write(ctx, "shard:/x", []byte("1"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	must(tx.Seal(ctx))(t)
	ruled(t, log, 1, func(r *sequencer.Rules) { r.Observe = true })
	_, err := a.client.Retract(ctx, tx.ID(), "wrong", false)
	if problemCode(err) != string(sequencer.CodeNotWhileObserving) || strings.Contains(err.Error(), "is open") ||
		!strings.Contains(err.Error(), "is not retracted: the workspace observes") {
		t.Errorf("refused with %v", err)
	}
	ruled(t, log, 2, func(*sequencer.Rules) {})
	if got := must(a.client.Retract(ctx, tx.ID(), "wrong", false))(t); got.State == api.RetractPossible {
		t.Errorf("once it enforces: %+v", got)
	}
}
