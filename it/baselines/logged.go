package baselines

import (
	"context"
	"sync"
	"time"
)

// Saga writes at once and puts back what it wrote when a later step fails. Its log says which steps are done, so a
// crash resumes after the last step that was noted.
type Saga struct{ World *World }

// Name is how the table calls it.
func (Saga) Name() string { return "saga" }

// Do does one task.
func (b Saga) Do(ctx context.Context, _ int, t Task) error {
	attempt := attemptName(t, 1)
	values := map[string]int{}
	for _, s := range t.Reads {
		values[s], _ = b.World.Read(attempt, s)
	}
	think(ctx, t.Think)
	b.World.Write(attempt, t.Write, sum(values))
	b.World.Send(attempt, t.Key)
	if t.Fault == FaultCrash {
		b.World.Send(attempt, t.Key) // the log does not show the step: it is made again
	}
	if t.Fault == FaultTool {
		b.World.Restore(attempt, t.Write, values[t.Write])
		b.World.Ended(attempt, false)
		return nil
	}
	b.World.Ended(attempt, true)
	return nil
}

// TCC reserves what it is going to write, and confirms or cancels the reservation; its participants drop a second
// confirmation. What it only reads it does not reserve.
type TCC struct {
	World    *World
	mu       sync.Mutex
	reserved map[string]bool
}

// NewTCC makes it.
func NewTCC(w *World) *TCC { return &TCC{World: w, reserved: map[string]bool{}} }

// Name is how the table calls it.
func (*TCC) Name() string { return "try-confirm-cancel" }

// Do does one task.
func (b *TCC) Do(ctx context.Context, _ int, t Task) error {
	for n := 1; ; n++ {
		attempt := attemptName(t, n)
		if !b.try(t.Write) {
			b.World.Ended(attempt, false)
			b.World.Refused()
			start := time.Now()
			think(ctx, time.Millisecond)
			b.World.Waited(time.Since(start))
			continue
		}
		values := map[string]int{}
		for _, s := range t.Reads {
			values[s], _ = b.World.Read(attempt, s)
		}
		think(ctx, t.Think)
		if t.Fault == FaultTool {
			b.World.Ended(attempt, false)
			b.cancel(t.Write)
			return nil
		}
		b.World.Write(attempt, t.Write, sum(values))
		b.World.SendOnce(attempt, t.Key)
		if t.Fault == FaultCrash {
			b.World.SendOnce(attempt, t.Key)
		}
		b.World.Ended(attempt, true)
		b.cancel(t.Write)
		return nil
	}
}

func (b *TCC) try(scope string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reserved[scope] {
		return false
	}
	b.reserved[scope] = true
	return true
}

func (b *TCC) cancel(scope string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reserved, scope)
}

// MutexWAL does one task at a time under one lock and writes each step down before it makes it: after a crash what is
// written and not noted as done is made again, after a failure the writes are undone.
type MutexWAL struct {
	World *World
	locks *locks
}

// NewMutexWAL makes it.
func NewMutexWAL(w *World) *MutexWAL { return &MutexWAL{w, newLocks(w)} }

// Name is how the table calls it.
func (*MutexWAL) Name() string { return "one lock and a log" }

// Do does one task.
func (b *MutexWAL) Do(ctx context.Context, _ int, t Task) error {
	defer b.locks.lock("everything").Unlock()
	attempt := attemptName(t, 1)
	values := map[string]int{}
	for _, s := range t.Reads {
		values[s], _ = b.World.Read(attempt, s)
	}
	think(ctx, t.Think)
	b.World.Write(attempt, t.Write, sum(values))
	b.World.Send(attempt, t.Key)
	if t.Fault == FaultCrash {
		b.World.Send(attempt, t.Key)
	}
	if t.Fault == FaultTool {
		b.World.Restore(attempt, t.Write, values[t.Write])
	}
	b.World.Ended(attempt, t.Fault != FaultTool)
	return nil
}

// Replay keeps a checkpoint of each step's result and, after a crash, runs the task again over them, as durable
// execution does. A step whose checkpoint is missing is made again; a tool that keeps failing fails the task.
type Replay struct{ World *World }

// Name is how the table calls it.
func (Replay) Name() string { return "checkpoint and replay" }

// Do does one task.
func (b Replay) Do(ctx context.Context, _ int, t Task) error {
	attempt := attemptName(t, 1)
	done := map[string]int{} // checkpoints
	step := func(name string, make func() int) int {
		if v, ok := done[name]; ok {
			return v
		}
		v := make()
		done[name] = v
		return v
	}
	for run := 1; run <= 2; run++ {
		values := map[string]int{}
		for _, s := range t.Reads {
			values[s] = step("read "+s, func() int {
				v, _ := b.World.Read(attempt, s)
				return v
			})
		}
		step("think", func() int {
			think(ctx, t.Think)
			return 0
		})
		step("write", func() int {
			b.World.Write(attempt, t.Write, sum(values))
			return 0
		})
		if t.Fault == FaultCrash && run == 1 {
			b.World.Send(attempt, t.Key) // and no checkpoint of it
			continue
		}
		step("send", func() int {
			b.World.Send(attempt, t.Key)
			return 0
		})
		break
	}
	b.World.Ended(attempt, t.Fault != FaultTool)
	return nil
}
