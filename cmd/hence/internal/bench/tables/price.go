package tables

import (
	"context"
	"fmt"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/costlaw"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
)

// paired are sessions of all shapes on Hence, each beside the same one without guards. Wrong are those that are not
// what the law is about: where a commit was refused the unguarded session has an A1, and else it has none; and Hence
// refuses what a runtime that validates every read refuses, whose sessions have none.
func (e *Env) paired(ctx context.Context) (all []costlaw.Point, wrong int, err error) {
	most := 0
	for _, s := range costlaw.Shapes() {
		most = max(most, s.Agents)
	}
	place, err := e.Ground.Workspace(ctx, 1, most, "")
	if err != nil {
		return nil, 0, err
	}
	return measured(ctx, e.of(2, 20), func(s costlaw.Shape, seed uint64) costlaw.Store {
		return costlaw.NewHence(place.Agents, fmt.Sprintf("price/w%d-c%d-s%d", s.Agents, s.Cells, seed))
	}, costlaw.Own)
}

// measured are the pairs of any store.
func measured(ctx context.Context, seeds int, open func(costlaw.Shape, uint64) costlaw.Store, redo costlaw.Redo,
) (all []costlaw.Point, wrong int, err error) {
	all, err = costlaw.Measure(ctx, costlaw.Shapes(), seeds, redo,
		func(s costlaw.Shape, seed uint64) (costlaw.Store, error) { return open(s, seed), nil })
	if err != nil {
		return nil, 0, fmt.Errorf("measure sessions in pairs: %w", err)
	}
	for _, p := range all {
		bare, model := costlaw.NewRuntime(runtimes.Vanilla), costlaw.NewRuntime(runtimes.Serializable)
		if _, err := costlaw.Run(ctx, bare, p.Shape, p.Seed, costlaw.Own); err != nil {
			return nil, 0, fmt.Errorf("run without guards: %w", err)
		}
		spent, err := costlaw.Run(ctx, model, p.Shape, p.Seed, costlaw.Own)
		if err != nil {
			return nil, 0, fmt.Errorf("run with validated reads: %w", err)
		}
		refused := float64(spent.Aborted) / float64(spent.Operations)
		if bare.Stale() != (p.Aborts > 0) || model.Stale() || refused != p.Aborts {
			wrong++
		}
	}
	return all, wrong, nil
}

// within says whether an interval has a value.
func within(low, value, high float64) bool { return low <= value && value <= high }

// lawful says whether a fit is overhead = aborts: one generation is spent again for each refusal, and nothing else.
func lawful(f costlaw.Fit) bool {
	return within(f.InterceptLow, 0, f.InterceptHigh) && within(f.SlopeLow, 1, f.SlopeHigh)
}

// sweep are the points of one cell, or of several.
func sweep(all []costlaw.Point, one bool) (part []costlaw.Point) {
	for _, p := range all {
		if (p.Cells == 1) == one {
			part = append(part, p)
		}
	}
	return part
}

// law judges points: one line for all of them, and for each sweep the same.
func law(all []costlaw.Point, wrong int) Result {
	fit := costlaw.Fitted(all)
	agents, cells := costlaw.Fitted(sweep(all, true)), costlaw.Fitted(sweep(all, false))
	oneLine := agents.SlopeLow <= cells.SlopeHigh && cells.SlopeLow <= agents.SlopeHigh
	x, y := make([]float64, len(all)), make([]float64, len(all))
	for i, p := range all {
		x[i], y[i] = p.Aborts, p.Overhead
	}
	return Result{
		Ours: fmt.Sprintf("%.1f %% (%.1f to %.1f) + %.0f %% (%.0f to %.0f) · a, R² %.3f, over %d pairs",
			100*fit.Intercept, 100*fit.InterceptLow, 100*fit.InterceptHigh, 100*fit.Slope, 100*fit.SlopeLow,
			100*fit.SlopeHigh, fit.R2, fit.Points),
		Baseline: fmt.Sprintf("slope by agents %.0f %%, by cells %.0f %%; %d sessions are not as a runtime's that "+
			"validates reads", 100*agents.Slope, 100*cells.Slope, wrong),
		Verdict: holds(wrong == 0 && lawful(fit) && oneLine),
		Note: "generations of a scripted reader, of one size before and after a refusal: so the slope is one, and the " +
			"paper's is more by what a second prompt is longer",
		Plots: []report.Plot{{Title: "overhead by rate of aborts", Lines: []report.Line{{Name: "pairs", X: x, Y: y}}}}}
}

func costLaw(ctx context.Context, e *Env) (Result, error) {
	all, wrong, err := e.paired(ctx)
	if err != nil {
		return Result{}, err
	}
	return law(all, wrong), nil
}

// crossing judges where the overhead is a given share: by the fit, and by each shape's mean.
func crossing(all []costlaw.Point, wrong int) Result {
	const share, low = .15, .13 // low is the lower end of the paper's interval
	fit := costlaw.Fitted(all)
	at := (share - fit.Intercept) / fit.Slope
	apart, shapes := 0, costlaw.Shapes()
	least, of := costlaw.Point{Aborts: 1, Overhead: 1}, 0
	for _, shape := range shapes {
		var mean costlaw.Point
		n := 0.0
		for _, p := range all {
			if p.Shape == shape {
				mean.Aborts, mean.Overhead, n = mean.Aborts+p.Aborts, mean.Overhead+p.Overhead, n+1
			}
		}
		mean.Aborts, mean.Overhead = mean.Aborts/n, mean.Overhead/n
		if (mean.Aborts < at) != (mean.Overhead < share) {
			apart++
		}
		if mean.Aborts < at {
			of++
		}
		if mean.Aborts < least.Aborts {
			least = mean
		}
	}
	return Result{
		Ours: fmt.Sprintf("under %.0f %% up to %.3f; lowest rate %.3f, overhead %.1f %%", 100*share, at, least.Aborts,
			100*least.Overhead),
		Baseline: fmt.Sprintf("%d of %d shapes lie below, %d on another side than the fit says", of, len(shapes), apart),
		Verdict:  holds(wrong == 0 && apart == 0 && at >= low),
		Note:     "a prompt after a refusal is as long as before, which the paper's is not"}
}

func priceUnder(ctx context.Context, e *Env) (Result, error) {
	all, wrong, err := e.paired(ctx)
	if err != nil {
		return Result{}, err
	}
	return crossing(all, wrong), nil
}
