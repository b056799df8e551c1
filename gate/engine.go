package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology/machine"
)

// ErrGivenUp is returned by Run and Finish when the outcome of a call stays unknown although the tool's maximum
// time has passed: its transaction can no longer be sealed.
var ErrGivenUp = errors.New("gate: the outcome of the call stays unknown, it was given up")

// ErrLease is returned by Run, Finish, Release and Undo when the lease does not surely outlast one more call. Nothing
// left since the last mark; the next lease holder continues.
var ErrLease = errors.New("gate: the lease ends before the call could")

// ErrMark is returned by Run, Finish, Release and Undo when a mark could not be written. What it announces did not
// begin.
var ErrMark = errors.New("gate: writing down a step")

// Lease is how long this process surely may still act.
type Lease interface {
	// Left is the local monotonic time that the lease surely still lasts.
	Left() time.Duration
}

type leaseKey struct{}

// UnderLease is a context in which calls start under a lease of their own instead of the engine's: one that does not
// come to life again when its holder takes another one.
func UnderLease(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// Clock is the time as the gate sees it. Only differences count.
type Clock interface {
	Now() time.Time
	// Sleep waits for d, or returns why ctx ended.
	Sleep(ctx context.Context, d time.Duration) error
	// Within is ctx, ended after d at the latest.
	Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// Options is what an engine needs. Tools, Marks and Lease are required.
type Options struct {
	Tools Tools
	Marks Marks
	Lease Lease
	Clock Clock        // nil: the machine's
	Log   *slog.Logger // nil: none
	// Origin names log and workspace, for what is made of a transaction's id; see OwnKey. Nil: nothing.
	Origin func() string
}

// Metrics count what the engine did since it was made.
type Metrics struct {
	Answered, Refused, NotSent, Unknown atomic.Uint64 // calls, by what came of them
	Retries                             atomic.Uint64 // calls beyond the first of one effect, or of its compensation
	LookUps                             atomic.Uint64
	GivenUp                             atomic.Uint64
	LeaseStops                          atomic.Uint64 // calls not begun because the lease was too short
	Leaked, Unresolved, Partial         atomic.Uint64 // residue, by result
}

// Engine runs, releases and undoes effects. It keeps nothing between calls but its metrics: what it knows of an
// effect is its Progress, and that is rebuilt from marks. It is safe for concurrent use by different transactions.
type Engine struct {
	Metrics Metrics

	tools  Tools
	marks  Marks
	lease  Lease
	clock  Clock
	log    *slog.Logger
	origin func() string
	calls  atomic.Int64

	mu      sync.Mutex
	tallies map[tallyOf]*tally // of jobs that were stopped
}

// Calls is how many calls are being made now, their marks included. Once the lease is over no further one begins.
func (g *Engine) Calls() int { return int(g.calls.Load()) }

// New makes an engine.
func New(o Options) *Engine {
	if o.Tools == nil || o.Marks == nil || o.Lease == nil {
		// Without one of them a call could leave unmarked, or after the lease.
		panic("gate: an engine needs tools, marks and a lease")
	}
	if o.Clock == nil {
		o.Clock = machine.Clock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Origin == nil {
		o.Origin = func() string { return "" }
	}
	return &Engine{tools: o.Tools, marks: o.Marks, lease: o.Lease, clock: o.Clock, log: o.Log, origin: o.Origin,
		tallies: map[tallyOf]*tally{}}
}

// mark writes a step down and applies it. Until it returned nil the step did not happen.
func (g *Engine) mark(p *Progress, m Mark, before, after failpoint.Point) error {
	m.Tx, m.Index = p.Tx, p.Index
	failpoint.Hit(before)
	// First written, then believed: a step that is only in memory would be taken for not begun by the next incarnation.
	if err := g.marks.Mark(m); err != nil {
		return fmt.Errorf("%w: %s of %s/%d: %w", ErrMark, m.Step, p.Tx, p.Index, err)
	}
	failpoint.Hit(after)
	p.Apply(m)
	return nil
}

// Read makes a call of class read. It changes nothing, so nothing is marked and no lease is asked for.
func (g *Engine) Read(ctx context.Context, e Effect) (Answer, error) {
	if e.Tool.Class != sequencer.ClassRead {
		// Another class changes the world, and would do so without a mark.
		panic(fmt.Sprintf("gate: %s of %s is read, but is %s", e.Tool.Name, e.Tx, e.Tool.Class))
	}
	a, err := g.tools.Adapter(e.Tool.Name)
	if err != nil {
		return Answer{}, fmt.Errorf("reading with %s: %w", e.Tool.Name, err)
	}
	ctx, cancel := g.clock.Within(ctx, e.Tool.MaxTime)
	defer cancel()
	answer, err := a.Call(ctx, g.callOf(&e))
	g.count(answer, err)
	if err != nil {
		return Answer{}, fmt.Errorf("reading with %s: %w", e.Tool.Name, err)
	}
	return answer, nil
}

// callOf is the effect's own call.
func (g *Engine) callOf(e *Effect) Call {
	return Call{Tool: e.Tool.Name, Tx: e.Tx, Index: e.Index, Origin: g.origin(), Key: e.Key, Args: e.Args,
		Traceparent: e.Traceparent}
}

func (g *Engine) count(a Answer, err error) {
	switch {
	case errors.Is(err, ErrNotSent):
		g.Metrics.NotSent.Add(1)
	case err != nil:
		g.Metrics.Unknown.Add(1)
	case a.Refused:
		g.Metrics.Refused.Add(1)
	default:
		g.Metrics.Answered.Add(1)
	}
}
