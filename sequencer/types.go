// Package sequencer is the fold: it turns one workspace's log of intents into decisions.
//
// A decision is a pure function of a prefix of that log. The package does no I/O and knows no clock: time is
// counted in tick records, and everything that a decision depends on is in the log. Two folds that were given
// the same records hold the same state and gave the same outcomes, wherever and however often they ran.
package sequencer

// Seq is a position in a workspace's commit order: 1-based, contiguous, never reused. It numbers every outcome.
// Zero means "before the first outcome".
type Seq uint64

// Epoch is a transaction's age: a counter of the fold, smaller is older. Zero means "not taken yet".
type Epoch uint64

// Tick is a point in the log's own time, counted in tick records and their weights (one tick is about 250 ms).
type Tick uint64

// TxID names a transaction; the sidecar chooses it and it is unique within a workspace.
type TxID string

// Hash is a SHA-256.
type Hash [32]byte

// Mode is how a transaction is ordered against others (DESIGN, order modes).
type Mode uint8

// The order modes.
const (
	Optimistic Mode = iota // epoch at the first touch or the seal; reads are validated
	Ordered                // epoch at begin; an older one wounds a younger one in its way
	Locked                 // as Ordered, and reads take shared grants, so they are never stale
	numModes
)

// String returns the mode's name as it is written in requests.
func (m Mode) String() string { return nameOf(m, "optimistic", "ordered", "locked") }

func (m Mode) valid() bool { return m < numModes }

// Levels is the set of anomalies that a transaction is checked for.
type Levels uint8

// The anomalies, and the named levels built from them.
const (
	A1 Levels = 1 << iota // stale reads
	A3                    // cascades: reading from what was aborted
	A6                    // effects released out of order (kept by the gate, nothing is refused for it)
	A2                    // phantom tools

	L0 Levels = 0
	L1        = A1
	L2        = A1 | A3
	L3        = A1 | A3 | A6
	L4        = A1 | A3 | A6 | A2
)

func (l Levels) has(a Levels) bool { return l&a != 0 }

func (l Levels) valid() bool { return l <= L4 }

// Class says when an effect runs and what settles it.
type Class uint8

// The effect classes.
const (
	ClassRead         Class = iota // runs at once, changes nothing
	ClassReversible                // runs when its touch is granted, compensated on abort
	ClassBufferable                // held, applied on commit
	ClassIrreversible              // held, released on commit
	ClassKnownOutcome              // runs when granted under its key; on abort its outcome is looked up
	numClasses
)

// String returns the class's name as it is written in policies and requests.
func (c Class) String() string {
	return nameOf(c, "read", "reversible", "bufferable", "irreversible", "known_outcome")
}

func (c Class) valid() bool { return c < numClasses }

// Eager says that an effect runs before the decision, under a grant.
func (c Class) Eager() bool { return c == ClassReversible || c == ClassKnownOutcome }

// Gated says that an effect runs after the commit decision.
func (c Class) Gated() bool { return c == ClassBufferable || c == ClassIrreversible }

// Access is what a hold or a touch wants of a scope.
type Access uint8

// The two kinds of access; reads are shared.
const (
	ReadAccess Access = iota
	WriteAccess
)

// String returns "read" or "write".
func (a Access) String() string { return nameOf(a, "read", "write") }

// HoldKind says how strongly a scope is bound to a transaction.
type HoldKind uint8

// The kinds of hold.
const (
	Granted HoldKind = iota // the transaction's own until it is final (read grants: until its decision)
	Claimed                 // binds younger transactions only, ends at the decision
	Held                    // a committed transaction's gated scope: binds everybody until it is final
)

// String returns the kind's name.
func (k HoldKind) String() string { return nameOf(k, "granted", "claimed", "held") }

// Hold is one scope bound to a transaction.
type Hold struct {
	Scope  Scope
	Kind   HoldKind
	Access Access
}

// Want is one scope that a touch or a begin asks for.
type Want struct {
	Scope  Scope
	Access Access
}

// Writer names who moved a scope, and at which position.
type Writer struct {
	Seq     Seq
	Tx      TxID
	Residue bool // what stands there could not be made clean
}

// BySidecar is what Outcome.By says of evidence that the sidecar gave.
const BySidecar = "sidecar"

// Code is the reason of a refusal or of an abort; the empty code means "none".
type Code string

// Codes that abort a transaction.
const (
	CodeStaleRead           Code = "stale_read"
	CodeVersionMismatch     Code = "version_mismatch"
	CodeConflict            Code = "conflict"
	CodeWounded             Code = "wounded"
	CodeCascade             Code = "cascade"
	CodePhantomTool         Code = "phantom_tool"
	CodeLostBranch          Code = "lost_branch"
	CodeVetoed              Code = "vetoed"
	CodeDeadline            Code = "deadline"
	CodeIncompleteFootprint Code = "incomplete_footprint"
	CodeLeaseExpired        Code = "lease_expired"
	CodeTooOld              Code = "too_old"
	CodeToolFailed          Code = "tool_failed"
	CodeAbortedByAgent      Code = "aborted_by_agent"
	CodeRulesChanged        Code = "rules_changed"    // the workspace began to enforce while it was undecided
	CodeHookUnavailable     Code = "hook_unavailable" // the hook gave no answer; since logic 3, before it was vetoed
	CodeDenied              Code = "denied"           // a held effect was denied, or not approved in the bound
)

// Codes that refuse an intent only and never change a transaction. CodeLeaseExpired and CodeTooOld serve both ways.
const (
	CodeOwnTransaction Code = "own_transaction"
	CodeSibling        Code = "sibling"
	CodeLimit          Code = "limit"
	CodeLateEffect     Code = "late_effect"
	CodeTouchBound     Code = "touch_bound"
	CodeTouchWaiting   Code = "touch_waiting"
	CodeNotOrphan      Code = "not_orphan"
	CodeNotDecided     Code = "not_decided"
	CodeNotSealed      Code = "not_sealed"
	CodeNotCommitted   Code = "not_committed"
	CodeWrongFootprint Code = "wrong_footprint"
	CodeUnknownIntent  Code = "unknown_intent"

	CodeWrongScopes       Code = "wrong_scopes"        // a settlement names scopes that are not its transaction's
	CodeNotWhileObserving Code = "not_while_observing" // observing and retracting exclude each other
)

// CodeWaiting is what Outcome.Would says where an observing workspace would have let something wait.
const CodeWaiting Code = "waiting"

// Codes lists all of them, those that abort before those that only refuse, and what Outcome.Would may say beyond.
func Codes() []Code {
	return []Code{CodeStaleRead, CodeVersionMismatch, CodeConflict, CodeWounded, CodeCascade, CodePhantomTool,
		CodeLostBranch, CodeVetoed, CodeDeadline, CodeIncompleteFootprint, CodeLeaseExpired, CodeTooOld, CodeToolFailed,
		CodeAbortedByAgent, CodeRulesChanged, CodeHookUnavailable, CodeDenied, CodeOwnTransaction, CodeSibling,
		CodeLimit, CodeLateEffect, CodeTouchBound, CodeTouchWaiting, CodeNotOrphan, CodeNotDecided, CodeNotSealed,
		CodeNotCommitted, CodeWrongFootprint, CodeUnknownIntent, CodeWrongScopes, CodeNotWhileObserving, CodeWaiting}
}

// Retryable reports whether a further attempt by the same agent can succeed.
func (c Code) Retryable() bool {
	switch c {
	case CodeStaleRead, CodeVersionMismatch, CodeConflict, CodeWounded, CodeCascade, CodePhantomTool,
		CodeDeadline, CodeTooOld, CodeTouchBound, CodeTouchWaiting, CodeOwnTransaction, CodeSibling,
		CodeLeaseExpired, CodeLimit, CodeNotDecided, CodeNotSealed, CodeRulesChanged, CodeNotWhileObserving,
		CodeHookUnavailable:
		return true
	}
	return false
}

func nameOf[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return "unknown"
}
