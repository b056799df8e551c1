// Package gate holds what an agent's tools do to the world: which calls run at once and which wait for the commit, how
// a call that ran is undone, and what is said of those that could not be made clean.
//
// Guarantees: a call that waits leaves only after its transaction's commit, in the order in which the agent issued
// it; one whose sink takes a key reaches it once however often it is sent; one whose sink takes none is sent at
// most once, and what is not known of it is said to be unresolved. What it does not promise: a process that is
// stopped between the check of its lease and the call, and woken after its successor has settled, still makes that
// call.
package gate

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// ErrNotSent is returned by Adapter.Call when it is certain that the sink was never asked: the call may be made again,
// also without a key.
var ErrNotSent = errors.New("gate: the call did not leave")

// ErrUnknown is returned by Adapter.Call when the sink may or may not have acted: a time-out, a lost connection. Every
// error that is not ErrNotSent counts as this one.
var ErrUnknown = errors.New("gate: the outcome of the call is not known")

// ErrNoLookup is returned by Adapter.LookUp when the tool has no way to ask what became of a call.
var ErrNoLookup = errors.New("gate: the tool cannot look a call up")

// Call is what an adapter is asked to do.
type Call struct {
	Tool  string
	Tx    sequencer.TxID
	Index uint32
	// Origin names the log and the workspace that Tx belongs to (see the function Origin): without it two calls of
	// different logs could have one name.
	Origin string
	Key    string // idempotency key for the sink; empty: it takes none
	// Compensates is the key of the call that this one undoes. A sink that forbids keys (Tool.Forbids) refuses that one
	// from now on.
	Compensates string
	// ForbidOnly: it is not known that the call with the key of Compensates arrived. The sink undoes it only if it has it
	// on record. It is set only where the sink is declared to do so, or a person has asked for it.
	ForbidOnly  bool
	Args        json.RawMessage // a JSON object
	Saved       json.RawMessage // compensations: what the undone call's answer saved
	Traceparent string
}

// Answer is what a sink said.
type Answer struct {
	Refused bool `json:"refused,omitempty"` // the sink did nothing and says so: not an unknown, not a success
	// AboutKey: the refusal is what the sink's record under the key says, so it holds for every call under that key.
	// Any other refusal is about the one call that got it.
	AboutKey bool            `json:"about_key,omitempty"`
	Absent   bool            `json:"absent,omitempty"` // LookUp only: the call never arrived
	Detail   string          `json:"detail,omitempty"` // for people, without secrets
	Result   json.RawMessage `json:"result,omitempty"`
	Saved    json.RawMessage `json:"saved,omitempty"` // what undoing it needs, such as the former content
}

// Adapter speaks to one tool. It is safe for concurrent use, makes no retries of its own, and its errors hold no
// secret: they are shown to people and kept in records.
type Adapter interface {
	// Call returns the sink's answer, or ErrNotSent or ErrUnknown. It gives up when ctx ends.
	Call(ctx context.Context, c Call) (Answer, error)
	// LookUp says what became of a call with this key, or ErrNoLookup.
	LookUp(ctx context.Context, c Call) (Answer, error)
}

// Checker is an adapter that can tell before a call whether its arguments fit where they are to stand.
type Checker interface {
	// Check returns what Call would find wrong with the arguments, without asking anything of the sink.
	Check(c Call) error
}

// Retry bounds how often a release or a compensation is tried.
type Retry struct {
	Attempts int           // all in all; at least 1
	Backoff  time.Duration // before the second try; doubled for each further one
	Most     time.Duration // longest backoff
}

// MostTime is the longest MaxTime that a policy may give a tool.
const MostTime = 10 * time.Minute

// Tool is what the policy says of one tool for given arguments.
type Tool struct {
	Name    string
	Class   sequencer.Class
	Cost    uint32            // of undoing it; zero: none declared
	Scopes  []sequencer.Scope // what this call moves (class read: what it reads)
	May     []sequencer.Scope // what its touch asks for instead, when declared; each of Scopes lies within one
	Key     string            // business key of a gated call; empty: see Keyed
	Keyed   bool              // the sink takes a key; for eager classes it is made of transaction and index
	KeyLife time.Duration     // the sink may forget a key after it; zero: never
	Pin     *sequencer.Pin    // the registry's entry that the call relies on
	Former  string            `json:"-"` // the signature that an older release gave the same declaration; empty: none
	MaxTime time.Duration     // after it the call is given up
	Retry   Retry
	Undo    bool // a compensation is declared
	// Forbids: the sink of the compensation refuses the key that it undoes from then on, and does nothing else for one
	// that it never saw. Without it a compensation is sent only for a call that is known to be there.
	Forbids bool
	Approve bool `json:",omitempty"` // held: this call needs an approval before the commit
}

// Tools is the policy as the gate uses it.
type Tools interface {
	// Find says what a call of a tool with these arguments is; ErrNotServed for a name that no declaration serves.
	Find(tool string, args json.RawMessage) (Tool, error)
	// Undo is the call that compensates one that ran, given its answer. Any key in it says that its sink takes keys,
	// without one Find of its tool says whether it does; which key it is given Compensation says.
	Undo(e Effect, a Answer) (Call, error)
	// Adapter speaks to the tool; an error says that none is declared here.
	Adapter(tool string) (Adapter, error)
}

// Declared is one declaration of a policy, as people are shown it.
type Declared struct {
	Name         string // may have wildcards
	Class        sequencer.Class
	Adapter      string // the kind; empty: none
	Compensation string // the tool that undoes it; empty: none
	UndoOnly     bool   // it only compensates
	Signature    string
}

// Effect is one tool call of a transaction, as the log has it before it runs or is held.
type Effect struct {
	Tx          sequencer.TxID
	Incarnation sequencer.Seq // of the sidecar that issued it
	Index       uint32        // issuance order: 0-based, contiguous within the transaction
	Tool        Tool
	Key         string // what the sink is given, made from the tool's or from transaction and index; empty: none
	Args        json.RawMessage
	Traceparent string
	At          time.Time `json:",omitzero"` // when it was issued, by its issuer's clock; zero: not known
}

// Step says what a mark is about.
type Step uint8

// The steps of an effect, in the order in which they can come.
const (
	StepIssued   Step = iota + 1 // it is in the log
	StepStarted                  // the call is about to be made (eager, or the release of a held one)
	StepAnswered                 // the sink answered it, or a look-up did
	StepGivenUp                  // its outcome stays unknown
	StepUndoing                  // its compensation is about to be made
	StepUndone                   // the compensation was answered
	StepUndoLost                 // the compensation's outcome stays unknown, or it failed for good
	StepDropped                  // it was held, and its transaction was aborted
	StepNotSent                  // what StepStarted, or StepUndoing, announced certainly did not leave; see Unsent
)

// Mark is one durable note about an effect. Marks are in the journal before what they announce begins.
type Mark struct {
	Tx     sequencer.TxID
	Index  uint32
	Step   Step
	Answer *Answer
	Try    int
	Detail string
}

// Marks keeps marks: the sidecar's journal. It returns once a crash of the process cannot lose the mark.
type Marks interface {
	Mark(m Mark) error
}

// Progress is one effect with what is known of it: the effect as it is in the log, and its marks applied.
type Progress struct {
	Effect
	Committed bool // its transaction was committed: Undo is then a retraction's turn, and a held effect may have left
	Started   bool
	Answer    *Answer // of the call or of its release; one that is Absent was looked up, and never arrived
	GivenUp   bool
	Why       string // it was given up, or its compensation lost
	Undoing   bool
	UndoDone  *Answer
	UndoLost  bool
	Dropped   bool
	// Waited: every call that anybody else may have on its way has had its maximum time since. Wait sets it.
	Waited    bool
	Tries     int // of the call or its release
	UndoTries int
	// Unsent is why a held call has certainly not left although its transaction was committed, once its owner has stopped
	// trying. The next owner may try again until the transaction is final.
	Unsent string `json:",omitempty"`
}

// Claim says on what ground a process settles an effect: what it may know of calls that it has not made itself.
type Claim uint8

// The grounds.
const (
	ClaimOwn       Claim = iota // the incarnation that issued it, alive: what it did not start did not start
	ClaimSuccessor              // holds the exclusive lock of the whole journal of the process that issued it
	ClaimStranger               // knows only the log: it may call with keys, and nothing else
)

// Residue is one effect that could not be made clean, or whose outcome is unknown.
type Residue struct {
	Effect Effect
	Result sequencer.Result // never clean
	Code   string           // CodeChangedTool, or empty
	Detail string           // what was tried and what is left to do
	Tries  int
}

// Settlement is what became of a decided transaction's effects, ready for its settle intent.
type Settlement struct {
	Effects  []sequencer.Settled
	NoneElse bool
	Residue  []Residue
}
