// Package explore walks every interleaving of small configurations through the real fold, together with a model of the
// world: what each resource holds, the undo image of each effect, the calls in flight, and sidecars whose views lag.
//
// Decisions alone look right in most of the ways in which an order can be wrong, so the checks are made on the world:
// a committed transaction read what the ones committed before it left, nothing overwrote what was not settled, the
// world ends as the committed transactions leave it, and nothing waits for ever.
//
// What the model merges is what no other part of it can tell apart: a call's leaving and its landing (a call that left
// may land at any later time, so it is in flight until its sidecar would have to know), a view that moves past
// outcomes that write nothing, and the arrival of an answer with the step that it lets the agent take.
//
// Beside that world there are plain ones of the registry, of caps, and of orphans in a retraction's way. The gate's
// world, of who settles with which duties, is package gate/explore.
package explore

import (
	"fmt"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// OpKind is what one operation of a program does.
type OpKind uint8

// The operations. Reads and effects happen while the transaction is open, the rest with its seal or after its commit.
const (
	OpRead   OpKind = iota + 1 // read a resource, or a shard from the view
	OpEffect                   // touch the scopes in one touch, then run an eager effect on each
	OpGated                    // an effect released after the commit
	OpWrite                    // write a shard
	OpSwap                     // note a shard's version without a read, and write it if it still has that version
)

// Op is one operation; the scopes are indexes into Config.Scopes. All but OpEffect use the first one only.
type Op struct {
	Kind   OpKind
	Scopes []int
}

// Agent is one agent: a program that it runs as a transaction, through a sidecar of its own unless it says otherwise.
type Agent struct {
	Mode    sequencer.Mode
	May     bool // declare the program's scopes at begin (ordered only)
	Program []Op
	Retries int // further transactions after a refusal; negative: for ever
	// LockAfter is after how many refusals the agent retries in mode locked; zero: never.
	LockAfter int
	Abort     bool              // it may also give up at any time before the decision
	Beside    bool              // a second transaction of the agent before it, through the same sidecar
	Session   string            // the conversation that its transactions belong to
	Branch    bool              // its transactions are branches of the one group, of which one is chosen at some time
	Leaks     bool              // what it has to compensate may also be given up, and stands as residue
	Hook      bool              // its seal asks for a verdict, which may be either
	Retract   bool              // its transaction may be retracted at any time once it has committed
	Crashes   int               // how often its sidecar may start again and settle by its former incarnation's journal
	Strays    bool              // its first settlement may also name a scope that is another transaction's
	Levels    *sequencer.Levels // what its transactions are checked for; nil: what the rules say
}

// Careless names duties of a sidecar to leave undone, so that the explorer can show what each of them is for.
type Careless uint8

// The duties, with the row of the table of holes that each belongs to.
const (
	CarelessView   Careless = 1 << iota // 3b: a read's view seq is taken when its answer arrives
	CarelessGrant                       // 5d: a read does not wait until the view shows its grant
	CarelessFlight                      // 6: an abort is settled while a call is in flight
	CarelessRetry                       // 1d: a successor does not ask for all
)

// Config is one configuration to explore.
type Config struct {
	Name     string
	Scopes   []sequencer.Scope // at most 3; those of type shard are kept by the fold, the others by the world
	Agents   []Agent           // at most 4
	Careless Careless
	Rules    *sequencer.Rules // a rules record in front of everything; nil: none

	// Watermarks lets each sidecar send its watermark at any time. It makes the distance between seqs matter, so states
	// are then told apart exactly.
	Watermarks bool
	// Duplicates is how many late copies of seals the log may hold.
	Duplicates int
	// Ticks is how often the log's time may move, by one. States are then told apart exactly.
	Ticks int
	// Observes lets the workspace observe from the start. Switches is how many rules records may come at any time, each
	// of which makes it enforce while it observes, or observe again.
	Observes bool
	Switches int
	// Behind keeps the undo horizon HorizonSeqs behind the head, as the commits of many others would: what is final and
	// below the floor is soon forgotten.
	Behind bool
	// Harm leaves it to what others suffer to show a settlement of a scope that is not its transaction's.
	Harm bool
	// Exact tells states apart by their very seqs and epochs instead of by their order. It must not find more.
	Exact bool
	// Replay reaches each state by its whole log instead of from an exported state of the fold.
	Replay bool
	// MaxStates bounds the walk; zero: 20 million. A walk that reaches it is not complete.
	MaxStates int
}

// Violation is a property that does not hold, with a shortest way to it.
type Violation struct {
	What  string
	Trace Trace
}

// Report is what a walk found.
type Report struct {
	Name        string
	States      int
	Transitions int
	Depth       int
	Ends        int // distinct states in which everybody is done
	Commits     int // transitions that committed something
	Complete    bool
	Violation   *Violation // the first one found; the walk ends there
	Duration    time.Duration
}

// String returns the report as one line, with the trace below it where there is one.
func (r Report) String() string {
	var b strings.Builder
	state := "complete"
	if !r.Complete {
		state = "stopped"
	}
	fmt.Fprintf(&b, "%s: %d states, %d transitions, depth %d, %d ends, %s in %v", r.Name, r.States, r.Transitions,
		r.Depth, r.Ends, state, r.Duration.Round(time.Millisecond))
	if r.Violation != nil {
		fmt.Fprintf(&b, "\nviolation: %s\n%s", r.Violation.What, r.Violation.Trace)
	}
	return b.String()
}

// Sum adds up the reports of several walks; the first violation is kept.
func Sum(name string, reports []Report) Report {
	out := Report{Name: name, Complete: true}
	for _, r := range reports {
		out.States += r.States
		out.Transitions += r.Transitions
		out.Depth = max(out.Depth, r.Depth)
		out.Ends += r.Ends
		out.Commits += r.Commits
		out.Duration += r.Duration
		out.Complete = out.Complete && r.Complete
		if out.Violation == nil && r.Violation != nil {
			out.Violation = r.Violation
			out.Name += " (" + r.Name + ")"
		}
	}
	return out
}

// Run walks every interleaving of the configuration, breadth first.
func Run(cfg Config) Report {
	start := time.Now()
	s := newSearch(cfg)
	r := s.run()
	r.Name, r.Duration = cfg.Name, time.Since(start)
	return r
}
