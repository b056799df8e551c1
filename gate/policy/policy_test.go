package policy

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/hence-dev/hence/gate"
)

func example(tb testing.TB) *Policy {
	tb.Helper()
	data, err := os.ReadFile("../../docs/examples/policy.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	p, err := Load(data, Options{File: "policy.yaml"})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestExampleHoldsItsCases(t *testing.T) {
	p := example(t)
	if len(p.Cases()) < 8 {
		t.Fatalf("the example has %d cases", len(p.Cases()))
	}
	for _, f := range p.Test(p.Cases()) {
		t.Error(f.Text(p.File()))
	}
}

func TestUndoOfCharge(t *testing.T) {
	p := example(t)
	args := json.RawMessage(`{"order_id":"W17","cents":4200}`)
	tool, err := p.Find("payment.charge", args)
	if err != nil {
		t.Fatal(err)
	}
	if !tool.Undo || !tool.Keyed || tool.Pin == nil || tool.Pin.Signature == "" || tool.Pin.Server != "retail" {
		t.Fatalf("payment.charge is %+v", tool)
	}
	c, err := p.Undo(gate.Effect{Tx: "t1", Index: 3, Tool: tool, Key: tool.Key, Args: args}, gate.Answer{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Tool != "payment.refund" || c.Key == "" || c.Compensates != "charge/w17" ||
		string(c.Args) != `{"cents":4200,"order_id":"W17"}` {
		t.Fatalf("the compensation is %+v", c)
	}
	if err := p.MayCall("payment.refund"); !errors.Is(err, ErrUndoOnly) {
		t.Fatalf("an agent may call payment.refund: %v", err)
	}
}
