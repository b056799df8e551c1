// Package agent is one agent's work: it joins the log and keeps the lease, begins transactions, answers reads, calls
// tools, seals, and settles what was decided. Faces (package http) call it through an interface of
// theirs; each exported method is one flow of the agent's loop.
//
// Guarantees: what an agent is told is in its journal before it is told; an intent that may have reached the log is
// repeated under its number until the log has it, so it counts once; a tool call without a key is marked on the disk
// before it begins, so it begins once; what is decided is settled, by this process or by the next.
//
// It is no face: it knows no HTTP, no token and no route. It decides nothing about the order: what may commit is the
// fold's answer, and what may be done next about an effect is the gate's. It shares no state with another agent but
// the view.
package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/coverage"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/metrics"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
)

// Agent is what the agent does through this sidecar: it joins the log, knows the agent's open transactions and
// loose reads, and keeps its promise to the log (the watermark). It begins again, with another incarnation, when the
// lease of the one before has ended.
//
// One loop owns it: what is not made once in New is read and changed by flows of the loop alone, and a flow gives way
// at Await and Do alone (the waits of loop.Timed, untilTx, through and reach are these), also inside settle. Of what
// other goroutines need, lease and delivery have a mutex of their own, taken for a few instructions inside of the loop
// too; view has another.
type Agent struct {
	agent     string
	workspace string
	view      *view.View
	events    Log
	limits    Limits
	clock     Clock
	log       *slog.Logger
	metrics   *metrics.Agent
	tracing   tracing
	defaults  // of transactions
	journals  // what outlives the process
	running   // what runs it
	calling   // what makes tool calls
	presence
	past
	ownTxs
	looseReads
	settle    *settle.Settler
	formers   *settle.Formers
	lease     lease
	registry  *registry
	questions questions
}

// defaults are those of transactions.
type defaults struct {
	observes bool           // every transaction only observes
	mode     sequencer.Mode // of transactions that name none
}

// journals are what outlives the process.
type journals struct {
	delivery *journal.Journal
	keys     *once.Keys
	openFile journal.Opener
	dataDir  string
	opened   func() // called once the journal is open
	patient  bool   // the journal is opened again when it cannot be
	unopened error  // why the journal could not be opened the last time; nil: nothing was wrong
	origin   string // what keys of calls name, known before the first session
}

// running is what runs an agent.
type running struct {
	loop      loop.Timed
	work      context.Context // of what outlives requests
	stopWork  context.CancelCauseFunc
	joinedNow func()          // called after each join
	cut       context.Context // its end ends what a stop waits for
	unwatch   func()          // nil: decisions do not come yet
	soon      chan struct{}   // there is something to maintain before the next beat
	told      sequencer.Seq   // of the last decision that observe was told of; Invariant: the view is not behind it
	seen      loop.Watched    // told
}

// calling is what makes tool calls.
type calling struct {
	tools  gate.Tools // nil: no policy
	engine engine     // nil: no policy
	marks  settle.Marks
	hook   Hook
}

// presence is the session of this agent in the log: the one that is live, or the join that asks for one.
type presence struct {
	incarnation sequencer.Seq // of the current or the last session
	live        bool          // Invariant: then incarnation is that of a lease whose end the view has not shown
	superseded  bool          // another sidecar of this agent has joined; the agent's next request takes it back
	joinID      string
	joinSent    time.Time          // when it was sent first, by the steady clock
	joined      sequencer.Seq      // the seq of joinID's decision
	joinRefused *sequencer.Outcome // why the log does not take joinID; nil: it does, or has not said
	joinAfter   time.Time          // after a refusal: it is not asked again before
	joinPause   time.Duration      // how long it is left alone after the next refusal
	pings       uint32             // questions that only confirm the lease
	words       uint32             // approvals and denials that were sent
	formatAfter time.Time          // the processors are not asked before which format of events they read
	watermark   sequencer.Seq      // Invariant: no open transaction of this session and no loose read is older
	marked      time.Time
}

// past is what is known of the sessions before, and of what may be left of them.
type past struct {
	unentered  sequencer.Seq       // of a join before; when no session came of it, its end costs nothing
	ended      sequencer.Seq       // the newest incarnation of ours whose lease has ended
	notice     journal.Notice      // what the agent read before is lost: each conversation's next request is told
	unnoted    bool                // that it is owed is not in the journal yet
	unresolved []*journal.TxRecord // sealed by the process before this one; how they ended is not known yet
	resolves   int                 // tries that read nothing
	readTo     sequencer.Seq       // the log was read up to here for that; zero: nothing of it was
	others     bool                // by then another process of this agent was let in
}

// ownTxs are the transactions of this agent.
type ownTxs struct {
	txs     map[sequencer.TxID]*tx
	active  map[sequencer.TxID]*tx      // Invariant: each is in txs, and the watermark may not pass it
	order   []sequencer.TxID            // of those that are over, oldest first
	open    int                         // Invariant: those of txs that are open or sealed
	sending map[sequencer.TxID]*sending // seals whose outcome is not known
	ahead   map[sequencer.TxID]*ahead   // seals of this process that some of this agent wait for
	count   uint64
}

// looseReads are those outside of transactions, by conversation, until a seal carries them.
type looseReads struct {
	loose journal.Talks
	moved map[string]overtakes // by conversation: what was written over of its loose reads

	giving  map[giving]*given // to readers, until they have their answers
	givings uint64            // counts their beginnings and ends

	asked    map[string]mentioned // requests to models that are under way
	mentions uint64               // counts them
	covered  *coverage.Log

	resets uint64 // counts the decisions that took all shards away, as the view has shown them
}

// engine makes tool calls and settles them; *gate.Engine is one.
type engine interface {
	// Run makes an eager call and marks its steps.
	Run(ctx context.Context, e gate.Effect) (gate.Answer, error)
	// Read makes a call that changes nothing.
	Read(ctx context.Context, e gate.Effect) (gate.Answer, error)
	// Finish finds out what became of an eager call whose outcome is unknown.
	Finish(ctx context.Context, p gate.Progress, claim gate.Claim) (gate.Progress, error)
	settle.Engine
	// Calls is how many calls are being made now.
	Calls() int
}

// ahead is a seal of this process, of any of its agents, that seals of this agent wait for.
type ahead struct {
	over    bool         // a decision names its transaction, or it has left the line
	changed loop.Watched // over
}

// sending is a seal on its way to the log. An append whose answer was lost is repeated, so the
// log may have several copies. Of a transaction that it does not know it may refuse one for want of room and take a
// later one: there only the last copy's refusal leaves the transaction open.
type sending struct {
	intent  *sequencer.Intent
	acked   bool
	last    int64              // where the log has the last copy, once acked
	refused *sequencer.Outcome // the last refusal of a copy
}

// given are the answers under way of one giving. Of two that overlap the older version counts, because it is unknown
// which one the reader acts on.
type given struct {
	active   int // Invariant: at least one, else it is not kept
	recorded int // of them, and not answered yet
	answered uint64
}

// giving is one scope that is being given to one reader.
type giving struct {
	reader string
	scope  sequencer.Scope
}

// mentioned is a request to a model that is under way.
type mentioned struct {
	view sequencer.Seq // that it left at
	step uint64        // where the step that it ends began
	atMs int64         // when it left
}

// overtakes is what a decision has written over of one conversation's loose reads.
type overtakes struct {
	scopes []sequencer.Scope
	first  *api.Overtaken
}

// registry is what an agent has said of its tools. It outlives sessions: a new incarnation registers it again.
type registry struct {
	busy       bool                         // Invariant: while it is set one flow alone changes entries
	servers    map[string]map[string]string // signatures by name
	generation uint64
}

func newRegistry() *registry {
	return &registry{servers: map[string]map[string]string{}, generation: 1}
}

// randomID is 96 random bits.
func randomID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}
