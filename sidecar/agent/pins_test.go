package agent

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// redeclared is the policy of the tests with another signature for every tool.
type redeclared struct {
	*testTools
	signature string
}

func (p redeclared) Find(tool string, args json.RawMessage) (gate.Tool, error) {
	t, err := p.testTools.Find(tool, args)
	if t.Pin != nil {
		t.Pin.Signature = p.signature
	}
	return t, err
}

func (p redeclared) Catalogue() (string, []sequencer.Tool) {
	server, tools := p.testTools.Catalogue()
	for i := range tools {
		tools[i].Signature = p.signature
	}
	return server, tools
}

// declared gives a sidecar a policy of one signature over a sink.
func declared(s *sink, signature string) func(*setup) {
	return func(c *setup) {
		quick(s)(c)
		c.Tools = redeclared{&testTools{sink: s, maxTime: 150 * time.Millisecond, pins: true}, signature}
	}
}

// leftBehind is a transaction of agent a that is decided and not settled when its process dies: a held mail of one
// that was committed, whose release began or not, or a call of one that was aborted.
func leftBehind(t *testing.T, log *memlog.Log, world *sink, how string) (tx string, journal []byte) {
	t.Helper()
	ctx := background(t)
	door := log.Door()
	a := start(t, "a", door, declared(world, "sealed"))
	open := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	tool, decided := "mail", sequencer.OutcomeCommitted
	if how == "undo" {
		tool, decided = "set", sequencer.OutcomeAborted
	}
	must(open.Effect(ctx, tool, at{At: "x", Key: "k"}, client.EffectOptions{}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if how == "begun" {
		world.set(func() { world.block["mail"] = make(chan struct{}) })
	} else {
		door.Hold() // the process never sees the decision
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if how == "undo" {
		_ = open.Abort(short, "test")
	} else {
		_, _ = open.Seal(short)
	}
	if how == "begun" {
		<-world.entered
	}
	err := log.Until(ctx, func() bool {
		for _, o := range log.Outcomes() {
			if string(o.Tx) == open.ID() && o.Kind == decided {
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	return open.ID(), a.die(t, door)
}

// What was sealed under one declaration is not called by another one of its name, neither by the agent's next start
// nor by an adopter: it is residue that names both. Under the same declaration it is settled.
func TestChangedTool(t *testing.T) {
	for _, c := range []struct {
		how, who, signature string
		want                sequencer.Result
		does                string
	}{
		{"held", "successor", "other", sequencer.ResultPartial, ""},
		{"held", "adopter", "other", sequencer.ResultUnresolved, ""}, // the former owner may have made it
		{"begun", "successor", "other", sequencer.ResultUnresolved, ""},
		{"undo", "successor", "other", sequencer.ResultLeaked, ""},
		{"undo", "adopter", "other", sequencer.ResultUnresolved, ""},
		{"held", "successor", "sealed", sequencer.ResultClean, "mail x"},
		{"held", "adopter", "sealed", sequencer.ResultClean, "mail x"},
		{"undo", "successor", "sealed", sequencer.ResultClean, "back x"},
	} {
		t.Run(c.how+" by the "+c.who+" as "+c.signature, func(t *testing.T) {
			t.Parallel()
			ctx := background(t)
			log, one, two := newLog(), newSink(), newSink()
			leases(t, log, 13)
			tx, journal := leftBehind(t, log, one, c.how)
			one.set(func() { two.answers = one.answers }) // it is one sink, seen through two declarations
			var b *rig
			if c.who == "successor" {
				b = reborn(t, log, "a", journal, declared(two, c.signature)).aloneNow()
			} else {
				_, former, _, _ := api.OwnerOf(sequencer.TxID(tx))
				endLease(t, log, former) // before b joins: its own would end, too
				b = start(t, "b", log.Door(), declared(two, c.signature))
				// With another declaration it would wait some leases for a sidecar that has the sealed one.
				b.session.loop.Run(func() { b.session.settlements().Adopt(ctx, sequencer.TxID(tx)) })
			}
			b.final(ctx, t, tx)
			world := two.world()
			if strings.Join(world, ", ") != c.does {
				t.Errorf("under the declaration %s %q was done, want %q", c.signature, world, c.does)
			}
			checkChanged(t, log.Residue(), c.want)
		})
	}
}

// checkChanged holds what the list says of one call whose declaration has changed.
func checkChanged(t *testing.T, list []topology.Residue, want sequencer.Result) {
	t.Helper()
	if want == sequencer.ResultClean {
		if len(list) > 0 {
			t.Errorf("the list of residues: %+v", list)
		}
		return
	}
	if len(list) != 1 {
		t.Fatalf("the list of residues: %+v", list)
	}
	r := list[0]
	if r.Result != want || r.Code != api.CodeChangedTool || gate.CodeChangedTool != api.CodeChangedTool ||
		!strings.Contains(r.Detail, "signature sealed") || !strings.Contains(r.Detail, "now has other") {
		t.Errorf("%s %q: %s; want %s", r.Result, r.Code, r.Detail, want)
	}
	var args at
	if err := json.Unmarshal(r.Args, &args); err != nil || args.At != "x" {
		t.Errorf("the arguments are %s: %v", r.Args, err)
	}
}

// A residue whose tool is declared differently is not tried again by hand, unless that is asked for: then today's
// declaration makes the call, while the transaction holds what it moves by either.
func TestChangedToolByHand(t *testing.T) {
	ctx := background(t)
	log, one, two := newLog(), newSink(), newSink()
	leases(t, log, 13)
	tx, journal := leftBehind(t, log, one, "held")
	b := reborn(t, log, "a", journal, declared(two, "other")).aloneNow()
	b.final(ctx, t, tx)
	_, err := b.client.RetryResidue(ctx, tx, 0, false)
	if p := problemIn(t, err); p.Code != api.CodeChangedTool || p.Status != 409 || !strings.Contains(p.Detail,
		"sealed") ||
		!strings.Contains(p.Detail, "other") {
		t.Errorf("tried again: %+v", p)
	}
	two.expect(t)
	checkChanged(t, log.Residue(), sequencer.ResultPartial)
	r, err := b.client.RetryResidueWith(ctx, tx, 0, api.RetryResidue{ChangedTool: true})
	if err != nil || r.State != "resolved" || r.Code != "" {
		t.Errorf("with the choice: %+v, %v", r, err)
	}
	two.expect(t, "mail x")
}

// An older policy, which signs nothing, goes on as it did.
func TestUnsignedTool(t *testing.T) {
	ctx := background(t)
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "mail", at{At: "x", Key: "k"}, client.EffectOptions{}))(t)
	door.Hold()
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	_, _ = tx.Seal(short)
	cancel()
	journal := a.die(t, door)
	b := reborn(t, log, "a", journal, declared(world, "other")).aloneNow()
	b.final(ctx, t, tx.ID())
	world.expect(t, "mail x")
}
