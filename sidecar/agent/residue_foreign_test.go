package agent

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/client"
)

// foreignTools is a policy over a sink that takes keys, looks nothing up and has never heard of compensations.
type foreignTools struct{ *keyTools }

func (p *foreignTools) Find(tool string, args json.RawMessage) (gate.Tool, error) {
	t, err := p.testTools.Find(tool, args)
	t.Forbids = false
	return t, err
}

func (p *foreignTools) Adapter(string) (gate.Adapter, error) { return p, nil }

// TestRetryUndoesNothingUnknown holds that nothing is sent to undo a call of unknown outcome, neither by its
// settlement nor when a person asks for it, until that person says that it is there.
func TestRetryUndoesNothingUnknown(t *testing.T) {
	world := newSink()
	tools := &foreignTools{&keyTools{}}
	a := start(t, "a", newLog().Door(), quick(world), func(c *setup) {
		tools.testTools = c.Tools.(*testTools)
		c.Tools = tools
	})
	ctx := background(t)
	world.set(func() { world.lose["set"] = 1 << 20 })
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	_, _ = tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{}) // it is given up
	_ = tx.Abort(ctx, "")                                             // or was aborted for it
	a.final(ctx, t, tx.ID())
	if sent := tools.sent(); len(sent) != 0 {
		t.Errorf("the settlement sent %+v", sent)
	}
	_, err := a.client.RetryResidue(ctx, tx.ID(), 0, false)
	var p *client.Problem
	if !errors.As(err, &p) || p.Code != "no_key" || len(tools.sent()) != 0 {
		t.Errorf("a retry is answered %v, and %+v left; want it refused", err, tools.sent())
	}
	if r := must(a.client.RetryResidue(ctx, tx.ID(), 0, true))(t); r.State != "resolved" {
		t.Errorf("forced: %+v", r)
	}
	if sent := tools.sent(); len(sent) != 1 || sent[0].ForbidOnly {
		t.Errorf("forced, %+v left; want one compensation that does not only forbid", sent)
	}
}
