package agent

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/client"
)

// keyTools is a policy whose compensations take keys, also those of calls that take none, and look nothing up.
type keyTools struct {
	*testTools
	mu    sync.Mutex
	backs []gate.Call
	time  []time.Duration // that each of them had
}

// slowBack is how long a compensation may take, longer than what it undoes.
const slowBack = 3 * time.Second

func (p *keyTools) Find(tool string, args json.RawMessage) (gate.Tool, error) {
	if tool == "back" {
		found, err := p.testTools.Find("set", args)
		found.Name, found.MaxTime = tool, slowBack
		return found, err
	}
	return p.testTools.Find(tool, args)
}

func (p *keyTools) Undo(e gate.Effect, a gate.Answer) (gate.Call, error) {
	c, err := p.testTools.Undo(e, a)
	c.Key = "taken"
	return c, err
}

func (p *keyTools) Adapter(string) (gate.Adapter, error) { return p, nil }

func (p *keyTools) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	if c.Tool == "back" {
		p.mu.Lock()
		p.backs = append(p.backs, c)
		end, _ := ctx.Deadline()
		p.time = append(p.time, time.Until(end))
		p.mu.Unlock()
	}
	return p.sink.Call(ctx, c)
}

func (p *keyTools) LookUp(context.Context, gate.Call) (gate.Answer, error) {
	return gate.Answer{}, gate.ErrNoLookup
}

// sent is every compensation that left.
func (p *keyTools) sent() []gate.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.backs)
}

// A compensation that is tried again goes under the key that it had before, also when what it undoes has none, and has
// the time that its own declaration gives it.
func TestResidueKeepsItsKey(t *testing.T) {
	world := newSink()
	tools := &keyTools{}
	a := start(t, "a", newLog().Door(), quick(world), func(c *setup) {
		tools.testTools = c.Tools.(*testTools)
		c.Tools = tools
	})
	ctx := background(t)
	world.set(func() { world.lose["back"] = 1 << 20 })
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "unset", at{At: "x"}, client.EffectOptions{}))(t)
	if err := tx.Abort(ctx, ""); err != nil {
		t.Fatal(err)
	}
	a.final(ctx, t, tx.ID())
	world.set(func() { clear(world.lose) })
	before := len(tools.sent())
	if r := must(a.client.RetryResidue(ctx, tx.ID(), 0, false))(t); r.State != "resolved" {
		t.Errorf("tried again: %+v", r)
	}
	sent := tools.sent()
	if before == 0 || len(sent) != before+1 {
		t.Fatalf("%d compensations left, %d before", len(sent), before)
	}
	for i, c := range sent {
		if c.Key != sent[0].Key {
			t.Errorf("the compensation left as %q and as %q", sent[0].Key, c.Key)
		}
		if got := tools.time[i]; got > slowBack || got < slowBack/2 {
			t.Errorf("try %d of the compensation had %v; its declaration says %v", i, got, slowBack)
		}
	}
	world.expect(t, "unset x", "back x")
}

// Where it is unknown whether a call arrived, trying its residue again undoes it only if its sink has it.
func TestResidueForbidsOnly(t *testing.T) {
	for _, arrived := range []bool{false, true} {
		world := newSink()
		tools := &keyTools{}
		a := start(t, "a", newLog().Door(), quick(world), func(c *setup) {
			tools.testTools = c.Tools.(*testTools)
			c.Tools = tools
		})
		ctx := background(t)
		world.set(func() {
			world.down["back"] = 1 << 20
			if world.down["set"] = 1 << 20; arrived {
				world.down["set"], world.lose["set"] = 0, 1<<20
			}
		})
		tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
		if _, err := tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}); err == nil {
			t.Fatal("the call was answered")
		}
		if err := tx.Abort(ctx, ""); err != nil {
			t.Fatal(err)
		}
		a.final(ctx, t, tx.ID())
		world.set(func() { clear(world.down); clear(world.lose) })
		if r := must(a.client.RetryResidue(ctx, tx.ID(), 0, true))(t); r.State != "resolved" {
			t.Errorf("tried again: %+v", r)
		}
		for _, c := range tools.sent() {
			if !c.ForbidOnly || c.Key != tools.sent()[0].Key {
				t.Errorf("arrived %v: the compensation left as %+v", arrived, c)
			}
		}
		if want := []string{"set x", "back x"}; arrived {
			world.expect(t, want...)
		} else {
			world.expect(t)
		}
	}
}
