package bench

import (
	"context"
	"fmt"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
)

// probeInFlight is how many records the bare loop has under way where only its drift is looked at.
const probeInFlight = 8

// contention measures turns of many agents, each on a shard of its own or all on one, in each order mode.
func (b *bench) contention(ctx context.Context) error {
	b.say("contention: starting")
	g, err := b.stand(ctx, b.Sidecars, nil)
	if err != nil {
		return err
	}
	defer g.Close()
	probe, _, end, err := b.loop(ctx, g, probeInFlight)
	if err != nil {
		return err
	}
	defer end()
	sizes := or(b.Agents, 4, 32, 128)
	agents, err := b.agentsOn(ctx, g, b.Sidecars == Each, nil, sizes[len(sizes)-1])
	if err != nil {
		return err
	}
	for _, n := range sizes {
		for _, place := range []struct {
			name  string
			shard func(int) int
		}{{"disjoint", ownOf}, {"hot", anyOf(1)}} {
			for _, mode := range []string{"optimistic", "ordered", "locked"} {
				w := &work{clients: agents[:n], shard: place.shard, mode: mode, claims: mode == "ordered"}
				turn := w.four
				if mode == "optimistic" {
					turn = w.two
				}
				name, system := fmt.Sprintf("%d agents, %s", n, place.name), "Hence, "+mode
				err := b.rounds(ctx, "contention, "+name+", "+mode, probe, func(ctx context.Context, r *round) error {
					got, err := b.warmed(ctx, load.Spec{Workers: n, For: b.For, Rate: b.Rate}, turn)
					if err != nil {
						return err
					}
					r.put(report.Contention, name, system, report.Rate, got.Rate())
					r.put(report.Contention, name, system, report.Refusals, float64(got.Refused)/float64(max(1, got.Turns)))
					r.quantiles(report.Contention, name, system, got.Whole)
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}
