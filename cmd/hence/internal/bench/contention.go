package bench

import (
	"context"
	"fmt"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
)

// probeInFlight is how many records the bare loop has under way where only its drift is looked at.
const probeInFlight = 8

// ways are those in which agents can meet on a shard. In mode optimistic a turn is of two requests. In the other modes
// a read does not wait for those before it to commit: an agent that asks for the shard first does.
func ways() []work {
	return []work{{mode: "optimistic"}, {mode: "ordered", claims: true}, {mode: "ordered", claims: true, touches: true},
		{mode: "locked"}, {mode: "locked", touches: true}}
}

// contention measures turns of many agents, each on a shard of its own or all on one, in each order mode.
func (b *bench) contention(ctx context.Context) error {
	b.say("contention: starting")
	return b.on(ctx, b.Sidecars, nil, b.contentionOn)
}

func (b *bench) contentionOn(ctx context.Context, g *ground.Ground) error {
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
		for _, hot := range []bool{false, true} {
			for _, w := range ways() {
				w.clients, w.shard = agents[:n], ownOf
				name := fmt.Sprintf("%d agents, disjoint", n)
				if hot {
					w.shard, name = anyOf(1), fmt.Sprintf("%d agents, hot", n)
				}
				if err := b.meet(ctx, probe, name, &w); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// meet measures one way of so many agents.
func (b *bench) meet(ctx context.Context, probe func(context.Context) (float64, error), name string, w *work) error {
	turn, system := w.four, "Hence, "+w.mode
	if w.mode == "optimistic" {
		turn = w.two
	}
	if w.touches {
		system += ", touched first"
	}
	return b.rounds(ctx, "contention, "+name+", "+system, probe, func(ctx context.Context, r *round) error {
		got, err := b.warmed(ctx, load.Spec{Workers: len(w.clients), For: b.For, Rate: b.Rate}, turn)
		if err != nil {
			return err
		}
		r.put(report.Contention, name, system, report.Rate, got.Rate())
		r.put(report.Contention, name, system, report.Refusals, float64(got.Refused)/float64(max(1, got.Turns)))
		r.quantiles(report.Contention, name, system, got.Whole)
		return nil
	})
}
