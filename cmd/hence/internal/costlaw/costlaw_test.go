package costlaw_test

import (
	"math"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/costlaw"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
)

const seeds = 30

// on opens stores of a runtime.
func on(kinds ...runtimes.Kind) func(costlaw.Shape, uint64) (costlaw.Store, error) {
	return func(costlaw.Shape, uint64) (costlaw.Store, error) { return costlaw.NewRuntime(kinds...), nil }
}

func measured(t *testing.T, redo costlaw.Redo, kinds ...runtimes.Kind) costlaw.Fit {
	t.Helper()
	points, err := costlaw.Measure(t.Context(), costlaw.Shapes(), seeds, redo, on(kinds...))
	if err != nil {
		t.Fatal(err)
	}
	fit := costlaw.Fitted(points)
	t.Logf("%v, redo %d: %+v", kinds, redo, fit)
	return fit
}

// holds says whether a fit is that of a runtime that spends nothing but the refused generations again.
func holds(f costlaw.Fit) bool {
	return f.Slope >= 0.95 && f.Slope <= 1.05 && f.InterceptLow <= 0 && f.InterceptHigh >= 0 && f.R2 > 0.9
}

// TestLaw holds that a refusal costs one generation, in each runtime that refuses; and that a runtime which does
// everything again is told apart.
func TestLaw(t *testing.T) {
	for _, kinds := range [][]runtimes.Kind{{runtimes.Snapshot}, {runtimes.Serializable}, {runtimes.Cascade},
		{runtimes.Cascade, runtimes.Sequencer, runtimes.RegistryValidate}} {
		if f := measured(t, costlaw.Own, kinds...); !holds(f) || f.Points != 9*seeds {
			t.Errorf("%v: %+v", kinds, f)
		}
	}
	if f := measured(t, costlaw.Everything, runtimes.Serializable); f.Slope <= 1.5 || holds(f) {
		t.Errorf("everything again: %+v", f)
	}
}

// TestShapes holds that commits are refused as often as the formula says, and that there is A1 exactly where no guard
// refuses.
func TestShapes(t *testing.T) {
	for _, shape := range costlaw.Shapes() {
		refused, stale := 0, 0
		for seed := uint64(1); seed <= seeds; seed++ {
			bare, guarded := costlaw.NewRuntime(runtimes.Vanilla), costlaw.NewRuntime(runtimes.Serializable)
			free, err := costlaw.Run(t.Context(), bare, shape, seed, costlaw.Own)
			if err != nil {
				t.Fatal(err)
			}
			spent, err := costlaw.Run(t.Context(), guarded, shape, seed, costlaw.Own)
			if err != nil {
				t.Fatal(err)
			}
			if free.Aborted != 0 || free.Generations != shape.Agents ||
				spent.Generations != shape.Agents+spent.Aborted || guarded.Stale() {
				t.Errorf("%+v, seed %d: %+v without, %+v with, stale %v", shape, seed, free, spent, guarded.Stale())
			}
			if bare.Stale() != (spent.Aborted > 0) {
				t.Errorf("%+v, seed %d: stale without %v, %d refused with", shape, seed, bare.Stale(), spent.Aborted)
			}
			refused += spent.Aborted
			if bare.Stale() {
				stale++
			}
		}
		rate := float64(refused) / float64(seeds*shape.Agents)
		if math.Abs(rate-shape.Expected()) > 0.06 || shape.Cells == 1 && rate != shape.Expected() {
			t.Errorf("%+v: %.3f refused, expected %.3f", shape, rate, shape.Expected())
		}
		t.Logf("%+v: %.3f refused, expected %.3f; A1 in %d of %d sessions without a guard", shape, rate, shape.Expected(),
			stale, seeds)
	}
}

// TestFitted holds the fit against one that was computed by hand: y = 1 + 2x with residuals 1, -2, 1 at x = 0, 1, 2.
func TestFitted(t *testing.T) {
	var points []costlaw.Point
	for x, y := range []float64{2, 1, 6} {
		points = append(points, costlaw.Point{Aborts: float64(x), Overhead: y})
	}
	f := costlaw.Fitted(points)
	// The residuals' squares sum to 6 with one degree of freedom; those of y around its mean 3 to 14, of x to 2.
	if math.Abs(f.Slope-2) > 1e-9 || math.Abs(f.Intercept-1) > 1e-9 || math.Abs(f.R2-(1-6.0/14)) > 1e-9 {
		t.Errorf("%+v", f)
	}
	// For 268 degrees of freedom tables have 1.9689, for 10 they have 2.2281.
	wide := make([]costlaw.Point, 12)
	for i := range wide {
		wide[i] = costlaw.Point{Aborts: float64(i%2)*2 - 1, Overhead: float64(i/2%2)*2 - 1}
	}
	w := costlaw.Fitted(wide) // slope 0: twelve residuals of 1, ten degrees of freedom, x around its mean sums to 12
	if want := 2.2281 * math.Sqrt(12.0/10) / math.Sqrt(12); math.Abs(w.SlopeHigh-w.Slope-want) > 1e-3 {
		t.Errorf("%+v, half an interval is %.4f", w, want)
	}
}
