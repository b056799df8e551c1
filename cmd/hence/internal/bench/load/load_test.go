package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// takes is a turn that takes so long.
func takes(d time.Duration) Turn {
	return func(ctx context.Context, _ int) (time.Duration, int, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return d, 1, nil
	}
}

// Workers that wait for each answer make as many turns as fit.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Run(t.Context(), Spec{Workers: 4, For: time.Second}, takes(10*time.Millisecond))
		if err != nil || r.Turns != 400 || r.Refused != 400 || r.Rate() != 400 || len(r.Whole) != 400 {
			t.Fatalf("%v: %d turns, %d refused, %v a second", err, r.Turns, r.Refused, r.Rate())
		}
		if r.Decisions[0] != 10 || r.Whole[399] != 10 {
			t.Errorf("turns of 10 ms took %v to %v ms", r.Whole[0], r.Whole[399])
		}
	})
}

// With a rate, what waits for a free worker is counted from when it was to begin: a system that takes 100 ms for what
// comes every 50 ms is ever later, although each answer takes 100 ms.
func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Run(t.Context(), Spec{Workers: 1, For: time.Second, Rate: 20}, takes(100*time.Millisecond))
		if err != nil || r.Turns != 20 {
			t.Fatalf("%v, %d turns", err, r.Turns)
		}
		if r.Whole[0] != 100 || r.Whole[19] != 2000-950 || r.Decisions[19] != 100 {
			t.Errorf("from the intended starts %v to %v ms, the requests at most %v", r.Whole[0], r.Whole[19], r.Decisions[19])
		}
		quick, err := Run(t.Context(), Spec{Workers: 4, For: time.Second, Rate: 20}, takes(100*time.Millisecond))
		if err != nil || quick.Turns != 20 || quick.Whole[19] != 100 {
			t.Errorf("%v: with enough workers %d turns of at most %v ms", err, quick.Turns, quick.Whole[19])
		}
	})
}

// Who asks for each turn's time gets it from its intended start, and the result keeps none.
func TestDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		r, err := Run(t.Context(), Spec{Workers: 1, For: time.Second, Rate: 20,
			Done: func(whole time.Duration) { times = append(times, whole) }}, takes(100*time.Millisecond))
		if err != nil || r.Turns != 20 || r.Refused != 20 || len(r.Whole)+len(r.Decisions) != 0 {
			t.Fatalf("%v: %+v", err, r)
		}
		if len(times) != 20 || times[19] != 1050*time.Millisecond {
			t.Errorf("told of %v", times)
		}
	})
}

// A turn that fails ends the run, and says whose it was.
func TestFails(t *testing.T) {
	broken := errors.New("broken")
	_, err := Run(t.Context(), Spec{Workers: 3, For: time.Minute},
		func(ctx context.Context, w int) (time.Duration, int, error) {
			if w == 1 {
				return 0, 0, broken
			}
			<-ctx.Done()
			return 0, 0, nil
		})
	if !errors.Is(err, broken) {
		t.Fatalf("got %v, want %v", err, broken)
	}
}
