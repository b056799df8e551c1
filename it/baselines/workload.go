package baselines

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hence-dev/hence/topology/pause"
)

// Fault is where a task goes wrong.
type Fault uint8

// The faults.
const (
	FaultNone  Fault = iota
	FaultTool        // the last tool fails, after everything else
	FaultCrash       // the agent's process dies after the send and before it has noted that
)

// Task reads two orders, thinks, writes one of them and sends a confirmation.
type Task struct {
	Name  string
	Reads [2]string
	Write string
	Key   string // business key of the confirmation
	Fault Fault
	Think time.Duration
}

// Workload is what every way of working is given.
type Workload struct {
	Orders []string
	Agents [][]Task
}

// MakeWorkload deals tasks over few orders, so that agents meet; one task in five meets a fault.
func MakeWorkload(seed uint64, agents, tasks, orders int) *Workload {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := &Workload{Agents: make([][]Task, agents)}
	for i := range orders {
		w.Orders = append(w.Orders, fmt.Sprintf("shard:/orders/%d", i+1))
	}
	for a := range agents {
		for n := range tasks {
			first := rng.IntN(orders)
			second := (first + 1 + rng.IntN(orders-1)) % orders
			t := Task{Name: fmt.Sprintf("a%d-%d", a+1, n+1), Reads: [2]string{w.Orders[first], w.Orders[second]},
				Write: w.Orders[first], Think: time.Duration(1+rng.IntN(3)) * time.Millisecond}
			t.Key = "confirm/" + t.Name
			switch rng.IntN(10) {
			case 0:
				t.Fault = FaultTool
			case 1:
				t.Fault = FaultCrash
			}
			w.Agents[a] = append(w.Agents[a], t)
		}
	}
	return w
}

// Tasks is how many there are.
func (w *Workload) Tasks() int {
	n := 0
	for _, tasks := range w.Agents {
		n += len(tasks)
	}
	return n
}

// Way is one way of working: it does a task in a world, with whatever stands between them. A task that meets a crash
// is taken up again by the same way, as its recovery would.
type Way interface {
	Name() string
	// Do does one task of an agent. It notes with World.Ended how each attempt ended.
	Do(ctx context.Context, agent int, t Task) error
}

// Ways are the ways without Hence, in one world.
func Ways(w *World) []Way {
	return []Way{NoTx{w}, NewCallLock(w), NewWorkflowLock(w), OCC{w}, Saga{w}, NewTCC(w), NewMutexWAL(w), Replay{w}}
}

// finisher is a way whose effects go on after its tasks: Finish waits for them and completes the world's history.
type finisher interface {
	Finish(ctx context.Context) error
}

// Run lets all agents work at once and counts what is left behind.
func Run(ctx context.Context, w *Workload, world *World, way Way) (Row, error) {
	start := time.Now()
	var group sync.WaitGroup
	errs := make([]error, len(w.Agents))
	for a, tasks := range w.Agents {
		group.Go(func() {
			for _, t := range tasks {
				if err := way.Do(ctx, a, t); err != nil {
					errs[a] = fmt.Errorf("%s, task %s: %w", way.Name(), t.Name, err)
					return
				}
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return Row{}, err
		}
	}
	took := time.Since(start)
	if f, ok := way.(finisher); ok {
		if err := f.Finish(ctx); err != nil {
			return Row{}, fmt.Errorf("%s: %w", way.Name(), err)
		}
	}
	return Count(way.Name(), w.Tasks(), world, took), nil
}

// think lets an agent think: this is the time in which others act.
func think(ctx context.Context, d time.Duration) {
	_ = pause.Sleep(ctx, d) // what comes next says that ctx has ended
}
