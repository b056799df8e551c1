package bench

import (
	"context"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/usage"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/client"
)

const (
	writers = 4 // clients of the agent that commits, while others follow
	mega    = 1 << 20
)

// agents measures what agents cost that only follow: so many in one sidecar process, and so many in a process each.
func (b *bench) agents(ctx context.Context) error {
	var first, last []follower // by run, of the smallest and the largest process
	sizes := or(b.Agents, 1, 4, 16, 64, 256)
	for _, n := range sizes {
		all, err := b.follow(ctx, n, false)
		if err != nil {
			return err
		}
		if n == sizes[0] {
			first = all
		}
		last = all
	}
	if more := sizes[len(sizes)-1] - sizes[0]; more > 0 {
		var all []round
		for i := range min(len(first), len(last)) {
			r := round{values: map[report.Key]float64{}}
			r.put(report.Agents, "one more", report.OneCar, "kB/agent", (last[i].memory-first[i].memory)/1024/float64(more))
			r.put(report.Agents, "one more", report.OneCar, report.CPUDecision, (last[i].cpu-first[i].cpu)/float64(more))
			all = append(all, r)
		}
		b.keep(all, 0, false)
	}
	for _, n := range []int{1, 4, 16} {
		if b.Agents > 0 && n > b.Agents {
			break
		}
		if _, err := b.follow(ctx, n, true); err != nil {
			return err
		}
	}
	return nil
}

// follower is what processes that only follow have used.
type follower struct {
	memory float64 // bytes, resident
	cpu    float64 // microseconds for each decision of another agent
}

// follow measures so many agents that follow, in processes of sidecars in any case: in this one they could not be told
// from what else it does.
func (b *bench) follow(ctx context.Context, n int, each bool) (all []follower, err error) {
	name, system := show.Several(n, "agent"), report.OneCar
	if each {
		system = report.EachCar
	}
	err = b.rounds(ctx, "agents, "+name+", "+system, nil, func(ctx context.Context, r *round) error {
		var one follower
		err := b.on(ctx, One, nil, func(ctx context.Context, g *ground.Ground) (err error) {
			one, err = b.followed(ctx, g, n, each)
			return err
		})
		if err != nil {
			return err
		}
		all = append(all, one)
		r.put(report.Agents, name, system, report.MB, one.memory/mega)
		r.put(report.Agents, name, system, report.CPUDecision, one.cpu)
		return nil
	})
	return all, err
}

func (b *bench) followed(ctx context.Context, g *ground.Ground, n int, each bool) (f follower, err error) {
	workspace := b.unique()
	if _, err := g.Doors(ctx, workspace, each, agentNames("follower", n)...); err != nil {
		return f, err
	}
	pids := g.Children(ground.RoleSidecar)
	doors, err := g.Doors(ctx, workspace, false, "writer")
	if err != nil {
		return f, err
	}
	c := client.New(doors[0].URL, doors[0].Token, client.WithWorkspace(workspace))
	defer c.Close()
	w := &work{clients: sessions([]*client.Client{c}, writers), shard: ownOf}
	if err := b.rest(ctx); err != nil {
		return f, err
	}
	if _, err := load.Run(ctx, load.Spec{Workers: writers, For: b.For / 5}, w.two); err != nil {
		return f, err
	}
	_, used, err := metered(ctx, []ground.Group{{PIDs: pids}}, b.spec(writers), w.two)
	if err != nil {
		return f, err
	}
	f.cpu = used[0]
	for _, pid := range pids {
		resident, err := usage.Memory(pid)
		if err != nil {
			return f, err
		}
		f.memory += float64(resident)
	}
	return f, nil
}
