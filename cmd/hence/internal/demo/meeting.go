package demo

import (
	"context"
	"sync"
	"time"
)

// meeting makes two agents overlap: whoever comes first waits, for a bound, until the other one is there too. So
// both have read the order that they want before either of them writes it.
type meeting struct {
	mu      sync.Mutex
	waiting chan struct{} // closed when the other one comes; nil: nobody waits
}

// meet reports whether the other one came.
func (m *meeting) meet(ctx context.Context, bound time.Duration) bool {
	m.mu.Lock()
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
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == mine {
		m.waiting = nil
		return false
	}
	return true
}
