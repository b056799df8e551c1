package view

import (
	"context"
	"sync"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// WaitSeq is the key of waits for any step of the view.
const WaitSeq = "seq"

// WaitShard is the key of waits for a decision that changes the shard.
func WaitShard(scope sequencer.Scope) string { return "shard/" + string(scope) }

// waits wakes those who wait for something that a decision can bring. The zero value is ready.
type waits struct {
	mu     sync.Mutex
	byKey  map[string]*waiters
	closed bool
}

type waiters struct {
	changed chan struct{}
	count   int
}

// Until returns when cond holds; it is asked again after each wake of the key. It ends with ctx or with the sidecar.
func (w *waits) Until(ctx context.Context, key string, cond func() bool) error {
	for {
		changed, ok := w.join(key)
		if !ok {
			return api.ErrStopped
		}
		if cond() {
			w.leave(key, changed)
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			w.leave(key, changed)
			return context.Cause(ctx)
		}
	}
}

func (w *waits) join(key string) (chan struct{}, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, false
	}
	if w.byKey == nil {
		w.byKey = map[string]*waiters{}
	}
	ws := w.byKey[key]
	if ws == nil {
		ws = &waiters{changed: make(chan struct{})}
		w.byKey[key] = ws
	}
	ws.count++
	return ws.changed, true
}

func (w *waits) leave(key string, changed chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ws := w.byKey[key]
	if ws == nil || ws.changed != changed {
		return
	}
	if ws.count--; ws.count == 0 {
		delete(w.byKey, key)
	}
}

// some reports whether anything waits.
func (w *waits) some() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byKey) > 0
}

// Wake lets everybody who waits for one of the keys look again.
func (w *waits) Wake(keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if ws := w.byKey[key]; ws != nil {
			close(ws.changed)
			delete(w.byKey, key)
		}
	}
}

// Close ends all waits, now and from now on.
func (w *waits) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for key, ws := range w.byKey {
		close(ws.changed)
		delete(w.byKey, key)
	}
}
