package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/floor"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/spans"
	"github.com/hence-dev/hence/sidecar/client"
)

// traceEvery is of how many turns one makes spans.
const traceEvery = 8

// latency measures decisions beside the floor, and then, with spans, where their time goes.
func (b *bench) latency(ctx context.Context) error {
	if err := b.decisions(ctx); err != nil {
		return err
	}
	return b.parts(ctx)
}

func (b *bench) decisions(ctx context.Context) error {
	b.say("latency: starting")
	return b.on(ctx, b.Sidecars, nil, b.decisionsOn)
}

func (b *bench) decisionsOn(ctx context.Context, g *ground.Ground) error {
	agents, err := b.agentsOn(ctx, g, b.Sidecars == Each, nil, or(b.Agents, 8)[0])
	if err != nil {
		return err
	}
	least, err := floor.Open(ctx, g.Servers, b.unique())
	if err != nil {
		return fmt.Errorf("open the floor: %w", err)
	}
	defer least.Close()
	for _, n := range or(b.Clients, 1, 8, 64) {
		probe, last, end, err := b.loop(ctx, g, n)
		if err != nil {
			return err
		}
		turn := b.decision(sessions(agents, n))
		name := report.InFlight(n)
		err = b.rounds(ctx, "latency, "+name, probe, func(ctx context.Context, r *round) error {
			beneath, err := b.warmed(ctx, load.Spec{Workers: n, For: b.For, Rate: b.Rate}, least.Turn)
			if err != nil {
				return fmt.Errorf("floor: %w", err)
			}
			got, err := b.warmed(ctx, b.spec(n), turn)
			if err != nil {
				return err
			}
			r.quantiles(report.Latency, name, report.Loop, last.Decisions)
			floorTimes, times := b.times(beneath), b.times(got)
			r.quantiles(report.Latency, name, report.Floor, floorTimes)
			r.quantiles(report.Latency, name, b.shape(), times)
			for _, of := range []struct {
				name string
				q    float64
			}{{report.OfFloor50, 0.5}, {report.OfFloor99, 0.99}} {
				r.put(report.Latency, name, b.shape(), of.name, report.Quantile(times, of.q)/report.Quantile(floorTimes, of.q))
			}
			return nil
		})
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

// times are those that a reader of the report expects: with a rate from the intended start of a turn.
func (b *bench) times(got load.Result) []float64 {
	if b.Rate > 0 {
		return got.Whole
	}
	return got.Decisions
}

// decision is a turn of one request: each client commits to a shard of its own, whose version it knows, so that only
// the way of a decision is timed.
func (b *bench) decision(clients []*client.Client) load.Turn {
	versions := make([]*uint64, len(clients))
	return func(ctx context.Context, worker int) (time.Duration, int, error) {
		c, scope := clients[worker], scopeOf(ownOf(worker))
		if versions[worker] == nil {
			got, _, err := c.ReadAll(ctx, scope)
			if err != nil {
				return 0, 0, err
			}
			versions[worker] = &got[0].Version
		}
		return again(ctx, func() (time.Duration, client.Decision, error) {
			begin := time.Now()
			done, err := c.Commit(ctx, client.Commit{Mode: b.Mode,
				Reads:  []client.SeenAt{{Scope: scope, Version: versions[worker]}},
				Writes: []client.Write{{Scope: scope, Content: []byte(content)}}})
			took, seq := time.Since(begin), done.Decision.Seq
			if err == nil {
				versions[worker] = &seq
			}
			return took, done.Decision, err
		})
	}
}

// parts measures where the time of decisions goes, on a ground of its own that makes spans.
func (b *bench) parts(ctx context.Context) error {
	for _, n := range or(b.Clients, 1, 8, 64) {
		name := report.InFlight(n)
		err := b.rounds(ctx, "parts of a decision, "+name, nil, func(ctx context.Context, r *round) error {
			collector := spans.New()
			url, end, err := serve(collector.ServeHTTP)
			if err != nil {
				return err
			}
			defer end()
			err = b.on(ctx, b.Sidecars, func(o *ground.Options) { o.Traces = url },
				func(ctx context.Context, g *ground.Ground) error { return b.traced(ctx, g, n) })
			if err != nil {
				return err
			}
			for _, part := range collector.Parts() {
				if len(part.Took) == 0 {
					b.once("%s: no turn came with all of its spans", name)
					return nil
				}
				r.put(report.Parts, name, b.shape(), part.Name+", p50 µs", report.Quantile(part.Took, 0.5))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// traced makes decisions of which some make spans, and waits until those are sent.
func (b *bench) traced(ctx context.Context, g *ground.Ground, n int) error {
	sampled := client.WithHTTPClient(&http.Client{Transport: &spans.Sampler{Every: traceEvery,
		RoundTripper: &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}}})
	agents, err := b.agentsOn(ctx, g, b.Sidecars == Each, []client.Option{sampled}, or(b.Agents, 8)[0])
	if err == nil {
		_, err = b.warmed(ctx, b.spec(n), b.decision(sessions(agents, n)))
	}
	if err == nil {
		err = g.Spans(ctx)
	}
	if err != nil {
		return err
	}
	return b.rest(ctx) // children send theirs by themselves
}
