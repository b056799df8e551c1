package bench

import (
	"context"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/client"
)

// workspaces measures the same load in one workspace and spread over more: each has a sidecar of its own in this
// process, beside the processors, so that their number costs what it costs and no process more.
func (b *bench) workspaces(ctx context.Context) error {
	clients := or(b.Clients, 64)[0]
	for _, n := range []int{1, 4, 16, 64} {
		if n > clients {
			break
		}
		if err := b.spread(ctx, clients, n); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) spread(ctx context.Context, clients, n int) error {
	b.say("workspaces: starting %d", n)
	return b.on(ctx, Inside, nil, func(ctx context.Context, g *ground.Ground) error {
		return b.spreadOn(ctx, g, clients, n)
	})
}

func (b *bench) spreadOn(ctx context.Context, g *ground.Ground, clients, n int) error {
	name := show.Several(n, "workspace")
	probe, _, end, err := b.loop(ctx, g, probeInFlight)
	if err != nil {
		return err
	}
	defer end()
	var all []*client.Client
	for range n {
		one, err := b.agentsOn(ctx, g, false, nil, 1)
		if err != nil {
			return err
		}
		all = append(all, one...)
	}
	groups, unseen := g.Processes()
	if unseen != nil {
		b.once("the processor time of some servers is not counted: %v", unseen)
	}
	w := &work{clients: sessions(all, clients), shard: ownOf}
	return b.rounds(ctx, name, probe, func(ctx context.Context, r *round) error {
		if _, err := load.Run(ctx, load.Spec{Workers: clients, For: b.For / 5}, w.two); err != nil {
			return err
		}
		got, used, err := metered(ctx, groups, b.spec(clients), w.two)
		if err != nil {
			return err
		}
		sum := 0.0
		for _, one := range used {
			sum += one
		}
		r.put(report.Workspaces, name, report.All, report.Rate, got.Rate())
		r.put(report.Workspaces, name, report.All, report.CPUCommit, sum)
		return nil
	})
}
