package tables

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/topology/lightcone"
)

// inverts says whether some clocks that are off by at most so much, in whole units, put an effect before its cause; a
// tie is put in the order of causes, or against it.
func inverts(uncertainty, distance int, tie bool) bool {
	return distance-2*uncertainty < 0 || !tie && distance == 2*uncertainty // both clocks at their ends
}

func clockBound(_ context.Context, e *Env) (Result, error) {
	differ, cases, ties, below := 0, 0, 0, 0
	for u := range 12 {
		for d := range 30 {
			cases++
			ordered := e.Subject.Wait(time.Duration(u), time.Duration(d)) == 0
			worst := false
			for cause := -u; cause <= u; cause++ {
				for effect := -u; effect <= u; effect++ {
					worst = worst || d+effect < cause
				}
			}
			if ordered == worst {
				differ++
			}
			if worst {
				below++
			}
			if inverts(u, d, false) && !inverts(u, d, true) {
				ties++
			}
		}
	}
	return Result{
		Ours: fmt.Sprintf("%d of %d pairs of error and distance differ from all clocks", differ, cases),
		Baseline: fmt.Sprintf("all clocks: %d pairs invert, and %d more, where the bound is met exactly, without a "+
			"tie-break "+
			"by causes", below, ties),
		Verdict: holds(differ == 0 && ties > 0 && below > 0)}, nil
}

// shares are the distances of the paper's plot, in units of twice the uncertainty.
func shares() []float64 { return []float64{0, .25, .5, .75, 1} }

// drawn counts in how many of so many draws the effect's timestamp is below its cause's.
func drawn(chance *rand.Rand, share float64, n int) (inverted int) {
	for range n {
		if share*2+chance.Float64()*2 < chance.Float64()*2 {
			inverted++
		}
	}
	return inverted
}

func inversions(_ context.Context, e *Env) (Result, error) {
	chance, n, inside := e.chance("inversions"), e.of(20_000, 1_000_000), 0
	var ours, theirs []string
	var x, y, z []float64
	for _, share := range shares() {
		got := e.Subject.Inversion(time.Second, time.Duration(share*float64(2*time.Second)))
		k := drawn(chance, share, n)
		if margin := 4 * math.Sqrt(max(got*(1-got), 1e-12)/float64(n)); math.Abs(float64(k)/float64(n)-got) <= margin {
			inside++
		}
		if math.Abs(got-(1-share)*(1-share)/2) > 1e-9 {
			inside--
		}
		ours, theirs = append(ours, digits(got)), append(theirs, digits(float64(k)/float64(n)))
		x, y, z = append(x, share), append(y, got), append(z, float64(k)/float64(n))
	}
	return Result{Ours: strings.Join(ours, ", "),
		Baseline: fmt.Sprintf("drawn %d times each: %s", n, strings.Join(theirs, ", ")),
		Verdict:  holds(inside == len(shares())),
		Plots: []report.Plot{{Title: "chance of an inverted edge by distance over twice the uncertainty",
			Lines: []report.Line{{Name: "formula", X: x, Y: y}, {Name: "drawn", X: x, Y: z}}}}}, nil
}

func clocksNeeded(_ context.Context, e *Env) (Result, error) {
	const link = time.Second
	needed := e.Subject.Needed(link, 1e6, 1e-6) / float64(link)
	// The same at a risk that can be drawn: edges that are all honest with a chance of one half.
	const edges = 100
	u := e.Subject.Needed(link, edges, .5)
	chance, runs, honest := e.chance("needed"), e.of(2_000, 50_000), 0
	for range runs {
		if drawn(chance, float64(link)/(2*u), edges) == 0 {
			honest++
		}
	}
	return Result{Ours: digits(needed) + " of the link's latency",
		Baseline: fmt.Sprintf("drawn with the error for one half: %s runs of %d edges are honest", percent(honest, runs),
			edges),
		Verdict: holds(math.Abs(needed-.5000007) < 1e-6 && float64(honest)/float64(runs) >= .5)}, nil
}

func normalClocks(_ context.Context, e *Env) (Result, error) {
	chance, n, positive := e.chance("normal"), e.of(20_000, 1_000_000), 0
	var ours []string
	var x, y []float64
	inside := true
	for k := range 7 {
		got := e.Subject.Normal(time.Second, time.Duration(k)*time.Second)
		if got > 0 {
			positive++
		}
		if k < 4 { // what can be drawn
			inverted := 0
			for range n {
				if float64(k)+chance.NormFloat64() < chance.NormFloat64() {
					inverted++
				}
			}
			inside = inside && math.Abs(float64(inverted)/float64(n)-got) <= 4*math.Sqrt(got*(1-got)/float64(n))
		}
		ours, x, y = append(ours, digits(got)), append(x, float64(k)), append(y, got)
	}
	return Result{Ours: "at zero to six deviations: " + strings.Join(ours, ", "),
		Baseline: fmt.Sprintf("the first ones drawn %d times each", n),
		Verdict:  holds(positive == len(ours) && inside),
		Plots: []report.Plot{{Title: "chance of an inverted edge by distance in deviations",
			Lines: []report.Line{{Name: "normal errors", X: x, Y: y}}}}}, nil
}

func wholeRuns(_ context.Context, e *Env) (Result, error) {
	chance, runs, inside, cells := e.chance("whole"), e.of(300, 5_000), 0, 0
	out := Result{Plots: []report.Plot{{Title: "chance that a run is honest by twice the uncertainty over distance"}}}
	for _, edges := range []int{10, 100, 1000} {
		var x, y []float64
		for _, ratio := range []float64{.5, 1, 1.25, 1.5, 2} {
			one := e.Subject.Inversion(time.Duration(ratio*float64(time.Second)/2), time.Second)
			want := math.Pow(1-one, float64(edges))
			honest := 0
			for range runs {
				if drawn(chance, 1/ratio, edges) == 0 {
					honest++
				}
			}
			cells++
			if math.Abs(float64(honest)/float64(runs)-want) <= 4*math.Sqrt(max(want*(1-want), 1/float64(runs))/float64(runs)) {
				inside++
			}
			x, y = append(x, ratio), append(y, want)
		}
		out.Plots[0].Lines = append(out.Plots[0].Lines, report.Line{Name: fmt.Sprintf("%d edges", edges), X: x, Y: y})
	}
	lines := out.Plots[0].Lines
	flat := lines[0].Y[1] == 1 && lines[1].Y[1] == 1 && lines[0].Y[2] > lines[1].Y[2] && lines[1].Y[2] > lines[2].Y[2]
	out.Ours = fmt.Sprintf("at a ratio of one and a quarter: %s, %s, %s", digits(lines[0].Y[2]), digits(lines[1].Y[2]),
		digits(lines[2].Y[2]))
	out.Baseline = fmt.Sprintf("%d of %d cells agree with %d drawn runs each", inside, cells, runs)
	out.Verdict = holds(inside == cells && flat)
	out.Note = "the paper gives neither deviation nor edges of its plot: these are ours"
	return out, nil
}

func waits(_ context.Context, e *Env) (Result, error) {
	differ, cases := 0, 0
	for u := range 10 {
		for d := range 25 {
			cases++
			first := 0
			for inverts(u, d+first, true) {
				first++
			}
			if got := e.Subject.Wait(time.Duration(u), time.Duration(d)); got != time.Duration(first) {
				differ++
			}
		}
	}
	const u = 7
	link, realTime := e.Subject.Wait(u, 2*u), e.Subject.Wait(u, 0)
	return Result{Ours: fmt.Sprintf("%d of %d first waits without a violation differ; over a slow link %d, for real "+
		"time %s "+
		"times the error", differ, cases, int(link), digits(float64(realTime)/u)),
		Verdict: holds(differ == 0 && link == 0 && realTime == 2*u)}, nil
}

// skewed are runs of several nodes whose messages cross a link; it counts inverted edges in each.
func skewed(chance *rand.Rand, runs, edges int, ratio float64, node bool) (mean, variance float64, whole int) {
	var sum, squares float64
	for range runs {
		inverted := 0
		one, other := chance.Float64(), chance.Float64()
		for range edges {
			if !node { // an error for each operation
				one, other = chance.Float64(), chance.Float64()
			}
			if 1/ratio+other < one { // errors in units of twice the uncertainty
				inverted++
			}
		}
		if inverted == 0 {
			whole++
		}
		sum, squares = sum+float64(inverted), squares+float64(inverted)*float64(inverted)
	}
	n := float64(runs)
	return sum / n, squares/n - sum/n*(sum/n), whole
}

func biased(_ context.Context, e *Env) (Result, error) {
	chance, runs := e.chance("biased"), e.of(2_000, 50_000)
	const edges = 20
	mean, variance, _ := skewed(chance, runs, edges, 1.5, true)
	free, freeVariance, _ := skewed(chance, runs, edges, 1.5, false)
	_, _, atBound := skewed(chance, runs, edges, 1, true)
	_, _, freeAtBound := skewed(chance, runs, edges, 1, false)
	threshold := e.Subject.Wait(1, 2) == 0 && e.Subject.Wait(2, 3) > 0
	return Result{
		Ours: fmt.Sprintf("errors of nodes: %s inverted a run, variance %s; at the bound %s are honest", digits(mean),
			digits(variance), of(atBound, runs)),
		Baseline: fmt.Sprintf("errors of operations: %s inverted a run, variance %s; at the bound %s", digits(free),
			digits(freeVariance), of(freeAtBound, runs)),
		Verdict: holds(threshold && atBound == runs && freeAtBound == runs && variance > 2*freeVariance &&
			math.Abs(mean-free) < .2*free)}, nil
}

// posted are random messages of nodes with skewed clocks, each after some that its node had received.
func posted(chance *rand.Rand, n, nodes int, skew float64) (h lightcone.History, stamps []float64) {
	off, seen := make([]float64, nodes), make([][]int, nodes)
	for i := range off {
		off[i] = (chance.Float64()*2 - 1) * skew
	}
	for i := range n {
		node := chance.IntN(nodes)
		m := lightcone.Message{Name: fmt.Sprint("m", i)}
		if k := len(seen[node]); k > 0 {
			m.Causes = append(m.Causes, seen[node][k-1])
			if chance.IntN(2) == 0 {
				m.Causes = append(m.Causes, seen[node][chance.IntN(k)])
			}
		}
		h.Messages, h.Order = append(h.Messages, m), append(h.Order, i)
		stamps = append(stamps, float64(i)+off[node])
		seen[node] = append(seen[node], i)
		if to := chance.IntN(nodes); to != node {
			seen[to] = append(seen[to], i)
		}
	}
	return h, stamps
}

func noClock(_ context.Context, e *Env) (Result, error) {
	chance, runs := e.chance("no clock"), e.of(100, 2_000)
	const hour = 3600
	scars := [3]int{}
	for range runs {
		h, stamps := posted(chance, 20, 3, hour)
		for i, order := range [][]int{positions(len(stamps)), byVector(h), byStamp(stamps)} {
			h.Order = order
			scars[i] += len(e.Subject.Scars(h))
		}
	}
	return Result{
		Ours:     fmt.Sprintf("one point of append: %d scars in %d runs; by dependencies: %d", scars[0], runs, scars[1]),
		Baseline: fmt.Sprintf("by timestamps that are off by an hour: %d", scars[2]),
		Verdict:  holds(scars[0] == 0 && scars[1] == 0 && scars[2] > 0)}, nil
}
