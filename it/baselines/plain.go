package baselines

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// locks are mutexes by name whose waiting time is counted.
type locks struct {
	world *World
	mu    sync.Mutex
	named map[string]*sync.Mutex
}

func newLocks(w *World) *locks { return &locks{world: w, named: map[string]*sync.Mutex{}} }

func (l *locks) lock(name string) *sync.Mutex {
	l.mu.Lock()
	m := l.named[name]
	if m == nil {
		m = &sync.Mutex{}
		l.named[name] = m
	}
	l.mu.Unlock()
	start := time.Now()
	m.Lock()
	l.world.Waited(time.Since(start))
	return m
}

// all takes several locks in the order of their names.
func (l *locks) all(names []string) (unlock func()) {
	var held []*sync.Mutex
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		held = append(held, l.lock(name))
	}
	return func() {
		for _, m := range held {
			m.Unlock()
		}
	}
}

// attemptName names the n-th try of a task.
func attemptName(t Task, n int) string { return fmt.Sprintf("%s#%d", t.Name, n) }

// sum is what a task writes: it follows from everything that was read.
func sum(values map[string]int) int {
	total := 1
	for v := range maps.Values(values) {
		total += v
	}
	return total
}

// NoTx calls tools as they come, as an agent without any help does.
type NoTx struct{ World *World }

// Name is how the table calls it.
func (NoTx) Name() string { return "no transactions" }

// Do does one task.
func (b NoTx) Do(ctx context.Context, _ int, t Task) error {
	return attempts(t, func(attempt string, crash bool) bool {
		values := map[string]int{}
		for _, s := range t.Reads {
			values[s], _ = b.World.Read(attempt, s)
		}
		think(ctx, t.Think)
		b.World.Write(attempt, t.Write, sum(values))
		b.World.Send(attempt, t.Key)
		ok := !crash && t.Fault != FaultTool
		b.World.Ended(attempt, ok)
		return !crash
	})
}

// attempts runs a task, and once more when its process dies in the first try.
func attempts(t Task, try func(attempt string, crash bool) (over bool)) error {
	for n := 1; n <= 2; n++ {
		if try(attemptName(t, n), t.Fault == FaultCrash && n == 1) {
			return nil
		}
	}
	return fmt.Errorf("the task did not end")
}

// CallLock holds a lock for each single call, as a tool server with a mutex does.
type CallLock struct {
	World *World
	locks *locks
}

// NewCallLock makes it.
func NewCallLock(w *World) *CallLock { return &CallLock{w, newLocks(w)} }

// Name is how the table calls it.
func (*CallLock) Name() string { return "lock per call" }

// Do does one task.
func (b *CallLock) Do(ctx context.Context, _ int, t Task) error {
	under := func(name string, call func()) {
		defer b.locks.lock(name).Unlock()
		call()
	}
	return attempts(t, func(attempt string, crash bool) bool {
		values := map[string]int{}
		for _, s := range t.Reads {
			under(s, func() { values[s], _ = b.World.Read(attempt, s) })
		}
		think(ctx, t.Think)
		under(t.Write, func() { b.World.Write(attempt, t.Write, sum(values)) })
		under("mail", func() { b.World.Send(attempt, t.Key) })
		b.World.Ended(attempt, !crash && t.Fault != FaultTool)
		return !crash
	})
}

// WorkflowLock holds the locks of all that a task names from its first read to its end.
type WorkflowLock struct {
	World *World
	locks *locks
}

// NewWorkflowLock makes it.
func NewWorkflowLock(w *World) *WorkflowLock { return &WorkflowLock{w, newLocks(w)} }

// Name is how the table calls it.
func (*WorkflowLock) Name() string { return "lock per workflow" }

// Do does one task.
func (b *WorkflowLock) Do(ctx context.Context, _ int, t Task) error {
	return attempts(t, func(attempt string, crash bool) bool {
		defer b.locks.all(append(t.Reads[:], t.Write))()
		values := map[string]int{}
		for _, s := range t.Reads {
			values[s], _ = b.World.Read(attempt, s)
		}
		think(ctx, t.Think)
		b.World.Write(attempt, t.Write, sum(values))
		b.World.Send(attempt, t.Key)
		b.World.Ended(attempt, !crash && t.Fault != FaultTool)
		return !crash
	})
}

// OCC buffers writes and validates its reads when it installs them; tools run when the agent calls them.
type OCC struct{ World *World }

// Name is how the table calls it.
func (OCC) Name() string { return "optimistic store" }

// Do does one task.
func (b OCC) Do(ctx context.Context, _ int, t Task) error {
	crashed := false
	for n := 1; n <= maxTries; n++ {
		attempt := attemptName(t, n)
		values, versions := map[string]int{}, map[string]int{}
		for _, s := range t.Reads {
			values[s], versions[s] = b.World.Read(attempt, s)
		}
		think(ctx, t.Think)
		b.World.Send(attempt, t.Key)
		if t.Fault == FaultCrash && !crashed {
			crashed = true
			b.World.Ended(attempt, false)
			continue
		}
		if t.Fault == FaultTool {
			b.World.Ended(attempt, false)
			return nil
		}
		if b.World.WriteIf(attempt, versions, map[string]int{t.Write: sum(values)}) {
			return nil
		}
		b.World.Ended(attempt, false)
		b.World.Refused()
	}
	return fmt.Errorf("refused %d times", maxTries)
}

const maxTries = 1000
