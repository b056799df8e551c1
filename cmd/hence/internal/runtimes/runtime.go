package runtimes

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/trace"
)

// Runtime is one store with its guards. New makes one.
type Runtime struct {
	mu     sync.Mutex
	guards []guard
	clock  uint64
	cells  map[string][]version // Invariant: by ascending time, and none of an operation that does not stand
	tools  map[string]string    // signatures by name
	ops    []*Op
	counts Counts
	undone []trace.Effect
}

// version is what a cell holds since a commit.
type version struct {
	value trace.Value
	by    *Op
	at    uint64
}

// Counts is what a run came to.
type Counts struct {
	Operations int // begun
	Committed  int // also those that were retracted later
	Dropped    int // refused when they began
	Waited     int // begun later than they asked for
	Aborted    int // refused when they committed
	GivenUp    int // ended by their agent, or by the end of the run
	Retracted  int // taken back by a step
	Cascaded   int // taken back because another was
	Gone       int // calls that went to a tool that was no longer registered, or was another one by then
}

// guard is what a runtime does beyond the store. Every method is called with the runtime's mutex held.
type guard interface {
	// begin decides whether an operation may begin. Wait defers it until another one ends; a reason refuses it.
	begin(r *Runtime, o *Op) (wait bool, refused string)
	// commit decides whether an operation may commit. A reason refuses it.
	commit(r *Runtime, o *Op) (refused string)
	// leave says which effects reach the world now that effect k is complete; ok is false where the guard has no say.
	leave(o *Op, k int) (leaving []int, ok bool)
	// ended takes note that an operation is over, however.
	ended(r *Runtime, o *Op)
	// retracted says which other operations go with one that is taken back.
	retracted(r *Runtime, o *Op) []*Op
	// registry is the registry that an operation's calls go to, or nil for that of the moment.
	registry(o *Op) map[string]string
}

// passive is a guard that lets all pass; guards embed it.
type passive struct{}

func (passive) begin(*Runtime, *Op) (bool, string) { return false, "" }
func (passive) commit(*Runtime, *Op) string        { return "" }
func (passive) leave(*Op, int) ([]int, bool)       { return nil, false }
func (passive) ended(*Runtime, *Op)                {}
func (passive) retracted(*Runtime, *Op) []*Op      { return nil }
func (passive) registry(*Op) map[string]string     { return nil }

// with returns a runtime of guards.
func with(guards ...guard) *Runtime {
	return &Runtime{guards: guards, cells: map[string][]version{}, tools: map[string]string{}}
}

// Begin is what an operation begins with.
type Begin struct {
	Name  string   // of the operation; empty: it gets one
	Agent string   //
	Reads []string // the cells to read
	Plan  string   // the tool that it plans to call; empty: none
}

// Begin begins an operation. Its state is Open, Waiting or Refused.
func (r *Runtime) Begin(b Begin) *Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &Op{r: r, Begin: b, state: Waiting, readTime: r.clock}
	if o.Name == "" {
		o.Name = "op" + strconv.Itoa(len(r.ops)+1)
	}
	r.ops = append(r.ops, o)
	r.counts.Operations++
	if r.admit(o); o.state == Waiting {
		r.counts.Waited++
	}
	return o
}

// admit begins an operation if no guard objects.
func (r *Runtime) admit(o *Op) {
	for _, g := range r.guards {
		wait, refused := g.begin(r, o)
		if refused != "" {
			r.counts.Dropped++
			r.end(o, Refused, refused)
			return
		}
		if wait {
			return
		}
	}
	o.state, o.readTime, o.values = Open, r.clock, map[string]trace.Value{}
	for _, cell := range o.Reads {
		o.values[cell] = trace.Null
		if v, has := r.latest(cell); has {
			o.values[cell] = v.value
			o.rest(v.by)
		}
	}
	o.toolsRead = maps.Clone(r.tools)
}

// latest is the version of a cell that an operation beginning now reads.
func (r *Runtime) latest(cell string) (version, bool) {
	all := r.cells[cell]
	if len(all) == 0 {
		return version{}, false
	}
	return all[len(all)-1], true
}

// end ends an operation, and begins those that waited for it.
func (r *Runtime) end(o *Op, as State, why string) {
	o.state, o.why = as, why
	for _, g := range r.guards {
		g.ended(r, o)
	}
	for _, waiting := range r.ops { // the oldest first
		if waiting.state == Waiting {
			r.admit(waiting)
		}
	}
}

// commit makes an operation's writes visible.
func (r *Runtime) commit(o *Op) {
	for k := range o.effects {
		o.complete(k) // the agent waits for what still runs
	}
	r.clock++
	o.writeTime, o.toolsWrite = r.clock, maps.Clone(r.tools)
	if _, is := r.tools[o.Plan]; o.Plan != "" && (!is || r.tools[o.Plan] != o.toolsRead[o.Plan]) {
		r.counts.Gone++
	}
	for _, g := range r.guards {
		if registry := g.registry(o); registry != nil {
			o.toolsWrite = maps.Clone(registry)
		}
	}
	for cell, value := range o.written() {
		r.cells[cell] = append(r.cells[cell], version{value, o, r.clock})
	}
	r.counts.Committed++
	r.end(o, Committed, "")
}

// retract takes a committed operation back: its writes are gone, and what they had overwritten is there again.
func (r *Runtime) retract(o *Op) {
	for cell := range r.cells {
		r.cells[cell] = slices.DeleteFunc(r.cells[cell], func(v version) bool { return v.by == o })
	}
	o.state = Retracted
	for _, k := range slices.Backward(o.left) {
		r.undone = append(r.undone, o.effects[k].Effect)
	}
}

// Register puts a tool into the registry, or changes its signature.
func (r *Runtime) Register(tool, signature string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tools[tool] = signature
}

// Remove takes a tool out of the registry.
func (r *Runtime) Remove(tool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tools, tool)
}

// Value is what a cell holds.
func (r *Runtime) Value(cell string) trace.Value {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, has := r.latest(cell); has {
		return v.value
	}
	return trace.Null
}

// Cells names the cells that hold something, sorted.
func (r *Runtime) Cells() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.cells)) {
		if len(r.cells[name]) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Counts is what the run came to so far.
func (r *Runtime) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Undone has the effects of what was taken back, in the order in which they are compensated: each operation's last
// effect first.
func (r *Runtime) Undone() []trace.Effect {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.undone)
}

// Finish gives up what is still open or waits.
func (r *Runtime) Finish() {
	r.mu.Lock()
	ops := slices.Clone(r.ops)
	r.mu.Unlock()
	for _, o := range ops {
		o.GiveUp()
	}
}

// Records is the history of all operations that are over, in the order in which they began.
func (r *Runtime) Records() []trace.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []trace.Record
	for _, o := range r.ops {
		if o.state != Open && o.state != Waiting {
			all = append(all, o.record())
		}
	}
	return all
}

// Judge is what the detectors find in a history.
func Judge(records []trace.Record) *anomaly.Report {
	h := anomaly.NewHistory(0)
	for i := range records {
		if err := h.Add(records[i].Op(i + 1)); err != nil {
			panic("runtimes: " + err.Error()) // a script that gives two operations one name
		}
	}
	return h.Check()
}
