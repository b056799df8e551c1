package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/usage"
)

// cost is what turns came to, and what a turn cost.
type cost struct {
	load.Result
	groups  []ground.Group
	used    []float64 // microseconds of processor time for a turn, by group
	seen    bool      // groups are all that take part
	written []ground.Written
}

// costed makes turns and counts what they cost: processor time, records, bytes.
func (b *bench) costed(ctx context.Context, g *ground.Ground, s load.Spec, turn load.Turn) (c cost, err error) {
	c.groups = b.groups(g, &c.seen)
	// What was done before leaves rows to write, which are not counted with the turns that follow.
	if err := b.rest(ctx); err != nil {
		return c, err
	}
	from, err := g.Mark(ctx)
	if err != nil {
		return c, err
	}
	if c.Result, c.used, err = metered(ctx, c.groups, s, turn); err != nil {
		return c, err
	}
	if err := b.rest(ctx); err != nil {
		return c, err
	}
	to, err := g.Mark(ctx)
	if err != nil {
		return c, err
	}
	if c.written, err = g.Written(ctx, from, to); err != nil {
		return c, fmt.Errorf("read what was written: %w", err)
	}
	return c, nil
}

// groups are the processes of a ground; seen says whether these are all of them.
func (b *bench) groups(g *ground.Ground, seen *bool) []ground.Group {
	all, unseen := g.Processes()
	if *seen = unseen == nil; unseen != nil {
		b.once("the processor time of some servers is not counted: %v", unseen)
	}
	return all
}

// put notes a cost: processor time under one subject, records under another.
func (c *cost) put(r *round, cpu, records, name string) {
	all := 0.0
	for i, group := range c.groups {
		r.put(cpu, name, group.Name, report.CPUCommit, c.used[i])
		if !group.Load {
			all += c.used[i]
		}
	}
	if c.seen {
		r.put(cpu, name, report.All, report.CPUCommit, all)
	}
	commits := float64(max(1, c.Turns))
	sum := ground.Written{Topic: report.All}
	for _, w := range c.written {
		r.put(records, name, w.Topic, report.RecordsCommit, float64(w.Records)/commits)
		r.put(records, name, w.Topic, report.BytesCommit, float64(w.Bytes)/commits)
		sum.Records, sum.Bytes = sum.Records+w.Records, sum.Bytes+w.Bytes
	}
	r.put(records, name, sum.Topic, report.RecordsCommit, float64(sum.Records)/commits)
	r.put(records, name, sum.Topic, report.BytesCommit, float64(sum.Bytes)/commits)
}

// metered makes turns, and says how many microseconds of processor time each group of processes has used for a turn.
func metered(ctx context.Context, groups []ground.Group, s load.Spec, turn load.Turn,
) (got load.Result, used []float64, err error) {
	spent, err := meter(groups, func() (err error) {
		got, err = load.Run(ctx, s, turn)
		return err
	})
	for _, d := range spent {
		used = append(used, d.Seconds()*1e6/float64(max(1, got.Turns)))
	}
	return got, used, err
}

// meter is the processor time that each group of processes uses while f runs.
func meter(groups []ground.Group, f func() error) (spent []time.Duration, err error) {
	before, err := usageOf(groups)
	if err == nil {
		err = f()
	}
	if err != nil {
		return nil, err
	}
	after, err := usageOf(groups)
	if err != nil {
		return nil, err
	}
	for i := range groups {
		spent = append(spent, after[i].Since(before[i]))
	}
	return spent, nil
}

func usageOf(groups []ground.Group) (all []usage.CPU, err error) {
	for _, group := range groups {
		used, err := usage.Of(group.PIDs...)
		if group.Family {
			used, err = usage.OfFamily(group.PIDs[0])
		}
		if err != nil {
			return nil, err
		}
		all = append(all, used)
	}
	return all, nil
}
