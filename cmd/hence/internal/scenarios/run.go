package scenarios

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/trace"
)

// Scenario is a workload with its one schedule.
type Scenario struct {
	Name  string
	About string // one line
	Steps []Step // in the order in which they happen
}

// Step is one thing that happens. The functions of this package make them.
type Step struct {
	what  action
	op    string
	begin runtimes.Begin
	cell  string
	value Value
	k     int
	tool  string
	sign  string
}

// Value is what an operation writes, from what it has read.
type Value func(read map[string]trace.Value) trace.Value

type action uint8

const (
	begin action = iota + 1
	issue
	complete
	write
	claim
	commit
	giveUp
	retract
	register
	remove
)

// Begin begins an operation of an agent on cells.
func Begin(op, agent string, reads ...string) Step {
	return Step{what: begin, op: op, begin: runtimes.Begin{Name: op, Agent: agent, Reads: reads}}
}

// Planning is a Begin of which the agent plans to call a tool.
func (s Step) Planning(tool string) Step {
	s.begin.Plan = tool
	return s
}

// Text is a Value that is the same whatever was read.
func Text(text string) Value {
	return func(map[string]trace.Value) trace.Value { return trace.Text(text) }
}

// Nothing is the Value of a cell that is deleted.
func Nothing(map[string]trace.Value) trace.Value { return trace.Null }

// Append is the Value of a block with a line added to what was read of it.
func Append(cell, line string) Value {
	return func(read map[string]trace.Value) trace.Value {
		return trace.Text(strings.Trim(TextOf(read[cell])+" "+line, " "))
	}
}

// TextOf is the text of a value that is one, else nothing.
func TextOf(v trace.Value) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	return string(v[1 : len(v)-1]) // scripts write texts without escapes
}

// Issue starts an effect of an operation; Complete ends it, by its index among the operation's own.
func Issue(op, cell string, value Value) Step {
	return Step{what: issue, op: op, cell: cell, value: value}
}

// Complete ends an effect.
func Complete(op string, k int) Step { return Step{what: complete, op: op, k: k} }

// Write is an effect that is done at once.
func Write(op, cell string, value Value) Step {
	return Step{what: write, op: op, cell: cell, value: value}
}

// Claim makes an operation say that it read a value.
func Claim(op, cell string, value Value) Step {
	return Step{what: claim, op: op, cell: cell, value: value}
}

// Commit commits an operation.
func Commit(op string) Step { return Step{what: commit, op: op} }

// GiveUp ends an operation without a commit.
func GiveUp(op string) Step { return Step{what: giveUp, op: op} }

// Retract takes a committed operation back.
func Retract(op string) Step { return Step{what: retract, op: op} }

// Register puts a tool into the registry, or changes it.
func Register(tool, signature string) Step {
	return Step{what: register, tool: tool, sign: signature}
}

// Remove takes a tool out of it.
func Remove(tool string) Step { return Step{what: remove, tool: tool} }

// Options are how a scenario is run.
type Options struct {
	// Retry: operations that were refused are done again, once, one after the other in the order of their refusal,
	// after the last step.
	Retry bool
	// Each is called after every step; nil: nothing is.
	Each func()
}

// Result is what a run came to.
type Result struct {
	Records []trace.Record
	Report  *anomaly.Report
	Counts  runtimes.Counts
	Final   map[string]trace.Value // what the cells hold
	Why     map[string]string      // of operations that were refused, by name
}

// Fired names the kinds that are certain, in the order of reports, with a space between.
func (r *Result) Fired() string { return fired(r.Report, true) }

// Possible names the kinds that are possible.
func (r *Result) Possible() string { return fired(r.Report, false) }

func fired(report *anomaly.Report, certain bool) string {
	var names []string
	for i := range report.Findings {
		f := &report.Findings[i]
		if f.Certain == certain && !slices.Contains(names, f.Kind.String()) {
			names = append(names, f.Kind.String())
		}
	}
	return strings.Join(names, " ")
}

// Has reports whether a kind is certain.
func (r *Result) Has(kind anomaly.Kind) bool {
	return slices.ContainsFunc(r.Report.Findings, func(f anomaly.Finding) bool { return f.Kind == kind && f.Certain })
}

// Run runs a scenario under a runtime that has run nothing yet.
func Run(s Scenario, r *runtimes.Runtime, o Options) *Result {
	p := &player{r: r, ops: map[string]*runtimes.Op{}, later: map[string][]Step{}, why: map[string]string{}}
	for _, step := range s.Steps {
		p.play(step)
		p.catchUp()
		if o.Each != nil {
			o.Each()
		}
	}
	r.Finish()
	if o.Retry {
		for _, op := range slices.Clone(p.refused) {
			p.again(s, op)
		}
	}
	result := &Result{Records: r.Records(), Counts: r.Counts(), Final: map[string]trace.Value{}, Why: p.why}
	result.Report = runtimes.Judge(result.Records)
	for _, cell := range r.Cells() {
		result.Final[cell] = r.Value(cell)
	}
	return result
}

// player takes the steps of a script to a runtime.
type player struct {
	r       *runtimes.Runtime
	ops     map[string]*runtimes.Op
	later   map[string][]Step // by operation: steps that wait until it begins
	order   []string          // operations in the order in which they began
	refused []string
	why     map[string]string
}

func (p *player) play(s Step) {
	o := p.ops[s.op]
	if o == nil && s.what != begin && s.op != "" {
		panic(fmt.Sprintf("scenarios: %s has not begun", s.op))
	}
	if o != nil {
		if state, _ := o.State(); state == runtimes.Waiting {
			p.later[s.op] = append(p.later[s.op], s)
			return
		}
	}
	switch s.what {
	case begin:
		p.ops[s.op] = p.r.Begin(s.begin)
		p.order = append(p.order, s.op)
	case issue:
		o.Issue(s.cell, s.value(o.Values()))
	case complete:
		o.Complete(s.k)
	case write:
		o.Write(s.cell, s.value(o.Values()))
	case claim:
		o.Claim(s.cell, s.value(nil))
	case commit:
		o.Commit()
	case giveUp:
		o.GiveUp()
	case retract:
		o.Retract()
	case register:
		p.r.Register(s.tool, s.sign)
	case remove:
		p.r.Remove(s.tool)
	}
	p.note(s.op)
}

// note remembers that an operation was refused.
func (p *player) note(op string) {
	if p.ops[op] == nil || p.why[op] != "" {
		return
	}
	if state, why := p.ops[op].State(); state == runtimes.Refused {
		p.why[op] = why
		p.refused = append(p.refused, op)
	}
}

// catchUp takes the steps of operations that have waited and began meanwhile, the oldest first, until none can go on.
func (p *player) catchUp() {
	for moved := true; moved; {
		moved = false
		for _, op := range p.order {
			if state, _ := p.ops[op].State(); state == runtimes.Waiting || len(p.later[op]) == 0 {
				continue
			}
			steps := p.later[op]
			p.later[op] = nil
			for _, s := range steps {
				p.play(s)
			}
			moved = true
		}
	}
}

// again does the steps of an operation once more, as an operation of its own.
func (p *player) again(s Scenario, op string) {
	name := op + "-again"
	for _, step := range s.Steps {
		if step.op != op || step.what == giveUp || step.what == retract {
			continue
		}
		step.op = name
		step.begin.Name = name
		p.play(step)
	}
}
