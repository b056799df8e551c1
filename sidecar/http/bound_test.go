package http

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestBound: a bound says what a context of context.WithTimeout says, whether its end was waited for before or not.
func TestBound(t *testing.T) {
	const long = time.Minute
	why := errors.New("enough")
	for _, c := range []struct {
		name  string
		end   func(b *bound, cut context.CancelCauseFunc)
		err   error
		cause error
	}{
		{"it goes on", func(*bound, context.CancelCauseFunc) { <-time.After(long - 1) }, nil, nil},
		{"its time is over", func(*bound, context.CancelCauseFunc) { <-time.After(long) }, context.DeadlineExceeded,
			context.DeadlineExceeded},
		{"its parent ends", func(_ *bound, cut context.CancelCauseFunc) { cut(why) }, context.Canceled, why},
		{"it is ended", func(b *bound, _ context.CancelCauseFunc) { b.end() }, context.Canceled, context.Canceled},
	} {
		for _, waits := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				parent, cut := context.WithCancelCause(t.Context())
				defer cut(nil)
				b := within(parent, long)
				defer b.end()
				if waits {
					b.Done()
				}
				c.end(b, cut)
				synctest.Wait()
				if b.Err() != c.err || context.Cause(b) != c.cause {
					t.Errorf("%s (waits: %v): %v because of %v, not %v because of %v", c.name, waits, b.Err(), context.Cause(b),
						c.err, c.cause)
				}
				select {
				case <-b.Done():
					if c.err == nil {
						t.Errorf("%s (waits: %v): done", c.name, waits)
					}
				default:
					if c.err != nil {
						t.Errorf("%s (waits: %v): not done", c.name, waits)
					}
				}
			})
		}
	}
}

// TestBoundAbove: what is derived of a bound ends with it, and its parent's values and earlier end are its own.
func TestBoundAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "x"), time.Second)
		defer cancel()
		b := within(parent, time.Minute)
		defer b.end()
		if at, _ := b.Deadline(); !at.Equal(time.Now().Add(time.Second)) || b.Value(key{}) != "x" {
			t.Errorf("it ends at %v with %v", at, b.Value(key{}))
		}
		below, end := context.WithCancel(b)
		defer end()
		<-time.After(time.Second)
		<-below.Done()
		if below.Err() != context.DeadlineExceeded || b.Value(key{}) != "x" {
			t.Errorf("what is below ended with %v", below.Err())
		}
	})
}

// TestBoundCosts: a request that waits for nothing has no timer.
func TestBoundCosts(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		b := within(context.Background(), time.Minute)
		_ = b.Err()
		b.end()
	})
	if n > 1 {
		t.Errorf("%v allocations", n)
	}
}
