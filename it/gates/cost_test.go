package gates

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
)

// costs are how long things took, by name.
type costs map[string][]time.Duration

func (c costs) note(name string, began time.Time) { c[name] = append(c[name], time.Since(began)) }

func (c costs) median(name string) time.Duration {
	all := slices.Clone(c[name])
	slices.Sort(all)
	return all[len(all)/2]
}

// What is measured.
const (
	costFloor = "one acknowledged append and its decision"
	costEager = "an eager call"
	costHeld  = "a held call"
	costAsk   = "a status request" // what HTTP alone takes
	costBare  = "a seal without calls"
	costFull  = "a seal with a held call"
)

// TestCost measures what tool calls take over real clients: an eager one beside one append and its decision, which is
// the floor of all that needs a decision, and a held one, which waits for nothing. The aim of the latter is 200 µs.
func TestCost(t *testing.T) {
	c := measure(t, harness.Number(t, "HENCE_IT_COST_CALLS", harness.OnReal(120, 60)))
	for _, name := range []string{costFloor, costEager, costHeld, costAsk, costBare, costFull} {
		t.Logf("%-42s p50 %v", name, c.median(name).Round(time.Microsecond))
	}
	ratio := float64(c.median(costEager)) / float64(c.median(costFloor))
	t.Logf("an eager call is %.2f x the floor; a held call adds %v p50 (aim: 200µs), of it HTTP %v", ratio,
		c.median(costHeld).Round(time.Microsecond), c.median(costAsk).Round(time.Microsecond))
	if ratio > 15 { // its event, its touch, the call and HTTP, with air for a busy machine and the race detector
		t.Errorf("an eager call takes %.2f times as long as one decision", ratio)
	}
	if held, floor := c.median(costHeld), c.median(costFloor); held > floor {
		t.Errorf("a held call takes %v, one decision %v: it waits for something", held, floor)
	}
}

// BenchmarkCost is TestCost for benchmarks' tools.
func BenchmarkCost(b *testing.B) {
	c := measure(b, max(b.N, 20))
	b.ReportMetric(float64(c.median(costFloor).Microseconds()), "floor-µs")
	b.ReportMetric(float64(c.median(costEager).Microseconds()), "eager-µs")
	b.ReportMetric(float64(c.median(costHeld).Microseconds()), "held-µs")
	b.ReportMetric(float64(c.median(costEager))/float64(c.median(costFloor)), "ratio")
}

// measure makes n calls of each kind, one after the other.
func measure(tb testing.TB, n int) costs {
	tb.Helper()
	d, shop, out := harness.Deploy(tb, harness.Start(tb)), harness.OpenShop(tb), costs{}
	s := shop.Sidecars(tb, d, 1)[0]
	floor := decisionFloor(tb, d)
	for i := range n {
		began := time.Now()
		floor(i)
		out.note(costFloor, began)
		if err := out.transact(tb.Context(), s, i); err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

// transact makes one transaction with each call alone, and one with none.
func (c costs) transact(ctx context.Context, s *harness.Sidecar, i int) error {
	for name, about := range map[string]struct{ tool, state, seal string }{
		costEager: {"row.add", api.EffectDone, "a seal with an eager call"},
		costHeld:  {"card.charge", api.EffectHeld, costFull},
		costAsk:   {"", "", costBare},
	} {
		tx, err := s.Client.Begin(ctx, client.BeginOptions{})
		if err != nil {
			return err
		}
		args := map[string]string{"task": fmt.Sprintf("%s-%d", about.tool, i)}
		if about.tool == "card.charge" {
			args["customer"] = fmt.Sprintf("c%d", i)
		}
		began := time.Now()
		if about.tool == "" {
			_, err = tx.Status(ctx, 0)
		} else {
			var r client.Receipt
			if r, err = tx.Effect(ctx, about.tool, args, client.EffectOptions{}); err == nil && r.State != about.state {
				err = fmt.Errorf("%s of %s is %s: want %s", about.tool, tx.ID(), r.State, about.state)
			}
		}
		c.note(name, began)
		if err != nil {
			return err
		}
		began = time.Now()
		d, err := tx.Seal(ctx)
		c.note(about.seal, began)
		if err != nil || d.State != api.StateCommitted {
			return fmt.Errorf("%s is %s %s: %w", tx.ID(), d.State, d.Code, err)
		}
	}
	return nil
}

// decisionFloor returns what appends an intent that needs nothing and returns once its decision has come.
func decisionFloor(tb testing.TB, d *harness.Deployment) func(n int) {
	tb.Helper()
	log, decided := d.Dial(tb), make(chan string, 1024)
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- log.Follow(ctx, d.Workspace, 0, func(o *sequencer.Outcome, _ streams.Way) error {
			if o.Agent == "nobody" {
				decided <- o.Intent
			}
			return nil
		})
	}()
	tb.Cleanup(func() {
		cancel()
		<-ended
	})
	return func(n int) {
		in := &sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: "nobody.1.1", N: uint32(n + 1), Agent: "nobody",
			Incarnation: 1}
		if _, err := log.Append(ctx, d.Workspace, in); err != nil {
			tb.Fatal(err)
		}
		for id := in.ID(); ; {
			select {
			case got := <-decided:
				if got == id {
					return
				}
			case err := <-ended:
				ended <- err // for the end of the test, too
				tb.Fatalf("before %s was decided, following ended: %v", id, err)
			case <-time.After(harness.FinalIn):
				tb.Fatalf("%s was not decided", id)
			}
		}
	}
}
