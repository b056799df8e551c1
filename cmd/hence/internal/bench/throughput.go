package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/floor"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/postgres"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/usage"
	"github.com/hence-dev/hence/sidecar/client"
)

// throughput measures commits a second: on the ground that was named, and with --all on the others that goals are
// about.
func (b *bench) throughput(ctx context.Context) error {
	if err := b.throughputOn(ctx, b.shape(), b.Sidecars, nil); err != nil || !b.All {
		return err
	}
	if b.Sidecars == One {
		if err := b.throughputOn(ctx, report.EachCar, Each, nil); err != nil {
			return err
		}
	}
	for _, data := range []bool{false, true} {
		system := report.InMemory
		if data {
			system = report.WithData
		}
		if system == b.shape() {
			continue // it was the first
		}
		err := b.throughputOn(ctx, system, Inside, func(o *ground.Options) { o.Brokers, o.NATS, o.Data = nil, "", data })
		if err != nil {
			return err
		}
	}
	return nil
}

// contest is one ground, and what is measured on it side by side.
type contest struct {
	*bench
	ground *ground.Ground
	system string           // what the report calls Hence on it
	agents []*client.Client // each has one connection pool
}

// throughputOn measures all loads on one ground.
func (b *bench) throughputOn(ctx context.Context, system, sidecars string, change func(*ground.Options)) error {
	b.say("throughput: starting %s", system)
	return b.on(ctx, sidecars, change, func(ctx context.Context, g *ground.Ground) (err error) {
		c := &contest{bench: b, ground: g, system: system}
		if c.agents, err = b.agentsOn(ctx, g, sidecars == Each, nil, or(b.Agents, 8)[0]); err != nil {
			return err
		}
		type size struct{ clients, shards int }
		sizes := []size{{1, 64}, {8, 64}, {32, 64}, {8, 1}}
		if b.Clients > 0 || b.Shards > 0 {
			sizes = []size{{or(b.Clients, 8)[0], or(b.Shards, 64)[0]}}
		}
		for _, s := range sizes {
			if err := c.at(ctx, s.clients, s.shards); err != nil {
				return err
			}
			if s.shards == 1 {
				if err := c.adding(ctx, s.clients); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// adding measures turns that only add to one shard, and PostgreSQL's that do, in one run.
func (c *contest) adding(ctx context.Context, clients int) error {
	probe, _, end, err := c.loop(ctx, c.ground, clients)
	if err != nil {
		return err
	}
	defer end()
	var table *postgres.Table
	if c.Postgres != "" {
		if table, err = postgres.OpenToAdd(ctx, c.Postgres, c.unique(), clients, addedRows, byLines(0)); err != nil {
			return err
		}
		defer table.Close()
	}
	name, ours, theirs := report.Load(clients, 1), report.Additive(c.system), report.Additive(report.Postgres)
	turn := (&work{clients: sessions(c.agents, clients), shard: byLines(1)}).adds // 0 is what other turns write whole
	what := fmt.Sprintf("throughput of %s, %s", ours, name)
	return c.rounds(ctx, what, probe, func(ctx context.Context, r *round) error {
		got, err := c.warmed(ctx, c.spec(clients), turn)
		if err != nil {
			return err
		}
		c.result(r, name, ours, got)
		if table == nil {
			return nil
		}
		other, err := c.warmed(ctx, c.spec(clients), table.Add(content))
		if err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		c.result(r, name, theirs, other)
		r.put(report.Throughput, name, ours, report.OfPostgres, got.Rate()/other.Rate())
		return nil
	})
}

// agentsOn are clients of so many agents in a workspace of their own.
func (b *bench) agentsOn(ctx context.Context, g *ground.Ground, each bool, options []client.Option, n int,
) (all []*client.Client, err error) {
	doors, workspace, err := b.doorsOn(ctx, g, each, n)
	for _, at := range doors {
		options := append([]client.Option{client.WithWorkspace(workspace)}, options...)
		all = append(all, client.New(at.URL, at.Token, options...))
	}
	return all, err
}

// at measures one load.
func (c *contest) at(ctx context.Context, clients, shards int) (err error) {
	name := report.Load(clients, shards)
	what := fmt.Sprintf("throughput of %s, %s", c.system, name)
	c.say("%s: preparing", what)
	probe, last, end, err := c.loop(ctx, c.ground, clients)
	if err != nil {
		return err
	}
	defer end()
	least, err := floor.Open(ctx, c.ground.Servers, c.unique())
	if err != nil {
		return fmt.Errorf("open the floor: %w", err)
	}
	defer least.Close()
	var table *postgres.Table
	if c.Postgres != "" {
		table, err = postgres.Open(ctx, c.Postgres, c.unique(), clients, shards, content,
			func(int) int { return rand.IntN(shards) })
		if err != nil {
			return err
		}
		defer table.Close()
		if c.out.Settings.Postgres, err = table.Settings(ctx); err != nil {
			return err
		}
	}
	most, err := c.ceiling(ctx, clients)
	if err != nil {
		return err
	}
	turn := c.turn(&work{clients: sessions(c.agents, clients), shard: anyOf(shards)})
	return c.rounds(ctx, what, probe, func(ctx context.Context, r *round) error {
		beneath := c.beneath()
		r.put(report.Throughput, name, report.Loop+beneath, report.Rate, last.Rate())
		r.quantiles(report.Throughput, name, report.Loop+beneath, last.Decisions)
		got, err := c.warmed(ctx, load.Spec{Workers: clients, For: c.For / 2}, least.Turn)
		if err != nil {
			return fmt.Errorf("floor: %w", err)
		}
		r.put(report.Throughput, name, report.Floor+beneath, report.Rate, got.Rate())
		r.quantiles(report.Throughput, name, report.Floor+beneath, got.Decisions)
		ours, err := c.counted(ctx, r, name, clients, turn)
		if err != nil {
			return err
		}
		r.put(report.Throughput, name, report.Generator, report.Rate, most)
		if table == nil {
			return nil
		}
		theirs, err := c.database(ctx, r, name, clients, table)
		if err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		r.put(report.Throughput, name, c.system, report.OfPostgres, ours.Rate()/theirs.Rate())
		return nil
	})
}

// database makes the turns of PostgreSQL.
func (c *contest) database(ctx context.Context, r *round, name string, clients int, table *postgres.Table,
) (got load.Result, err error) {
	if _, err := load.Run(ctx, load.Spec{Workers: clients, For: c.For / 5}, table.Turn); err != nil {
		return got, err
	}
	var groups []ground.Group
	address, unseen := postgres.Address(c.Postgres)
	if unseen == nil {
		var server int32
		server, unseen = usage.Listener(address)
		groups = []ground.Group{{PIDs: []int32{server}, Family: true}}
	}
	if unseen != nil {
		c.once("the processor time of PostgreSQL is not counted: %v", unseen)
		groups = nil
	}
	got, used, err := metered(ctx, groups, c.spec(clients), table.Turn)
	if err != nil {
		return got, err
	}
	c.result(r, name, report.Postgres, got)
	if groups != nil {
		r.put(report.CPU, name, report.Postgres+", of its own commits", report.CPUCommit, used[0])
	}
	return got, nil
}

// beneath tells the floor of other servers from that of the first ones.
func (c *contest) beneath() string {
	if c.system == c.shape() {
		return ""
	}
	return " under " + c.system
}

// result notes what turns came to. With a rate, times are from the intended start of a turn; else they are the last
// request's.
func (c *contest) result(r *round, name, system string, got load.Result) {
	r.put(report.Throughput, name, system, report.Rate, got.Rate())
	r.quantiles(report.Throughput, name, system, c.times(got))
	r.put(report.Throughput, name, system, report.Refusals, float64(got.Refused)/float64(max(1, got.Turns)))
}

// counted makes the turns of Hence, and counts what they cost: processor time, records, bytes.
func (c *contest) counted(ctx context.Context, r *round, name string, clients int, turn load.Turn,
) (load.Result, error) {
	if _, err := load.Run(ctx, load.Spec{Workers: clients, For: c.For / 5}, turn); err != nil {
		return load.Result{}, err
	}
	got, err := c.costed(ctx, c.ground, c.spec(clients), turn)
	if err != nil {
		return load.Result{}, err
	}
	c.result(r, name, c.system, got.Result)
	if c.system != c.shape() {
		name += ", " + c.system
	}
	got.put(r, report.CPU, report.Records, name)
	return got.Result, nil
}

// once notes what holds for many measurements.
func (b *bench) once(format string, args ...any) {
	text, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n") // what a child wrote before it ended is below
	for _, had := range b.out.Notes {
		if had == text {
			return
		}
	}
	b.out.Note("%s", text)
}
