package runtimes

import (
	"maps"
	"slices"

	"github.com/hence-dev/hence/topology/trace"
)

// State is how far an operation is.
type State uint8

// The states.
const (
	Waiting   State = iota + 1 // for locks: it has not begun
	Open                       // it has read
	Committed                  // its writes are visible
	Refused                    // it was never visible
	Retracted                  // it was visible and is taken back
)

// String is the state's name.
func (s State) String() string {
	switch s {
	case Waiting:
		return "waiting"
	case Open:
		return "open"
	case Committed:
		return "committed"
	case Refused:
		return "refused"
	case Retracted:
		return "retracted"
	}
	return "unknown"
}

// Op is one operation of an agent. Steps that its state does not allow do nothing, so that a script can go on with an
// operation that was refused.
type Op struct {
	Begin
	r                   *Runtime
	state               State
	why                 string
	readTime, writeTime uint64
	values              map[string]trace.Value
	claimed             bool  // it says of itself what it read
	preds               []*Op // Invariant: all whose writes it read, and all that these rest on, as it began
	effects             []effect
	left                []int // effects in the order in which they reached the world
	toolsRead           map[string]string
	toolsWrite          map[string]string
}

type effect struct {
	trace.Effect
	complete, left bool
}

// rest notes that o read what p wrote.
func (o *Op) rest(p *Op) {
	for _, one := range append([]*Op{p}, p.preds...) {
		if !slices.Contains(o.preds, one) {
			o.preds = append(o.preds, one)
		}
	}
}

// State is how far the operation is, and why it was refused.
func (o *Op) State() (State, string) {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	return o.state, o.why
}

// Values is what it read, by cell.
func (o *Op) Values() map[string]trace.Value {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	return maps.Clone(o.values)
}

// Claim makes the operation say that it read a value, which nothing here can validate: its record has no provenance.
func (o *Op) Claim(cell string, value trace.Value) {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	if o.state == Open {
		o.values[cell], o.claimed = value, true
		if !slices.Contains(o.Reads, cell) {
			o.Reads = append(slices.Clone(o.Reads), cell)
		}
	}
}

// Issue starts an effect, which also writes the cell when the operation commits. It returns the effect's index.
func (o *Op) Issue(cell string, value trace.Value) int {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	if o.state == Open {
		o.effects = append(o.effects, effect{Effect: trace.Effect{Cell: cell, Value: value}})
	}
	return len(o.effects) - 1
}

// Complete says that an effect is done.
func (o *Op) Complete(k int) {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	if o.state == Open && k < len(o.effects) {
		o.complete(k)
	}
}

func (o *Op) complete(k int) {
	if o.effects[k].complete {
		return
	}
	o.effects[k].complete = true
	leaving := []int{k}
	for _, g := range o.r.guards {
		if some, ok := g.leave(o, k); ok {
			leaving = some
		}
	}
	for _, n := range leaving {
		o.effects[n].left = true
	}
	o.left = append(o.left, leaving...)
}

// Write is an effect that is done as soon as it is issued.
func (o *Op) Write(cell string, value trace.Value) { o.Complete(o.Issue(cell, value)) }

// Commit makes the operation's writes visible, or refuses it.
func (o *Op) Commit() State {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	if o.state != Open {
		return o.state
	}
	for _, g := range o.r.guards {
		if refused := g.commit(o.r, o); refused != "" {
			o.r.counts.Aborted++
			o.r.end(o, Refused, refused)
			return o.state
		}
	}
	o.r.commit(o)
	return o.state
}

// GiveUp ends an operation that has not committed.
func (o *Op) GiveUp() {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	if o.state == Open || o.state == Waiting {
		o.r.counts.GivenUp++
		o.r.end(o, Refused, "its agent gave it up")
	}
}

// Retract takes a committed operation back, and those that the runtime says go with it.
func (o *Op) Retract() {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	if o.state != Committed {
		return
	}
	o.r.counts.Retracted++
	o.r.retract(o)
	for _, g := range o.r.guards {
		for _, other := range g.retracted(o.r, o) {
			o.r.counts.Cascaded++
			o.r.retract(other)
		}
	}
}

// writes are the cells that the operation writes when it commits, by what was issued.
func (o *Op) writes() (cells []string) {
	for _, e := range o.effects {
		if !slices.Contains(cells, e.Cell) {
			cells = append(cells, e.Cell)
		}
	}
	return cells
}

// written is what the cells hold then: by the order in which effects reached the world, the last counts.
func (o *Op) written() map[string]trace.Value {
	values := map[string]trace.Value{}
	for _, k := range o.left {
		values[o.effects[k].Cell] = o.effects[k].Value
	}
	return values
}

// record is the operation as a line of a trace.
func (o *Op) record() trace.Record {
	aborted := o.state != Committed
	rec := trace.Record{Txn: trace.ID(o.Name), Agent: o.Agent, ReadSet: o.Reads, ReadValues: o.values,
		ReadTime: o.readTime, WriteSet: o.writes(), WriteTime: o.writeTime, PlannedTool: trace.Plan(o.Plan),
		IO: []trace.Effect{}, CO: []trace.Effect{}, Aborted: &aborted, ToolsUsed: []string{}}
	rec.WriteValues = map[string]trace.Value{}
	for _, e := range o.effects {
		rec.IO = append(rec.IO, e.Effect)
		rec.WriteValues[e.Cell] = e.Value
	}
	for _, k := range o.left {
		rec.CO = append(rec.CO, o.effects[k].Effect)
		rec.WriteValues[o.effects[k].Cell] = o.effects[k].Value
	}
	if !o.claimed {
		rec.Preds = []trace.ID{}
		for _, p := range o.preds {
			rec.Preds = append(rec.Preds, trace.ID(p.Name))
		}
	}
	rec.ToolsVisibleAtRead, rec.ToolSignaturesAtRead = names(o.toolsRead), o.toolsRead
	if o.writeTime > 0 {
		rec.ToolsVisibleAtWrite, rec.ToolSignaturesAtWrite = names(o.toolsWrite), o.toolsWrite
		if o.Plan != "" {
			rec.ToolsUsed = []string{o.Plan}
		}
	}
	return rec
}

func names(tools map[string]string) []string {
	all := make([]string, 0, len(tools))
	for name := range tools {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func (o *Op) restsOn(p *Op) bool { return slices.Contains(o.preds, p) }
