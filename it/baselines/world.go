// Package baselines runs one workload under the ways in which agents share state and tools today, and under Hence, and
// counts what each leaves behind. Every way is implemented, none is modelled: the same tasks, the same store, the same
// sink; what differs is only what stands between an agent and the world.
package baselines

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrTool is returned by World.Send and World.Check when the task's fault lies there: a tool that fails.
var ErrTool = errors.New("the tool failed")

// ErrCrash is returned by World.Send after the effect, when the process of the agent is to die there.
var ErrCrash = errors.New("the agent's process died")

// Op is one entry of the world's history, in the order in which the world saw it.
type Op struct {
	At      int
	Kind    OpKind
	Attempt string
	Scope   string // reads and writes
	Version int    // read, or made by the write
	Key     string // sends: the business key
}

// OpKind says what an entry of the history is.
type OpKind uint8

// The entries.
const (
	OpRead OpKind = iota + 1
	OpWrite
	OpRestore // a write that puts back what an attempt overwrote
	OpSend
	OpCommit
	OpAbort
)

// World is a store of values with versions, an append-only sink, and the history of both.
type World struct {
	mu      sync.Mutex
	values  map[string]cell
	history []Op
	waited  time.Duration
	refused int
}

type cell struct {
	value   int
	version int
}

// NewWorld makes a world in which every scope holds zero at version 1.
func NewWorld(scopes []string) *World {
	w := &World{values: map[string]cell{}}
	for _, s := range scopes {
		w.values[s] = cell{version: 1}
	}
	return w
}

func (w *World) note(op Op) {
	op.At = len(w.history)
	w.history = append(w.history, op)
}

// Read returns a value and its version.
func (w *World) Read(attempt, scope string) (value, version int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.values[scope]
	w.note(Op{Kind: OpRead, Attempt: attempt, Scope: scope, Version: c.version})
	return c.value, c.version
}

// Write replaces a value.
func (w *World) Write(attempt, scope string, value int) { w.put(OpWrite, attempt, scope, value) }

// Restore puts a former value back.
func (w *World) Restore(attempt, scope string, value int) { w.put(OpRestore, attempt, scope, value) }

func (w *World) put(kind OpKind, attempt, scope string, value int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := cell{value, w.values[scope].version + 1}
	w.values[scope] = c
	w.note(Op{Kind: kind, Attempt: attempt, Scope: scope, Version: c.version})
}

// WriteIf replaces values at once if all versions that were read still stand.
func (w *World) WriteIf(attempt string, read map[string]int, writes map[string]int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for scope, version := range read {
		if w.values[scope].version != version {
			return false
		}
	}
	for scope, value := range writes {
		c := cell{value, w.values[scope].version + 1}
		w.values[scope] = c
		w.note(Op{Kind: OpWrite, Attempt: attempt, Scope: scope, Version: c.version})
	}
	w.note(Op{Kind: OpCommit, Attempt: attempt})
	return true
}

// Send is the irreversible effect: a mail, a charge.
func (w *World) Send(attempt, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(Op{Kind: OpSend, Attempt: attempt, Key: key})
}

// SendOnce is Send at a sink that drops a key that it has.
func (w *World) SendOnce(attempt, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.history, func(op Op) bool { return op.Kind == OpSend && op.Key == key }) {
		w.note(Op{Kind: OpSend, Attempt: attempt, Key: key})
	}
}

// Ended notes how an attempt ended.
func (w *World) Ended(attempt string, committed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := OpAbort
	if committed {
		kind = OpCommit
	}
	w.note(Op{Kind: kind, Attempt: attempt})
}

// Refused counts an attempt that was refused because of others.
func (w *World) Refused() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused++
}

// Waited counts time in which an agent waited for others.
func (w *World) Waited(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waited += d
}

// History returns what the world saw so far.
func (w *World) History() []Op {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.history)
}
