package gates

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// TestPhantomTool changes or withdraws tools between the plan and the commit: every commit is refused and nothing of
// it is called.
func TestPhantomTool(t *testing.T) {
	n := harness.Number(t, "HENCE_IT_PHANTOMS", harness.OnReal(200, harness.Sample(100)))
	d, shop := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t)
	all := 0
	for i, way := range []struct {
		name string
		try  func(t *testing.T, d *harness.Deployment, s *harness.Sidecar, e *harness.Errands, n int) []*client.Tx
	}{
		{"registered", phantomRegistered}, {"withdrawn", phantomWithdrawn}, {"policy", phantomPolicy},
	} {
		t.Run(way.name, func(t *testing.T) {
			e, shares := harness.NewErrands(), (n+i)/3
			s := shop.Sidecars(t, d, 1)[0]
			defer s.Stop()
			before := len(shop.Did(t)) + len(shop.Mail.Mails())
			txs := way.try(t, d, s, e, shares)
			refused := 0
			for _, tx := range txs {
				switch d := e.Ends[tx.ID()]; {
				case d.State == api.StateAborted && d.Code == string(sequencer.CodePhantomTool):
					refused++
				default:
					t.Errorf("%s is %s %s", tx.ID(), d.State, d.Code)
				}
			}
			called := len(shop.Did(t)) + len(shop.Mail.Mails()) - before
			t.Logf("%d of %d refused, %d called", refused, shares, called)
			if refused != shares || called != 0 {
				t.Errorf("want %d refused and 0 called", shares)
			}
			all += refused
			control(t, e, s, shop)
		})
	}
	t.Logf("%d of %d refused", all, n)
}

// control shows that the same calls do commit when the tool stays what it was.
func control(t *testing.T, e *harness.Errands, s *harness.Sidecar, shop *harness.Shop) {
	t.Helper()
	if t.Name() == "TestPhantomTool/policy" {
		return // its registry stays changed
	}
	before := len(shop.Charges(t))
	if _, err := s.Client.PutTool(t.Context(), "plan", "steady", "1"); err != nil {
		t.Fatal(err)
	}
	tx := planned(t, e, s, "control-"+t.Name()[len("TestPhantomTool/"):])
	if d, err := tx.SealPinned(t.Context(), []client.Pin{{Server: "plan", Name: "steady", Signature: "1"}}); err != nil ||
		d.State != api.StateCommitted {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := e.Ended(t.Context(), tx, ""); err != nil {
		t.Error(err)
	}
	if n := len(shop.Charges(t)) - before; n != 1 {
		t.Errorf("%d charges of a plan whose tool stayed: want 1", n)
	}
}

// planned opens a transaction that holds a mail and a charge.
func planned(t *testing.T, e *harness.Errands, s *harness.Sidecar, name string) *client.Tx {
	t.Helper()
	tx, err := s.Client.Begin(t.Context(), client.BeginOptions{})
	if err == nil {
		err = e.Send(t.Context(), tx, harness.Task{Task: name, Customer: name})
	}
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// phantomRegistered has each plan's tool changed by PUT.
func phantomRegistered(t *testing.T, _ *harness.Deployment, s *harness.Sidecar, e *harness.Errands, n int,
) []*client.Tx {
	return pinned(t, s, e, n, func(ctx context.Context, name string, round int) error {
		_, err := s.Client.PutTool(ctx, "plan", name, fmt.Sprintf("changed-%d", round))
		return err
	})
}

// phantomWithdrawn has it withdrawn by DELETE.
func phantomWithdrawn(t *testing.T, _ *harness.Deployment, s *harness.Sidecar, e *harness.Errands, n int,
) []*client.Tx {
	return pinned(t, s, e, n, func(ctx context.Context, name string, _ int) error {
		_, err := s.Client.DeleteTool(ctx, "plan", name)
		return err
	})
}

// pinned makes n plans, each over a tool that is changed before the seal.
func pinned(t *testing.T, s *harness.Sidecar, e *harness.Errands, n int,
	change func(ctx context.Context, name string, round int) error) (txs []*client.Tx) {
	t.Helper()
	for i := range n {
		name, ctx := fmt.Sprintf("tool-%d", i%7), t.Context()
		if _, err := s.Client.PutTool(ctx, "plan", name, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		tx := planned(t, e, s, fmt.Sprintf("%s-%d", t.Name()[len("TestPhantomTool/"):], i))
		if err := change(ctx, name, i); err != nil {
			t.Fatal(err)
		}
		pins := []client.Pin{{Server: "plan", Name: name, Signature: fmt.Sprint(i)}}
		if _, err := tx.SealPinned(ctx, pins); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Over(ctx, tx); err != nil {
			t.Fatal(err)
		}
		txs = append(txs, tx)
	}
	return txs
}

// phantomPolicy changes the policy's own catalogue in the log: what was planned over it is refused, without any pin of
// the agent's.
func phantomPolicy(t *testing.T, d *harness.Deployment, s *harness.Sidecar, e *harness.Errands, n int,
) (txs []*client.Tx) {
	log := d.Dial(t)
	for at := 0; at < n; {
		var some []*client.Tx
		for ; at < n && len(some) < 200; at++ { // a sidecar has a bound of open ones
			some = append(some, planned(t, e, s, fmt.Sprintf("policy-%d", at)))
		}
		incarnation, err := strconv.ParseUint(strings.Split(some[0].ID(), ".")[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), d.Workspace, &sequencer.Intent{
			Kind: sequencer.IntentUnregister, Agent: s.Agent, Incarnation: sequencer.Seq(incarnation),
			Register: &sequencer.Register{Server: "it-shop", Generation: uint64(1<<40 + at)},
		}); err != nil {
			t.Fatal(err)
		}
		for _, tx := range some {
			if _, err := tx.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Over(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
		}
		txs = append(txs, some...)
	}
	return txs
}
