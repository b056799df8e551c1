package settle

import (
	"context"
	"log/slog"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/view"
)

// Settler settles what was decided: it makes the calls that a commit has let go, undoes those of an abort or of a
// retraction, says in the log what came of them, and lists what could not be made clean. It adopts what others have
// left, and tries again by hand what is on the list.
//
// The agent's loop owns it as it owns the agent: all methods but those that say so are called inside of flows, and
// what they read is as they left it until they wait, append, or ask the log, the journal's topic or a sink (Loop.Do,
// Loop.Until, Loop.Sleep, Session and Lease give way).
type Settler struct {
	Reader
	agent    string
	view     *view.View
	clock    loop.Clock
	delivery *journal.Journal
	log      *slog.Logger
	metrics  *metrics.Agent
	limits   Limits
	policy
	marks   Marks
	formers *Formers
	session Session
	own     Transactions
	lease   Lease
	work    context.Context // of calls by hand, which go on without their request

	unsettled   map[sequencer.TxID]*unsettled    // decided transactions that this sidecar has to settle
	settles     uint32                           // settle intents of this process
	settling    int                              // of unsettled; Invariant: those that are running, at most maxSettling
	resting     map[sequencer.TxID]sequencer.Seq // settled at, and kept by a retraction until their turn
	orphans     orphans
	unpublished unpublished
	dealing     dealing
}

// New makes a settler that has nothing to settle.
func New(c Config) *Settler {
	return &Settler{Reader: c.Reader, agent: c.Agent, view: c.View, clock: c.Reader.Loop.Clock, delivery: c.Journal,
		log: c.Logger, metrics: c.Metrics, limits: c.Limits,
		policy: policy{tools: c.Tools, capped: c.Capped, engine: c.Engine, bare: c.Bare, origin: c.Origin},
		marks:  c.Marks, formers: c.Formers, session: c.Session, own: c.Own, lease: c.Lease, work: c.Outlives,
		unsettled: map[sequencer.TxID]*unsettled{}, resting: map[sequencer.TxID]sequencer.Seq{}}
}

// Config is what settlements are made of.
type Config struct {
	Reader
	Agent    string
	View     *view.View
	Journal  *journal.Journal
	Logger   *slog.Logger
	Metrics  *metrics.Agent
	Limits   Limits
	Formers  *Formers
	Session  Session
	Own      Transactions
	Lease    Lease
	Tools    gate.Tools      // the policy; nil: none, then no tool is called
	Capped   gate.Tools      // the policy as calls go by it: no call outlasts every lease
	Engine   Engine          // nil: no policy
	Bare     Engine          // over NoTools
	Marks    Marks           // that both make
	Origin   func() string   // what the keys of this session's calls name
	Outlives context.Context // of calls by hand, which go on without their request
}

// Limits bound how long settlements wait for others.
type Limits struct {
	SettlementWait time.Duration // for an agent to say what it did under its touches, after an abort
	AdoptAfter     time.Duration // how long an orphan may block this agent before it is adopted
}

// Session is the agent's session in the log.
type Session interface {
	// Incarnation is that of the current or the last session. Live: its lease has not ended as far as the view shows.
	Incarnation() sequencer.Seq
	Live() bool
	// Await waits until there is a live session.
	Await(ctx context.Context) error
	// Append adds an intent to the log once; Ask does so again and again until the view shows its decision, or done
	// holds.
	Append(ctx context.Context, in *sequencer.Intent) (offset int64, err error)
	Ask(ctx context.Context, in *sequencer.Intent, done func() bool) (*sequencer.Outcome, error)
	// Reach waits until the view has applied a seq, and the agent was told of it.
	Reach(ctx context.Context, seq sequencer.Seq) error
	// Hurry has settlements looked at before the next beat.
	Hurry()
}

// Lease is how long the agent's session surely still lasts.
type Lease interface {
	// Longest is what one call may take at most.
	Longest() time.Duration
	// Stretch renews the lease unless it lasts longer than a call may take.
	Stretch(ctx context.Context, takes time.Duration) error
	// Under is a context in which calls start under the lease of an incarnation only.
	Under(ctx context.Context, inc sequencer.Seq) context.Context
	// LearnRules asks for the rules when the view began after their last change.
	LearnRules(ctx context.Context)
}

// Transactions are the agent's own.
type Transactions interface {
	// Rest returns once no request works in a transaction any more: a call that is under way ends first.
	Rest(ctx context.Context, id sequencer.TxID) error
	// Traced is a context in the trace that a transaction belongs to, and Base the seq that it began at; known: the
	// agent still knows it.
	Traced(ctx context.Context, id sequencer.TxID) context.Context
	Base(id sequencer.TxID) (at sequencer.Seq, known bool)
	// Waiting gives those that wait for others, with what the log named when they began to.
	Waiting(each func(id sequencer.TxID, waiting *sequencer.Outcome))
	// Hold begins a transaction of the sidecar itself, which no agent's read or write goes with.
	Hold(ctx context.Context) (Held, error)
}

// Held is a transaction that only holds what a residue moves while that is dealt with.
type Held interface {
	ID() sequencer.TxID
	// Within works in the transaction once it was granted scopes for writing, within grant.
	Within(ctx, grant context.Context, scopes []sequencer.Scope, work func() error) error
	// HandOver tells the log and the journal that the scopes are acted on, in Within.
	HandOver(ctx context.Context, scopes []sequencer.Scope) error
	// Usable says why what it holds may be another's by now.
	Usable() error
	// Abort ends it.
	Abort(ctx context.Context, why string) error
}
