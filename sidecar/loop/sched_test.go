package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// sumOf lets three flows add to one number, each a read, something that takes a while, and a write; careful ones read
// it again afterwards. It returns the number, the order of the flows' ends and the trace.
func sumOf(t *testing.T, seed uint64, careful bool) (sum int, order string, trace uint64) {
	s := NewSched(seed, 10_000)
	l := New(Options{Scheduler: s, Tasks: 3})
	err := s.Run(func() {
		for name := range 3 {
			l.Go(func(context.Context) {
				was := sum
				l.Do(func() {})
				if careful {
					was = sum
				}
				sum = was + 1
				order += fmt.Sprint(name)
			})
		}
		l.Join()
	})
	mustBe(t, err, nil)
	return sum, order, s.Trace()
}

// TestSeeds: a seed gives one interleaving, others give others, and among a hundred is one that shows a lost update.
func TestSeeds(t *testing.T) {
	orders, first := map[string]bool{}, uint64(0)
	for seed := range uint64(100) {
		sum, order, trace := sumOf(t, seed, false)
		again, same, traced := sumOf(t, seed, false)
		if again != sum || same != order || traced != trace {
			t.Errorf("seed %d gives %d %s %x, and %d %s %x", seed, sum, order, trace, again, same, traced)
		}
		if orders[order] = true; sum != 3 && first == 0 {
			first = seed + 1
		}
		if sum, _, _ := sumOf(t, seed, true); sum != 3 {
			t.Errorf("seed %d: the careful flows came to %d, not 3", seed, sum)
		}
	}
	if len(orders) != 6 {
		t.Errorf("100 seeds gave %d of 6 orders", len(orders))
	}
	if first == 0 {
		t.Error("no seed of 100 found the lost update")
	}
	t.Logf("the lost update is found by seed %d", first)
}

// TestVirtualTime: time passes when nothing else can go on, and ends what waits for it.
func TestVirtualTime(t *testing.T) {
	s := NewSched(1, 1000)
	l := New(Options{Scheduler: s, Tasks: 4})
	var got []string
	say := func(what string) { got = append(got, fmt.Sprint(what, " ", s.Now())) }
	err := s.Run(func() {
		ctx, cancel := context.WithCancelCause(t.Context())
		open := false
		l.Go(func(context.Context) {
			mustBe(t, l.Await(ctx, func() bool { return false }), context.DeadlineExceeded)
			say("the wait ends")
		})
		l.Go(func(context.Context) {
			mustBe(t, l.Await(ctx, func() bool { return open }), nil)
			say("the answer is there")
		})
		l.Go(func(context.Context) {
			l.Do(func() { s.Sleep(time.Second) })
			open = true
		})
		if s.WaitUntil(500*time.Millisecond, func() bool { return open }) {
			t.Error("it held too soon")
		}
		say("half")
		if !s.WaitUntil(5*time.Second, func() bool { return len(got) == 2 }) {
			t.Error("it did not hold in time")
		}
		s.Sleep(2 * time.Second)
		cancel(context.DeadlineExceeded)
		l.Join()
	})
	mustBe(t, err, nil)
	if want := []string{"half 500ms", "the answer is there 1s", "the wait ends 3s"}; !slices.Equal(got, want) {
		t.Errorf("it happened %q, not %q", got, want)
	}
}

// TestSimulatedFaults: what is wrong in a simulation ends it with an error, and leaves no goroutine behind.
func TestSimulatedFaults(t *testing.T) {
	var w Watched
	never := func() bool { return false }
	for _, c := range []struct {
		name, want string
		main       func(s *Sched, l *Loop)
	}{
		{"deadlock", "none of 2 goroutines can go on", func(_ *Sched, l *Loop) {
			l.Go(func(ctx context.Context) {
				l.Do(func() { _ = l.sched.(*Sched).WaitUntil(0, never) })
				_ = l.Await(ctx, never)
			})
			l.Join()
		}},
		{"circle", "steps are used up", func(s *Sched, _ *Loop) {
			for {
				s.Sleep(1)
			}
		}},
		{"panic", "mine", func(_ *Sched, l *Loop) {
			l.Go(func(context.Context) { l.Do(func() { panic("mine") }) })
			l.Join()
		}},
		{"Run in a flow", "Run inside of a flow", func(_ *Sched, l *Loop) { l.Run(func() { l.Run(func() {}) }) }},
		{"no Moved", "nothing called Moved", func(s *Sched, l *Loop) {
			open := false
			l.Go(func(ctx context.Context) { _ = l.AwaitOn(ctx, &w, func() bool { return open }) })
			s.Wait(func() bool { return len(w.waiting) == 1 && !l.held })
			l.Run(func() { open = true })
		}},
	} {
		s := NewSched(1, 1000)
		l := New(Options{Scheduler: s, Tasks: 4})
		err := s.Run(func() { c.main(s, l) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, not %q", c.name, err, c.want)
		}
	}
}

// TestSimulatedStop: Stop ends the waits of a simulated loop, too.
func TestSimulatedStop(t *testing.T) {
	for seed := range uint64(20) {
		s := NewSched(seed, 1000)
		l := New(Options{Scheduler: s, Tasks: 4})
		stopped := 0
		mustBe(t, s.Run(func() {
			for range 3 {
				l.Go(func(ctx context.Context) {
					if errors.Is(l.Await(ctx, func() bool { return false }), ErrStopped) {
						stopped++
					}
				})
			}
			l.Run(l.Stop)
			l.Join()
		}), nil)
		if stopped != 3 {
			t.Errorf("seed %d: %d of 3 waits were stopped", seed, stopped)
		}
	}
}
