package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
)

// mostBroken is how many commits of a writer may find nobody that answers.
const mostBroken = 100

// gap is how many milliseconds the longest commit takes while something dies.
func gap(ctx context.Context, w *writer, dies func() error) (float64, error) {
	w.longest = 0
	done := make(chan error, 1)
	go func() { done <- dies() }()
	for after := 0; after < 5; {
		if w.broken > mostBroken {
			return 0, errors.New("commits do not go on")
		}
		before := w.accepted
		w.write(ctx)
		select {
		case err := <-done:
			if err != nil {
				return 0, err
			}
			done <- nil
			after += w.accepted - before
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		default:
		}
	}
	return milliseconds(w.longest), nil
}

// leaders are gaps in milliseconds, sorted: of kills beside a second group, of a kill of the only processor that is
// started again, and of kills after which another member of the group takes over.
type leaders struct {
	calm, two, again, over []float64
	lost                   int
}

func newLeaders(ctx context.Context, f Fleet, kills, takeovers int) (out leaders, err error) {
	first, err := f.Processor(ctx, "a")
	if err != nil {
		return out, err
	}
	node, err := f.Sidecar(ctx)
	if err != nil {
		return out, err
	}
	all, err := writersAt(ctx, busesOf(node))
	if err != nil {
		return out, err
	}
	w := all[0]
	note := func(to *[]float64, dies func() error) {
		if err == nil {
			var one float64
			one, err = gap(ctx, w, dies)
			*to = append(*to, one)
			slices.Sort(*to)
		}
	}
	err = each(ctx, 20, w) // connections stand
	for range (kills + 1) / 2 {
		note(&out.again, func() error {
			if err := first.Kill(); err != nil {
				return err
			}
			return first.Start(ctx)
		})
	}
	if err != nil {
		return out, err
	}
	second, err := f.Processor(ctx, "b")
	if err != nil {
		return out, err
	}
	for range kills {
		for _, p := range []Part{first, second} {
			note(&out.calm, func() error { return nil })
			note(&out.two, p.Kill)
			if err == nil {
				err = p.Start(ctx)
			}
			if err == nil {
				err = each(ctx, 200, w) // it has caught up when the next one dies
			}
		}
	}
	if err != nil {
		return out, err
	}
	if takeovers > 0 {
		if err := second.Kill(); err != nil {
			return out, err
		}
		if second, err = f.Processor(ctx, "a"); err != nil {
			return out, err
		}
	}
	for range takeovers { // one of the two has the workspace
		var both []float64
		for _, p := range []Part{first, second} {
			note(&both, p.Kill)
			if err == nil {
				err = p.Start(ctx)
			}
		}
		if err != nil {
			return out, err
		}
		out.over = append(out.over, slices.Max(both))
		slices.Sort(out.over)
	}
	if err == nil {
		out.lost, err = missingAt(ctx, w.bus, all)
	}
	return out, err
}

func newLeader(ctx context.Context, e *Env) (Result, error) {
	const paper, bound = 1952, 50 // milliseconds: of the claim, and what two groups are to stay below
	got, err := onFleet(ctx, e, func(ctx context.Context, f Fleet) (leaders, error) {
		return newLeaders(ctx, f, e.of(1, 15), e.of(0, 3))
	})
	if err != nil {
		return Result{}, err
	}
	text := func(gaps []float64) string {
		var at []string
		for _, share := range []float64{.5, .99} {
			at = append(at, digits(report.Quantile(gaps, share)))
		}
		return fmt.Sprintf("%s ms, at most %s ms in %d kills", strings.Join(at, " and "), digits(slices.Max(gaps)),
			len(gaps))
	}
	note := ""
	if len(got.over) > 0 {
		note = ". Where another member of the one group takes over: " + text(got.over)
	}
	worst := slices.Max(got.two)
	return Result{
		Ours: fmt.Sprintf("two groups, the longest commit in the middle and of a hundred: %s; without a kill at most "+
			"%s ms; %d accepted commits lost", text(got.two), digits(slices.Max(got.calm)), got.lost),
		Baseline: "one group, its processor starts again: " + text(got.again),
		Verdict:  beats(got.lost == 0 && worst < paper, worst < bound),
		Note: "here the processor that owns a workspace's partition decides, so its kill stands for that of a leader; " +
			"with two groups none is elected, the other one has decided the same; one that has just come back may not " +
			"have caught up when the other dies. The broker is one and is not killed: what its own election takes is " +
			"Kafka's" + note}, nil
}
