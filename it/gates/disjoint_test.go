package gates

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
)

// TestDisjoint lets many agents work at once, each on an order of its own: no agent is in another one's way.
func TestDisjoint(t *testing.T) {
	servers := harness.Start(t)
	everybody := []int{4, 16}
	if harness.Real() {
		everybody = []int{4, 8, 16, 32, 64, 128}
	}
	tasks := harness.Number(t, "HENCE_IT_DISJOINT_TASKS", 4)
	for _, agents := range harness.Numbers(t, "HENCE_IT_DISJOINT_AGENTS", everybody...) {
		t.Run(fmt.Sprintf("%d_agents", agents), func(t *testing.T) {
			d, shop, e := harness.Deploy(t, servers), harness.OpenShop(t), harness.NewErrands()
			shop.MaxTime = 2 * time.Second // a lease outlasts it also when 128 sidecars share a small machine
			sidecars := shop.SidecarsApart(t, d, agents)
			var group sync.WaitGroup
			for i, s := range sidecars {
				group.Go(func() {
					for n := range tasks {
						if err := alone(t.Context(), e, s, i, n, harness.Orders()[n%3]); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			var attempts []check.Attempt
			for tx, end := range e.Ends {
				attempts = append(attempts, check.Attempt{Tx: tx, Seq: end.Seq})
			}
			blocked, committed, refused := 0, 0, map[sequencer.Code]int{}
			for _, o := range harness.DecisionsOf(t, servers, d.Workspace, attempts) {
				switch o.Kind {
				case sequencer.OutcomeRefused, sequencer.OutcomeAborted:
					if _, asked := e.Ends[string(o.Tx)]; asked { // else a sidecar has asked about its own lease
						refused[o.Code]++
					}
				case sequencer.OutcomeCommitted:
					committed++
				}
				if len(o.BlockedBy) > 0 {
					blocked++
					t.Errorf("seq %d: %s of %s is blocked by %v", o.Seq, o.Kind, o.Tx, o.BlockedBy)
				}
			}
			t.Logf("%d committed, refused %v, %d ever blocked", committed, refused, blocked)
			if committed != agents*tasks || len(refused) > 0 {
				t.Errorf("want %d committed and none refused", agents*tasks)
			}
		})
	}
}

// alone works on the agent's own order: a shard, a file, a row, a charge and a mail.
func alone(ctx context.Context, e *harness.Errands, s *harness.Sidecar, agent, n int, mode string) error {
	tx, err := s.Client.Begin(ctx, client.BeginOptions{Mode: mode})
	if err != nil {
		return err
	}
	own := fmt.Sprintf("own/%d", agent)
	if _, err := tx.Read(ctx, "shard:/"+own); err != nil {
		return err
	}
	if err := tx.Write(ctx, "shard:/"+own, []byte(tx.ID()), client.WriteOptions{}); err != nil {
		return err
	}
	about := harness.Task{Task: fmt.Sprintf("a%d-%d", agent, n)}
	if err := (inFiles{e}).write(ctx, tx, own+"/status", tx.ID()); err != nil {
		return err
	}
	if _, err := e.Call(ctx, tx, "row.add", about); err != nil {
		return err
	}
	about.Customer = fmt.Sprintf("c%d", agent)
	if err := e.Send(ctx, tx, about); err != nil {
		return err
	}
	return e.Sealed(ctx, tx, "")
}
