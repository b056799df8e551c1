package bench

import (
	"context"
	"fmt"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/postgres"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/sidecar/client"
)

const (
	// probeInFlight is how many records the bare loop has under way where only its drift is looked at.
	probeInFlight = 8
	// mostEach is how many agents have a sidecar process each: more would measure how a machine does with so many.
	mostEach = 32
)

// ways are those in which agents can meet on a shard. In mode optimistic a turn is of two requests, unless it reads
// for update. A read in the other modes does not wait for those before it to commit; one for update does, in each.
func ways() []work {
	return []work{{mode: "optimistic"}, {mode: "optimistic", update: true}, {mode: "ordered", claims: true},
		{mode: "ordered", claims: true, update: true}, {mode: "locked"}, {mode: "locked", update: true}}
}

// contention measures turns of many agents, each on a shard of its own or all on one, in each order mode: in one
// sidecar, and where sidecars are processes with one for each agent, too.
func (b *bench) contention(ctx context.Context) error {
	shapes := map[string]string{b.Sidecars: b.shape()}
	if b.Sidecars == One {
		shapes[Each] = report.EachCar
	}
	for _, sidecars := range []string{Inside, One, Each} {
		system, wanted := shapes[sidecars]
		if !wanted {
			continue
		}
		b.say("contention: starting %s", system)
		err := b.on(ctx, sidecars, nil, func(ctx context.Context, g *ground.Ground) error {
			return b.contentionOn(ctx, g, system, sidecars == Each)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// meeting is agents that meet, on one ground.
type meeting struct {
	*bench
	ground *ground.Ground
	system string // what the report calls Hence on it
	probe  func(context.Context) (float64, error)
}

func (b *bench) contentionOn(ctx context.Context, g *ground.Ground, system string, each bool) error {
	probe, _, end, err := b.loop(ctx, g, probeInFlight)
	if err != nil {
		return err
	}
	defer end()
	m := &meeting{b, g, system, probe}
	sizes := or(b.Agents, 4, 8, 32, 128)
	most := sizes[len(sizes)-1]
	if each && b.Agents == 0 {
		most = mostEach
	}
	agents, err := b.agentsOn(ctx, g, each, nil, most)
	if err != nil {
		return err
	}
	for _, n := range sizes {
		for _, hot := range []bool{false, true} {
			if n > most {
				continue
			}
			if err := m.of(ctx, agents[:n], hot); err != nil {
				return err
			}
		}
	}
	return nil
}

// of measures all ways of so many agents, and the same turns on PostgreSQL, in one run.
func (m *meeting) of(ctx context.Context, agents []*client.Client, hot bool) error {
	n := len(agents)
	shard, shards, name := ownOf, n, fmt.Sprintf("%d agents, disjoint", n)
	if hot {
		shard, shards, name = anyOf(1), 1, fmt.Sprintf("%d agents, hot", n)
	}
	var table *postgres.Table
	if m.Postgres != "" {
		var err error
		table, err = postgres.Open(ctx, m.Postgres, m.unique(), n, shards, content, shard)
		if err != nil { // it may take fewer connections: Hence is measured all the same
			m.once("contention: PostgreSQL with %d connections: %v", n, err)
		} else {
			defer table.Close()
		}
	}
	return m.rounds(ctx, "contention, "+name+", "+m.system, m.probe, func(ctx context.Context, r *round) error {
		spec, theirs := load.Spec{Workers: n, For: m.For / 2, Rate: m.Rate}, 0.0
		if table != nil {
			got, err := m.warmed(ctx, spec, table.Turn)
			if err != nil {
				return fmt.Errorf("PostgreSQL: %w", err)
			}
			theirs = m.put(r, name, report.Postgres, got)
		}
		for _, w := range ways() {
			w.clients, w.shard = agents, shard
			if err := m.way(ctx, r, spec, name, &w, theirs); err != nil {
				return fmt.Errorf("%s: %w", w.name(), err)
			}
		}
		return nil
	})
}

// way measures one way, beside the rate of PostgreSQL if that is known.
func (m *meeting) way(ctx context.Context, r *round, spec load.Spec, name string, w *work, theirs float64) error {
	turn := w.four
	if w.mode == "optimistic" && !w.update {
		turn = w.two
	}
	if _, err := load.Run(ctx, load.Spec{Workers: spec.Workers, For: spec.For / 5}, turn); err != nil {
		return err
	}
	groups, unseen := m.ground.Processes()
	if unseen != nil {
		m.once("the processor time of some servers is not counted: %v", unseen)
	}
	got, used, err := metered(ctx, groups, spec, turn)
	if err != nil {
		return err
	}
	system := m.system + ", " + w.name()
	rate, all := m.put(r, name, system, got), 0.0
	for i, group := range groups {
		if !group.Load {
			all += used[i]
		}
	}
	if unseen == nil {
		r.put(report.Contention, name, system, report.CPUCommit, all)
	}
	if theirs > 0 {
		r.put(report.Contention, name, system, report.OfPostgres, rate/theirs)
	}
	return nil
}

// put notes what turns came to.
func (m *meeting) put(r *round, name, system string, got load.Result) (rate float64) {
	r.put(report.Contention, name, system, report.Rate, got.Rate())
	r.put(report.Contention, name, system, report.Refusals, float64(got.Refused)/float64(max(1, got.Turns)))
	r.quantiles(report.Contention, name, system, got.Whole)
	return got.Rate()
}
