package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/client"
)

// The curves of the subject growth.
const (
	CurvePast       = "past"
	CurveShards     = "shards"
	CurveAgents     = "agents"
	CurveWorkspaces = "workspaces"
)

// Curves are all of them.
func Curves() []string { return []string{CurvePast, CurveShards, CurveAgents, CurveWorkspaces} }

// growing is the work that is done at each point of a curve.
const (
	growingClients = 8
	growingShards  = 64  // that are in work, of those that are there
	growingRate    = 250 // turns a second: what is done by time, and not by turns, is then spread over as many
)

// growth measures what a commit costs while one thing grows: the same clients make the same turns at each size.
func (b *bench) growth(ctx context.Context) (failed error) {
	curves := map[string]func(context.Context) error{CurvePast: b.growPast, CurveShards: b.growShards,
		CurveAgents: b.growAgents, CurveWorkspaces: b.growWorkspaces}
	for _, name := range Curves() {
		if len(b.Curves) > 0 && !slices.Contains(b.Curves, name) {
			continue
		}
		b.say("growth, %s: starting", name)
		if err := curves[name](ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("curve of %s: %w", name, err))
			if ctx.Err() != nil {
				return failed
			}
		}
	}
	return failed
}

// upTo are the sizes that are not above most, and most itself; with 0 all of them.
func upTo(most int, sizes ...int) []int {
	if most == 0 {
		return sizes
	}
	sizes = slices.DeleteFunc(sizes, func(n int) bool { return n >= most })
	return append(sizes, most)
}

// point is a place on a curve.
type point struct {
	curve  string
	at     int
	ground *ground.Ground
	probe  func(context.Context) (float64, error)
}

// measure notes what turns of so many clients cost there.
func (b *bench) measure(ctx context.Context, p point, clients int, turn load.Turn) error {
	name := fmt.Sprintf("%s, %s", p.curve, report.Number(float64(p.at)))
	spec := b.spec(clients)
	spec.Rate = cmp.Or(b.Rate, growingRate)
	return b.rounds(ctx, "growth, "+name, p.probe, func(ctx context.Context, r *round) error {
		r.curve, r.at = p.curve, float64(p.at)
		if _, err := load.Run(ctx, load.Spec{Workers: clients, For: b.For / 5, Rate: spec.Rate}, turn); err != nil {
			return err
		}
		if err := b.rest(ctx); err != nil {
			return err
		}
		if err := b.idleCost(ctx, r, p.ground, name); err != nil {
			return err
		}
		got, err := b.costed(ctx, p.ground, spec, turn)
		if err != nil {
			return err
		}
		r.put(report.Growth, name, b.shape(), report.Rate, got.Rate())
		r.quantiles(report.Growth, name, b.shape(), got.Whole)
		got.put(r, report.Growth, report.Growth, name)
		return nil
	})
}

// idleCost notes the processor time that is used without any requests.
func (b *bench) idleCost(ctx context.Context, r *round, g *ground.Ground, name string) error {
	var seen bool
	groups, begin := b.groups(g, &seen), time.Now()
	spent, err := meter(groups, func() error { return b.rest(ctx) })
	if err != nil {
		return err
	}
	took, all := time.Since(begin).Seconds(), 0.0
	for i, group := range groups {
		if !group.Load {
			all += spent[i].Seconds() * 1e3 / took
		}
	}
	if seen { // else what the servers used is not in it
		r.put(report.Growth, name, report.All, report.AtRest, all)
	}
	return nil
}

// growPast lets transactions pass in the workspace that is worked in. Each point begins at its size; what it makes
// itself comes on top, and is as much at each.
func (b *bench) growPast(ctx context.Context) error {
	return b.on(ctx, b.Sidecars, nil, func(ctx context.Context, g *ground.Ground) error {
		probe, _, end, err := b.loop(ctx, g, probeInFlight)
		if err != nil {
			return err
		}
		defer end()
		workspace := b.unique()
		clients, err := b.growingOn(ctx, g, workspace, 1)
		if err != nil {
			return err
		}
		w := &work{clients: clients, shard: ownPart(len(clients), growingShards), mode: b.Mode}
		p, err := openPast(ctx, g.Servers, workspace)
		if err != nil {
			return err
		}
		defer p.end()
		for _, size := range upTo(b.Past, 1000, 10_000, 100_000, 1_000_000) {
			b.say("growth, %s: making %s", report.ByPast, report.Number(float64(size)))
			if err := p.reach(ctx, size); err != nil {
				return err
			}
			at := point{report.ByPast, size, g, probe}
			if err := b.measure(ctx, at, len(clients), b.turn(w)); err != nil {
				return err
			}
		}
		return nil
	})
}

// growShards lets the shards of a workspace become more, and works on 64 of them, and on all.
func (b *bench) growShards(ctx context.Context) error {
	return b.on(ctx, b.Sidecars, nil, func(ctx context.Context, g *ground.Ground) error {
		probe, _, end, err := b.loop(ctx, g, probeInFlight)
		if err != nil {
			return err
		}
		defer end()
		clients, err := b.growingOn(ctx, g, b.unique(), 1)
		if err != nil {
			return err
		}
		had := 0
		for _, size := range upTo(b.Shards, 100, 1000, 10_000, 100_000, 1_000_000) {
			b.say("growth, %s: making %s", report.ByShards, report.Number(float64(size)))
			if err := writeShards(ctx, clients, had, size); err != nil {
				return err
			}
			had = size
			for _, used := range []struct {
				curve  string
				shards int
			}{{report.ByShards, min(size, growingShards)}, {report.ByUsed, size}} {
				w := &work{clients: clients, shard: ownPart(len(clients), used.shards), mode: b.Mode}
				if err := b.measure(ctx, point{used.curve, size, g, probe}, len(clients), b.turn(w)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// growAgents lets more agents share the sidecar of the one that works: they see each decision and do nothing.
func (b *bench) growAgents(ctx context.Context) error {
	for _, size := range upTo(b.Agents, 1, 4, 16, 64, 256) {
		b.say("growth, %s: starting %d", report.ByAgents, size)
		err := b.on(ctx, b.Sidecars, nil, func(ctx context.Context, g *ground.Ground) error {
			probe, _, end, err := b.loop(ctx, g, probeInFlight)
			if err != nil {
				return err
			}
			defer end()
			clients, err := b.growingOn(ctx, g, b.unique(), 1+size)
			if err != nil {
				return err
			}
			w := &work{clients: clients, shard: ownPart(len(clients), growingShards), mode: b.Mode}
			return b.measure(ctx, point{report.ByAgents, size, g, probe}, len(clients), b.turn(w))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// growWorkspaces spreads the same work over more workspaces, each with a sidecar of its own in this process: so their
// number costs what it costs, and no process more.
func (b *bench) growWorkspaces(ctx context.Context) error {
	defer func(was string) { b.Sidecars = was }(b.Sidecars)
	b.Sidecars = Inside // and so the figures say
	sizes := upTo(b.Workspaces, 1, 4, 16, 64)
	clients := sizes[len(sizes)-1]
	for _, size := range sizes {
		b.say("growth, %s: starting %d", report.ByWorkspaces, size)
		err := b.on(ctx, Inside, nil, func(ctx context.Context, g *ground.Ground) error {
			probe, _, end, err := b.loop(ctx, g, probeInFlight)
			if err != nil {
				return err
			}
			defer end()
			var agents []*client.Client
			for range size {
				one, err := b.agentsOn(ctx, g, false, nil, 1)
				if err != nil {
					return err
				}
				agents = append(agents, one...)
			}
			w := &work{clients: sessions(agents, clients), shard: ownOf, mode: b.Mode}
			return b.measure(ctx, point{report.ByWorkspaces, size, g, probe}, clients, b.turn(w))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// growingOn starts a sidecar of so many agents, and returns the clients of the first one.
func (b *bench) growingOn(ctx context.Context, g *ground.Ground, workspace string, agents int,
) ([]*client.Client, error) {
	doors, err := g.Doors(ctx, workspace, false, agentNames("agent", agents)...)
	if err != nil {
		return nil, err
	}
	c := client.New(doors[0].URL, doors[0].Token, client.WithWorkspace(workspace))
	return sessions([]*client.Client{c}, cmp.Or(b.Clients, growingClients)), nil
}

// ownPart gives each client shards of its own, and of these any: no client is refused, however many there are.
func ownPart(clients, shards int) func(int) int {
	own := anyOf(max(1, shards/clients))
	return func(worker int) int { return own(0)*clients + worker }
}

// writeShards makes the shards of a workspace from one number to another, many in each commit.
func writeShards(ctx context.Context, clients []*client.Client, from, to int) error {
	const together = 200 // of the 256 that a transaction may have
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make(chan int)
	var writers sync.WaitGroup
	for _, c := range clients {
		writers.Go(func() {
			for first := range parts {
				var writes []client.Write
				for n := first; n < min(first+together, to); n++ {
					writes = append(writes, client.Write{Scope: scopeOf(n), Content: []byte(content)})
				}
				_, _, err := again(ctx, func() (time.Duration, client.Decision, error) {
					done, err := c.Commit(ctx, client.Commit{Writes: writes})
					return 0, done.Decision, err
				})
				if err != nil {
					cancel(fmt.Errorf("write %s from the %d. on: %w", show.Several(to-from, "shard"), first, err))
				}
			}
		})
	}
	for first := from; first < to && ctx.Err() == nil; first += together {
		select {
		case parts <- first:
		case <-ctx.Done():
		}
	}
	close(parts)
	writers.Wait()
	return context.Cause(ctx)
}
