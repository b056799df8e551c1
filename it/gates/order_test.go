package gates

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// TestReleaseOrder lets several agents commit transactions of 2 to 16 held effects on a few customers that they share.
// Each sink has them in the order in which their agent issued them, and on each customer in commit order.
func TestReleaseOrder(t *testing.T) {
	const agents, customers = 6, 4
	rounds := harness.Number(t, "HENCE_IT_ORDER_ROUNDS", harness.OnReal(12, harness.Sample(12)))
	d, shop, e := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t), harness.NewErrands()
	sidecars := shop.Sidecars(t, d, agents)
	widths := []int{2, 4, 8, 16}
	harness.Share(t, agents, agents*rounds, func(ctx context.Context, worker, job int) error {
		rng := rand.New(rand.NewPCG(uint64(job), 11))
		mode := harness.Orders()[job%3]
		tx, err := sidecars[worker].Client.Begin(ctx, client.BeginOptions{Mode: mode})
		if err != nil {
			return err
		}
		for {
			for i := range widths[rng.IntN(len(widths))] {
				tool := []string{"card.charge", "mail.send"}[rng.IntN(2)]
				about := harness.Task{Task: fmt.Sprintf("%s/%d", tx.ID(), i), Customer: fmt.Sprintf("c%d", rng.IntN(customers))}
				if _, err := e.Call(ctx, tx, tool, about); err != nil {
					return err
				}
			}
			d, err := tx.Seal(ctx)
			if err != nil {
				return err
			}
			if _, err := e.Over(ctx, tx); err != nil || d.State == api.StateCommitted {
				return err
			}
			if tx, err = tx.Retry(ctx); err != nil {
				return err
			}
		}
	})
	mails, _ := shop.Mails(t)
	charges := shop.Charges(t)
	found := e.Effects(t, d, sidecars[0], nil)
	meetings := 0
	for name, sent := range map[string][]check.Sent{"mails": mails, "charges": charges} {
		found.Sent = sent
		harness.NoViolations(t, found.Orders())
		n := met(found)
		t.Logf("%s: %d arrived, %d of them behind another transaction's on the same customer", name, len(sent), n)
		meetings += n
	}
	found.Sent = append(mails, charges...)
	harness.NoViolations(t, found.Leaks())
	harness.NoViolations(t, found.Duplicates())
	harness.NoViolations(t, found.Lost())
	counts(t, found, len(found.Sent))
	if meetings == 0 {
		t.Error("no two transactions met on a customer: nothing was put to the test")
	}
}

// met counts effects that arrived behind one of another transaction on the same scope.
func met(e *check.Effects) (n int) {
	type call struct {
		tx    string
		index int
	}
	scopes, last := map[call][]string{}, map[string]string{}
	for _, i := range e.Issued {
		scopes[call{i.Tx, i.Index}] = i.Scopes
	}
	for _, s := range e.Sent {
		for _, scope := range scopes[call{s.Tx, s.Index}] {
			if before := last[scope]; before != "" && before != s.Tx {
				n++
			}
			last[scope] = s.Tx
		}
	}
	return n
}
