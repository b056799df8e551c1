// Package load generates work and times it: so many workers that each begin a turn when the one before has ended, or
// a given number of turns a second, whatever the answers do.
package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Turn does one piece of work in the name of a worker, until it is done. Decision is how long its last request took,
// and refused how often it had to begin again.
type Turn func(ctx context.Context, worker int) (decision time.Duration, refused int, err error)

// Result is what a run of turns came to. Times are in milliseconds and sorted.
type Result struct {
	Turns     int
	Refused   int
	Took      time.Duration
	Decisions []float64 // of the last request of each turn
	Whole     []float64 // from the intended start of each turn to its end
}

// Rate is turns a second.
func (r *Result) Rate() float64 { return float64(r.Turns) / r.Took.Seconds() }

// Spec is how turns follow each other.
type Spec struct {
	Workers int           // turns at once, at most
	For     time.Duration // turns that have begun by then are ended
	Rate    float64       // turns a second; 0: each worker begins one after the other

	// Done is told the time of each turn from its intended start, as it ends. The result then has no times, which are
	// many in a long run. Workers call it at once.
	Done func(whole time.Duration)
}

// Run makes turns. With a rate, a turn's time begins when it was to begin: what waits for a free worker waits for the
// system, and is counted (a closed loop leaves it out, the "coordinated omission").
func Run(ctx context.Context, s Spec, turn Turn) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now()
	var next atomic.Int64
	// when says when the next turn is to begin; false: none is.
	when := func() (time.Time, bool) {
		at := time.Now()
		if s.Rate > 0 {
			at = begin.Add(time.Duration(float64(next.Add(1)-1) / s.Rate * float64(time.Second)))
		}
		return at, at.Sub(begin) < s.For
	}
	results := make([]Result, s.Workers)
	var workers sync.WaitGroup
	for worker := range s.Workers {
		workers.Go(func() {
			if err := work(ctx, worker, when, turn, s.Done, &results[worker]); err != nil {
				cancel(fmt.Errorf("worker %d: %w", worker, err))
			}
		})
	}
	workers.Wait()
	sum := Result{Took: time.Since(begin)}
	for _, r := range results {
		sum.Turns += r.Turns
		sum.Refused += r.Refused
		sum.Decisions = append(sum.Decisions, r.Decisions...)
		sum.Whole = append(sum.Whole, r.Whole...)
	}
	slices.Sort(sum.Decisions)
	slices.Sort(sum.Whole)
	return sum, context.Cause(ctx)
}

// work is one worker: it begins turns as long as there are any, and ends the one that it is at.
func work(ctx context.Context, worker int, when func() (time.Time, bool), turn Turn, done func(time.Duration),
	r *Result,
) error {
	for ctx.Err() == nil {
		at, ok := when()
		if !ok {
			return nil
		}
		if wait := time.Until(at); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return nil
			}
		}
		decision, refused, err := turn(ctx, worker)
		if err != nil {
			return err
		}
		r.Turns++
		r.Refused += refused
		if done != nil {
			done(time.Since(at))
			continue
		}
		r.Decisions = append(r.Decisions, Milliseconds(decision))
		r.Whole = append(r.Whole, Milliseconds(time.Since(at)))
	}
	return nil
}

// Milliseconds is a duration as figures have it.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
