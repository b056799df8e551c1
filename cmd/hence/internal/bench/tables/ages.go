package tables

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/topology/pause"
)

// aged is how old reads were when commits that rest on them were accepted.
type aged struct {
	ms              []float64
	inStep, commits int
	refused, stale  int // stale: accepted, though what it read had moved
}

// turnsOf lets agents read a neighbour's shard and their own, work for so many steps at most, and commit; again if
// they are refused.
func turnsOf(ctx context.Context, e *Env, b *bus, run string, agents, each, most int) (out aged, err error) {
	const step = 2 * time.Millisecond
	key := func(i int) string { return fmt.Sprint(run, "-", i%agents) }
	for i := range agents {
		if err := b.create(ctx, key(i)); err != nil {
			return out, err
		}
	}
	var mu sync.Mutex
	turn := func(i, span int, think func() time.Duration) (done bool, err error) {
		own, err := b.get(ctx, key(i), "")
		var neighbour shown
		if err == nil {
			neighbour, err = b.get(ctx, key(i+1), key(i))
		}
		began := time.Now()
		for range span - 1 {
			if err == nil {
				err = pause.Sleep(ctx, think())
			}
		}
		// The neighbour's shard only grows: if it has moved before the commit, the commit must not be accepted.
		var now shown
		if err == nil {
			now, err = b.get(ctx, key(i+1), "")
		}
		if err == nil {
			done, err = b.commit(ctx, key(i), key(i), "work", own.Version)
		}
		mu.Lock()
		defer mu.Unlock()
		if !done {
			out.refused++
			return false, err
		}
		out.commits++
		out.ms = append(out.ms, milliseconds(time.Since(began)))
		if span == 1 {
			out.inStep++
		}
		if now.Version != neighbour.Version {
			out.stale++
		}
		return true, err
	}
	err = together(agents, func(i int) error {
		chance := e.chance(key(i))
		think := func() time.Duration { return time.Duration(math.Exp(chance.NormFloat64()/2) * float64(step)) }
		for range each {
			for done := false; !done; {
				var err error
				if done, err = turn(i, 1+chance.IntN(most), think); err != nil {
					return err
				}
			}
		}
		return nil
	})
	slices.Sort(out.ms)
	return out, err
}

func ages(ctx context.Context, e *Env) (Result, error) {
	const agents, most = 4, 8
	each := e.of(12, 500)
	ours, theirs, err := beside(ctx, e, []rule{ownVersion}, func(ctx context.Context, b *bus) (out [2]aged, err error) {
		if out[0], err = turnsOf(ctx, e, b, "one", agents, each, 1); err == nil {
			out[1], err = turnsOf(ctx, e, b, "many", agents, each, most)
		}
		return out, err
	})
	if err != nil {
		return Result{}, err
	}
	text := func(a aged) string {
		return fmt.Sprintf("%s in one step, reads %s ms old in the middle and %s at the end, %d refused",
			of(a.inStep, a.commits), digits(report.Quantile(a.ms, .5)), digits(report.Quantile(a.ms, .99)), a.refused)
	}
	one, many, bare := ours[0], ours[1], theirs[0][1]
	return Result{Ours: fmt.Sprintf("as the harness has it: %s; turns of up to %d steps: %s; %d rest on what had moved",
		text(one), most, text(many), one.stale+many.stale),
		Baseline: fmt.Sprintf("%v, turns of up to %d steps: %s; %d rest on what had moved", ownVersion, most,
			text(bare), bare.stale),
		Verdict: holds(one.inStep == one.commits && one.commits == agents*each && many.commits == agents*each &&
			many.inStep < many.commits && one.stale+many.stale == 0 && bare.stale > 0),
		Note: "that all lie in one step is the shape of the harness, whose agents read and write in one; those that work " +
			"for longer rest on older reads, and are refused instead. Steps are scripted, with drawn lengths; the demo's and " +
			"the retail runs are not among them"}, nil
}
