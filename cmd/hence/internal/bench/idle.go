package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// The past of each idle workspace: what its state keeps is written whenever the state is.
const (
	pastCommits = 4
	pastWrites  = 100
)

// Leases are renewed every 3 s, the log's time moves every 2 s, states without decisions are written every 30 s:
// a look is whole numbers of all.
const idlePeriod = 30 * time.Second

// idleOnes measures what workspaces cost in which nothing is done, and agents that do nothing.
func (b *bench) idleOnes(ctx context.Context) error {
	for _, n := range or(b.Agents, 1, 16, 64, 256) {
		if err := b.idleAt(ctx, show.Several(n, "workspace"), n, 1); err != nil {
			return err
		}
	}
	for _, n := range or(b.Agents, 16, 256) {
		if err := b.idleAt(ctx, show.Several(n, "agent")+" of one workspace", 1, n); err != nil {
			return err
		}
	}
	return nil
}

// idleAt starts workspaces with so many agents each, gives each workspace a past, and looks what all of them use while
// nothing is asked. They run in this process, beside the processors, so that their number costs no process more.
func (b *bench) idleAt(ctx context.Context, name string, workspaces, agents int) error {
	b.say("idle: starting %s", name)
	return b.on(ctx, Inside, nil, func(ctx context.Context, g *ground.Ground) error {
		for range workspaces {
			all, err := b.agentsOn(ctx, g, false, nil, agents)
			if err == nil {
				err = writeSome(ctx, all[0])
			}
			if err != nil {
				return err
			}
		}
		groups, unseen := g.Processes()
		if unseen != nil {
			b.once("the processor time of some servers is not counted: %v", unseen)
		}
		return b.rounds(ctx, "idle, "+name, nil, func(ctx context.Context, r *round) error {
			return b.idleLook(ctx, g, groups, r, name, float64(workspaces*agents))
		})
	})
}

// idleLook measures for a while, for each of so many.
func (b *bench) idleLook(ctx context.Context, g *ground.Ground, groups []ground.Group, r *round, name string,
	each float64) error {
	if err := b.rest(ctx); err != nil {
		return err
	}
	from, err := g.Mark(ctx)
	if err != nil {
		return err
	}
	before, err := usageOf(groups)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := pause.Sleep(ctx, max(b.For, idlePeriod)); err != nil {
		return err
	}
	each *= time.Since(begun).Seconds()
	after, err := usageOf(groups)
	if err != nil {
		return err
	}
	to, err := g.Mark(ctx)
	if err != nil {
		return err
	}
	for i, group := range groups {
		r.put(report.Idle, name, group.Name, report.CPUSecond, after[i].Since(before[i]).Seconds()*1e6/each)
	}
	written, err := g.Written(ctx, from, to)
	if err != nil {
		return fmt.Errorf("read what was written: %w", err)
	}
	for _, w := range written {
		r.put(report.Idle, name, w.Topic, report.RecordsSecond, float64(w.Records)/each)
		r.put(report.Idle, name, w.Topic, report.BytesSecond, float64(w.Bytes)/each)
	}
	return nil
}

// writeSome gives a workspace something to keep.
func writeSome(ctx context.Context, c *client.Client) error {
	for range pastCommits {
		var writes []client.Write
		for i := range pastWrites {
			writes = append(writes, client.Write{Scope: scopeOf(i), Content: []byte(content)})
		}
		if _, err := c.Commit(ctx, client.Commit{Writes: writes}); err != nil {
			return fmt.Errorf("make a past: %w", err)
		}
	}
	return nil
}
