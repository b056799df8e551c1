package agent

import (
	"context"
	"sync"
)

// tasks are goroutines that outlive the request that started them, never the sidecar: Run joins them.
type tasks struct {
	ctx   context.Context // ends when the sidecar stops working
	limit int

	mu     sync.Mutex
	count  int
	closed bool
	group  sync.WaitGroup
}

// start runs f beside the caller. It reports false, and runs nothing, when the sidecar stops or the bound is reached.
func (t *tasks) start(f func(context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.count >= t.limit {
		return false
	}
	t.count++
	t.group.Go(func() {
		defer t.end()
		f(t.ctx)
	})
	return true
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count--
}

// join waits until all have ended; no new one starts.
func (t *tasks) join() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.group.Wait()
}
