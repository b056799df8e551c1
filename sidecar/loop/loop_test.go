package loop

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOldestFirst: of the flows that can go on the one that entered first does, also when it has given way since.
func TestOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Verify: true})
		var order []string
		gate, hold, open := make(chan struct{}), make(chan struct{}), false
		enter := func(name string, f func()) {
			go l.Run(func() {
				f()
				order = append(order, name)
			})
			synctest.Wait() // each is where it gives way, or waits for its turn, before the next comes
		}
		enter("waits first", func() { mustBe(t, l.Await(t.Context(), func() bool { return open }), nil) })
		enter("does", func() { l.Do(func() { <-gate }) })
		enter("waits last", func() { mustBe(t, l.Await(t.Context(), func() bool { return open }), nil) })
		enter("holds", func() {
			<-hold
			open = true
		})
		enter("enters first", func() {})
		enter("enters last", func() {})
		close(gate)
		synctest.Wait()
		close(hold)
		synctest.Wait()
		want := []string{"holds", "waits first", "does", "waits last", "enters first", "enters last"}
		if !slices.Equal(order, want) {
			t.Errorf("flows went on as %q, not %q", order, want)
		}
	})
}

// TestOneFlowAtATime: what stands between two points where a flow gives way is not interrupted, and no wait sleeps on
// whose condition holds, however flows come, wait, end and watch.
func TestOneFlowAtATime(t *testing.T) {
	const workers, rounds = 16, 400
	l := New(Options{Verify: true, Tasks: workers})
	var count, inside int
	var even Watched
	var ended atomic.Int32
	one := func(f func()) {
		if inside++; inside != 1 {
			t.Error("two flows run at a time")
		}
		f()
		inside--
	}
	add := func() {
		one(func() {
			count++
			l.Moved(&even)
		})
	}
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range rounds {
				switch random.IntN(4) {
				case 0:
					l.Run(func() {
						was := count
						mustBe(t, l.Await(t.Context(), func() bool { return count != was }), nil)
						one(func() {})
					})
				case 1:
					l.Run(func() {
						was := count
						mustBe(t, l.AwaitOn(t.Context(), &even, func() bool { return count != was && count%2 == 0 }), nil)
						if count%2 != 0 {
							t.Error("the condition did not hold as the wait ended")
						}
					})
				case 2:
					l.Run(func() {
						l.Do(func() {})
						add()
					})
				case 3:
					ctx, cancel := context.WithCancel(t.Context())
					go cancel()
					l.Run(func() { mustBe(t, l.Await(ctx, func() bool { return false }), context.Canceled) })
				}
			}
			ended.Add(1)
		})
	}
	group.Go(func() { // the others wait for what it does, and it ends when they have
		for ended.Load() < workers {
			l.Run(add)
		}
	})
	group.Wait()
	l.Join()
}

// TestWaitsEnd: a wait ends with its ctx, with Stop, or with its condition, which counts more than ctx.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Verify: true})
		never, cause := func() bool { return false }, errors.New("enough")
		wait := func(ctx context.Context, cond func() bool) (err error) {
			l.Run(func() { err = l.Await(ctx, cond) })
			return err
		}
		over, cancel := context.WithCancelCause(t.Context())
		go func() {
			synctest.Wait()
			cancel(cause)
		}()
		mustBe(t, wait(over, never), cause)
		mustBe(t, wait(over, never), cause)
		mustBe(t, wait(over, func() bool { return true }), nil)
		short, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		mustBe(t, wait(short, never), context.DeadlineExceeded)
		go func() {
			synctest.Wait()
			l.Stop()
		}()
		mustBe(t, wait(t.Context(), never), ErrStopped)
		mustBe(t, wait(t.Context(), func() bool { return true }), ErrStopped)
	})
}

// TestStopLeavesThrough: Stop ends no wait of AwaitThrough, neither one that has begun nor one that begins; its
// condition and its ctx do.
func TestStopLeavesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Verify: true})
		var w Watched
		done, ended := false, 0
		through := func(ctx context.Context, w *Watched, want error) {
			l.Run(func() {
				mustBe(t, l.AwaitThrough(ctx, w, func() bool { return done }), want)
				ended++
			})
		}
		go through(t.Context(), &w, nil)
		go through(t.Context(), nil, nil)
		synctest.Wait()
		l.Stop()
		over, cancel := context.WithCancel(t.Context())
		go through(over, &w, context.Canceled)
		synctest.Wait()
		if ended != 0 {
			t.Errorf("%d waits have ended with Stop", ended)
		}
		cancel()
		synctest.Wait()
		if ended != 1 {
			t.Errorf("%d waits have ended with their ctx, not 1", ended)
		}
		l.Run(func() {
			done = true
			l.Moved(&w)
		})
		synctest.Wait()
		through(t.Context(), nil, nil)
		if ended != 4 {
			t.Errorf("%d waits have ended with their condition, not 4", ended)
		}
	})
}

// TestEndedWaitKeepsItsTurn: a wait whose ctx ends while another flow holds the loop goes on once that gives way.
func TestEndedWaitKeepsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Verify: true})
		ctx, cancel := context.WithCancel(t.Context())
		done := false
		go l.Run(func() {
			mustBe(t, l.Await(ctx, func() bool { return false }), context.Canceled)
			done = true
		})
		synctest.Wait()
		l.Run(func() {
			cancel()
			synctest.Wait()
			if done {
				t.Error("the wait went on beside the flow that holds the loop")
			}
		})
		synctest.Wait()
		if !done {
			t.Error("the wait did not go on")
		}
	})
}

// TestConditionAgain: a condition that held, and does not any more as its flow is picked, is waited for further.
func TestConditionAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Verify: true})
		open, taken := false, 0
		for range 2 {
			go l.Run(func() {
				mustBe(t, l.Await(t.Context(), func() bool { return open }), nil)
				open = false
				taken++
			})
		}
		for want := range 3 {
			synctest.Wait()
			l.Run(func() {
				if taken != want {
					t.Errorf("%d flows went on, not %d", taken, want)
				}
				open = true
			})
		}
	})
}

// TestTasks: they are bounded, end with the loop, and none starts once it is joined.
func TestTasks(t *testing.T) {
	work, stop := context.WithCancel(t.Context())
	l := New(Options{Tasks: 2, Context: work})
	ended := 0
	task := func(ctx context.Context) {
		l.Do(func() { <-ctx.Done() })
		ended++
	}
	for _, want := range []bool{true, true, false} {
		if l.Go(task) != want {
			t.Errorf("started = %v, not %v", !want, want)
		}
	}
	l.Stop()
	stop()
	l.Join()
	if ended != 2 {
		t.Errorf("%d of 2 tasks ended", ended)
	}
	if l.Go(task) {
		t.Error("a task was started after Join")
	}
}

// TestPanics: a panic leaves the loop to the next flow, and what is used wrongly says so.
func TestPanics(t *testing.T) {
	l := New(Options{Verify: true})
	var w Watched
	open := false
	for _, c := range []struct {
		name, want string
		f          func()
	}{
		{"in a flow", "mine", func() { l.Run(func() { panic("mine") }) }},
		{"in Do", "mine", func() { l.Run(func() { l.Do(func() { panic("mine") }) }) }},
		{"Do outside", outside, func() { l.Do(func() {}) }},
		{"Await outside", outside, func() { _ = l.Await(t.Context(), func() bool { return false }) }},
	} {
		if got := panicOf(c.f); !strings.Contains(got, c.want) {
			t.Errorf("%s: panic %q, not %q", c.name, got, c.want)
		}
		l.Run(func() {})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	asked, once := make(chan struct{}), sync.Once{}
	group.Go(func() {
		l.Run(func() {
			_ = l.AwaitOn(ctx, &w, func() bool {
				once.Do(func() { close(asked) })
				return open
			})
		})
	})
	<-asked
	if got := panicOf(func() { l.Run(func() { open = true }) }); !strings.Contains(got, "Moved") {
		t.Errorf("a change without Moved: panic %q", got)
	}
	l.Run(func() { l.Moved(&w) })
	group.Wait()
	cancel()
}

func panicOf(f func()) (text string) {
	defer func() { text, _ = recover().(string) }()
	f()
	return ""
}

func mustBe(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Errorf("error %v, not %v", got, want)
	}
}
