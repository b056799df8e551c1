package api

import "encoding/json"

// The states of a tool call.
const (
	EffectIssued    = "issued"    // in the log, not made
	EffectRunning   = "running"   // made, not answered
	EffectDone      = "done"      // answered
	EffectFailed    = "failed"    // the tool refused it: nothing happened
	EffectUnknown   = "unknown"   // it may have been made: no answer is known, see the residue
	EffectStaged    = "staged"    // applied on commit
	EffectHeld      = "held"      // made after the commit
	EffectDropped   = "dropped"   // never made: the transaction was aborted or retracted
	EffectReleasing = "releasing" // committed, and its owner is making it
	EffectReleased  = "released"  // made after the commit, and its sink has acknowledged it
	EffectNotSent   = "not_sent"  // committed, it did not leave, and it is not tried any more; see the residue
	EffectUndoing   = "undoing"   // being compensated
	EffectUndone    = "undone"    // compensated
	EffectUndoLost  = "undo_lost" // not compensated, see the residue

	// EffectUnapproved is a held call of a sealed transaction that is neither approved nor denied yet.
	EffectUnapproved = "waits_for_approval"
)

// EffectStates are all of them.
func EffectStates() []string {
	return []string{EffectIssued, EffectRunning, EffectDone, EffectFailed, EffectUnknown, EffectStaged, EffectHeld,
		EffectDropped, EffectReleasing, EffectReleased, EffectNotSent, EffectUndoing, EffectUndone, EffectUndoLost,
		EffectUnapproved}
}

// Effect is the body of POST /v1/tx/{tx}/effects.
type Effect struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`           // an object
	Key  string          `json:"key,omitempty"`  // idempotency key for the sink, where the policy leaves it to the agent
	Call string          `json:"call,omitempty"` // its id in a plan of the transaction
}

// Plan is the body of POST /v1/tx/{tx}/plan: the ids of calls that are to come, in the order in which they count.
type Plan struct {
	Calls []string `json:"calls"`
}

// Planned answers it: the places that the plan has given.
type Planned struct {
	Tx    string        `json:"tx"`
	Calls []PlaceOfCall `json:"calls"`
}

// PlaceOfCall is the index that a planned call has when it comes.
type PlaceOfCall struct {
	Call  string `json:"call"`
	Index uint32 `json:"index"`
}

// Receipt is one tool call as it stands.
type Receipt struct {
	Tx        string          `json:"tx"`
	Index     *uint32         `json:"index,omitempty"` // issuance order, 0-based; absent for calls that only read
	Call      string          `json:"call,omitempty"`  // its id in a plan
	Tool      string          `json:"tool"`
	Class     string          `json:"class"`
	State     string          `json:"state"`
	Key       string          `json:"key,omitempty"`
	Scopes    []string        `json:"scopes,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Detail    string          `json:"detail,omitempty"`
	Note      string          `json:"note,omitempty"` // for the model
	View      uint64          `json:"view,omitempty"` // reads: the view's seq when the call left
	Overtaken *Overtaken      `json:"overtaken,omitempty"`

	// What an approver is shown of a call that waits for approval.
	Agent      string          `json:"agent,omitempty"`       // whose it is
	Args       json.RawMessage `json:"args,omitempty"`        // absent: the log has other ones, or cannot be read
	ArgsSHA256 string          `json:"args_sha256,omitempty"` // of those that were sealed, hexadecimal
}

// Effects answers GET /v1/tx/{tx}/effects.
type Effects struct {
	Tx      string    `json:"tx"`
	State   string    `json:"state"` // of the transaction
	Final   bool      `json:"final"`
	Effects []Receipt `json:"effects"`
}

// OneShot is the body of POST /v1/effects: a transaction of one call.
type OneShot struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	Key  string          `json:"key,omitempty"`
	Mode string          `json:"mode,omitempty"`
}

// Done answers POST /v1/effects.
type Done struct {
	Tx       string   `json:"tx"`
	Effect   Receipt  `json:"effect"`
	Decision Decision `json:"decision"`
}
