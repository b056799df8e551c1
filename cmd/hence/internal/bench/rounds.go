package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/floor"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
)

// round is what one run has measured.
type round struct {
	keys   []report.Key
	values map[report.Key]float64

	curve string  // what grows, where the values are points of a curve
	at    float64 // how large that is
}

// put notes a value.
func (r *round) put(subject, load, system, name string, value float64) {
	k := report.Key{Subject: subject, Case: load, System: system, Name: name}
	if _, ok := r.values[k]; !ok {
		r.keys = append(r.keys, k)
	}
	r.values[k] = value
}

// quantiles notes the median and the 99th percentile of sorted milliseconds.
func (r *round) quantiles(subject, load, system string, sorted []float64) {
	r.put(subject, load, system, report.P50, report.Quantile(sorted, 0.5))
	r.put(subject, load, system, report.P99, report.Quantile(sorted, 0.99))
}

// rounds repeats a measurement until enough runs count. The probe is measured before and after each: where the two
// differ by more than report.VoidAbove something else had the machine, and the run is made again, up to as many times
// again. Where every run was void the figures are of those, and say so. A run that fails is noted and made again, too:
// one lost answer is no reason to lose the others. A nil probe voids nothing.
func (b *bench) rounds(ctx context.Context, what string, probe func(context.Context) (float64, error),
	measure func(context.Context, *round) error) error {
	if probe == nil {
		probe = func(context.Context) (float64, error) { return 1, nil }
	}
	var counted, void []round
	var failed error
	for made := 0; len(counted) < b.Runs && made < 2*b.Runs; made++ {
		b.say("%s: run %d of %d%s", what, len(counted)+1, b.Runs, voids(made-len(counted)))
		r := round{values: map[report.Key]float64{}}
		var after float64
		before, err := probe(ctx)
		if err == nil {
			err = measure(ctx, &r)
		}
		if err == nil {
			after, err = probe(ctx)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failed = fmt.Errorf("%s: %w", what, err)
			b.once("a run failed: %v", failed)
			continue
		}
		if report.Drift(before, after) > report.VoidAbove {
			void = append(void, r)
		} else {
			counted = append(counted, r)
		}
	}
	switch {
	case len(counted) > 0:
		b.keep(counted, len(void), false)
	case len(void) > 0:
		b.keep(void, 0, true)
	default:
		return failed
	}
	return nil
}

func voids(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d void)", n)
}

// keep adds the figures of several runs to the report; what it has from another ground already stays.
func (b *bench) keep(all []round, void int, noisy bool) {
	var keys []report.Key
	for _, r := range all {
		for _, k := range r.keys {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	for _, k := range keys {
		if _, ok := b.out.Find(k); ok {
			continue
		}
		var values []float64
		for _, r := range all {
			// A topic into which one run wrote nothing is named by the others alone.
			if v, ok := r.values[k]; ok || k.Written() {
				values = append(values, v)
			}
		}
		b.out.Add(k, values, void, noisy)
		b.out.Place(k, all[0].curve, all[0].at)
	}
}

// spec is how turns are made by so many clients.
func (b *bench) spec(clients int) load.Spec {
	return load.Spec{Workers: clients, For: b.For, Rate: b.Rate}
}

// warmed makes turns for a while before those that count: connections, plans and pages are there then.
func (b *bench) warmed(ctx context.Context, s load.Spec, turn load.Turn) (load.Result, error) {
	if _, err := load.Run(ctx, load.Spec{Workers: s.Workers, For: s.For / 5}, turn); err != nil {
		return load.Result{}, err
	}
	return load.Run(ctx, s, turn)
}

// loop opens the bare loop and returns the probe that it is: its rate with so many records in flight. The last rate
// and its latencies are in the result.
func (b *bench) loop(ctx context.Context, g *ground.Ground, inFlight int,
) (probe func(context.Context) (float64, error), last *load.Result, end func(), err error) {
	path, err := floor.OpenLoop(ctx, g.Servers, b.unique())
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open the bare loop: %w", err)
	}
	last = new(load.Result)
	probe = func(ctx context.Context) (_ float64, err error) {
		*last, err = b.warmed(ctx, load.Spec{Workers: inFlight, For: max(b.For/3, 300*time.Millisecond)}, path.Turn)
		return last.Rate(), err
	}
	return probe, last, path.Close, nil
}
