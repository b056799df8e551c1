package demo

import (
	"context"
	"sync"
	"time"
)

// meeting makes two agents overlap: the first one waits, for a bound, until the other one is there too. So
// both have read the order that they want before either of them writes it.
type meeting struct {
	mu      sync.Mutex
	waiting chan struct{} // closed when the other one comes; nil: none waits
	over    bool          // one of them has gone home
}

// leave says that one of the two no longer comes.
func (m *meeting) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if m.waiting != nil {
		close(m.waiting)
		m.waiting = nil
	}
}

// meet reports whether the other one came.
func (m *meeting) meet(ctx context.Context, bound time.Duration) bool {
	m.mu.Lock()
	if m.over {
		m.mu.Unlock()
		return false
	}
	if m.waiting != nil {
		close(m.waiting)
		m.waiting = nil
		m.mu.Unlock()
		return true
	}
	mine := make(chan struct{})
	m.waiting = mine
	m.mu.Unlock()

	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-mine:
	case <-timer.C:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == mine { // the other one did not come
		m.waiting = nil
		return false
	}
	return !m.over
}
