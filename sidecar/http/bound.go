package http

import (
	"context"
	"sync"
	"time"
)

// bound is a context that ends after some time at the latest, as one of context.WithTimeout does. Its timer, and what
// links it to its parent, are made when its end is first waited for: most requests are answered without.
type bound struct {
	context.Context // the parent
	at              time.Time

	mu     sync.Mutex
	timed  context.Context // nil: no end has been waited for
	cancel context.CancelFunc
	ended  bool
}

// within bounds a context. The caller must end it.
func within(parent context.Context, d time.Duration) *bound {
	at := time.Now().Add(d)
	if earlier, ok := parent.Deadline(); ok && earlier.Before(at) {
		at = earlier
	}
	return &bound{Context: parent, at: at}
}

// end ends it now.
func (b *bound) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.cancel != nil {
		b.cancel()
	}
}

// Deadline is part of context.Context.
func (b *bound) Deadline() (time.Time, bool) { return b.at, true }

// Done is part of context.Context.
func (b *bound) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timed == nil {
		b.timed, b.cancel = context.WithDeadline(b.Context, b.at)
		if b.ended { // what begins to wait after the end has nothing to wait for
			b.cancel()
		}
	}
	return b.timed.Done()
}

// Err is part of context.Context.
func (b *bound) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.timed != nil:
		return b.timed.Err()
	case b.ended:
		return context.Canceled
	case b.Context.Err() != nil:
		return b.Context.Err()
	case !time.Now().Before(b.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value is part of context.Context. Package context finds by it what ends with the timer, and the cause of the end.
func (b *bound) Value(key any) any {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timed != nil {
		return b.timed.Value(key)
	}
	return b.Context.Value(key)
}
