// Package api holds the JSON shapes of a sidecar's HTTP interface, as the sidecar answers them and a client reads
// them.
package api

import "encoding/json"

// The states of a transaction.
const (
	StateOpen      = "open"
	StateSealed    = "sealed"
	StateCommitted = "committed"
	StateAborted   = "aborted"
)

// Begin is the body of POST /v1/workspaces/{workspace}/tx. Every field may be left out.
type Begin struct {
	Mode       string `json:"mode,omitempty"`        // optimistic, ordered or locked; empty: the sidecar's default
	Observe    bool   `json:"observe,omitempty"`     // report what would be refused instead of refusing it
	Levels     string `json:"levels,omitempty"`      // L0 to L4, or a list such as "A1,A3"; empty: the workspace's
	DeadlineMs int    `json:"deadline_ms,omitempty"` // from the begin; zero: the workspace's default
	Group      string `json:"group,omitempty"`       // a further branch of this group
	// May and Tools are for mode ordered: what the transaction claims, from its begin to its seal. None that begins
	// later is given it before, and a footprint that goes beyond it is refused.
	May   []Want        `json:"may,omitempty"`
	Tools []PlannedCall `json:"tools,omitempty"`
}

// PlannedCall is a tool that a transaction will call, with the arguments that are known: the policy says what it
// claims.
type PlannedCall struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"` // an object; absent: none is known yet
}

// Read is the body of POST /v1/tx/{tx}/reads.
type Read struct {
	Scope string `json:"scope"`           // a shard, or a pattern: then the answer lists Items
	Limit int    `json:"limit,omitempty"` // patterns: how many items; zero: the sidecar's bound
	// Announce: the agent reads it by itself, also where nothing is known to write scopes of this type.
	Announce bool `json:"announce,omitempty"`
	// ForUpdate: the shard is granted for writing first. Others that ask for it so wait until this one is decided.
	ForUpdate bool `json:"for_update,omitempty"`
}

// Write is the body of POST /v1/tx/{tx}/writes. Exactly one of Content, ContentBase64 and Value is set.
type Write struct {
	Scope         string          `json:"scope"`
	Content       *string         `json:"content,omitempty"`
	ContentBase64 *string         `json:"content_base64,omitempty"`
	Value         json.RawMessage `json:"value,omitempty"` // any JSON; stored without the space between its parts
	MediaType     string          `json:"media_type,omitempty"`
	IfVersion     *uint64         `json:"if_version,omitempty"` // zero: only if the shard does not exist
	Op            string          `json:"op,omitempty"`         // append, add or union: the content is a delta
}

// Written answers a write.
type Written struct {
	Tx        string     `json:"tx"`
	Scope     string     `json:"scope"`
	Writes    int        `json:"writes"` // how many shards the transaction will write
	Overtaken *Overtaken `json:"overtaken,omitempty"`
}

// Abort is the body of POST /v1/tx/{tx}/abort; it may be left out.
type Abort struct {
	Reason string `json:"reason,omitempty"`
}

// Shard is one shard as a read answers it.
type Shard struct {
	Scope         string          `json:"scope"`
	Exists        bool            `json:"exists"`
	Pending       bool            `json:"pending,omitempty"` // the transaction's own write, not decided yet
	Version       uint64          `json:"version"`           // seq of its last write; zero: absent
	View          uint64          `json:"view"`              // the view's seq when the read began
	Writer        string          `json:"writer,omitempty"`
	MediaType     string          `json:"media_type,omitempty"`
	Size          int64           `json:"size"`
	Content       *string         `json:"content,omitempty"` // set when the content is UTF-8
	ContentBase64 *string         `json:"content_base64,omitempty"`
	Value         json.RawMessage `json:"value,omitempty"` // in place of Content, where a read of many scopes found JSON
	Items         []Item          `json:"items,omitempty"` // patterns
	Truncated     bool            `json:"truncated,omitempty"`
	Overtaken     *Overtaken      `json:"overtaken,omitempty"`
}

// Item is one shard, or one version of it, in a list.
type Item struct {
	Scope     string `json:"scope"`
	Version   uint64 `json:"version"`
	Writer    string `json:"writer,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size"`
	Lost      bool   `json:"lost,omitempty"` // a retraction put it back, and the log no longer has its content
}

// List answers GET /v1/workspaces/{workspace}/shards and the versions of one shard.
type List struct {
	Workspace string `json:"workspace"`
	View      uint64 `json:"view"`
	Items     []Item `json:"items"`
	Next      string `json:"next,omitempty"` // give it as ?after= for the rest
}

// Overtaken says that a later decision wrote over what a transaction has read.
type Overtaken struct {
	Scope   string `json:"scope"`             // as it was read
	Written string `json:"written,omitempty"` // what of it was written
	Seq     uint64 `json:"seq"`
	Writer  string `json:"writer,omitempty"`
}

// Blocker is one transaction that another waits for.
type Blocker struct {
	Tx    string `json:"tx"`
	Scope string `json:"scope,omitempty"`
	Why   string `json:"why"`
}

// Approval is what was said of a held call that needs a yes.
type Approval struct {
	Index      uint32 `json:"index"`
	Yes        bool   `json:"yes"`
	By         string `json:"by,omitempty"`          // absent: neither approved nor denied yet
	ArgsSHA256 string `json:"args_sha256,omitempty"` // of the arguments that it is about, hexadecimal
}

// Decision is a transaction as its sidecar knows it.
type Decision struct {
	Tx             string     `json:"tx"`
	Workspace      string     `json:"workspace"`
	State          string     `json:"state"`
	Mode           string     `json:"mode,omitempty"`
	Session        string     `json:"session,omitempty"` // the conversation; of this sidecar's own transactions only
	Base           uint64     `json:"base"`              // the view's seq at its begin
	Seq            uint64     `json:"seq,omitempty"`     // of the decision: 1-based, contiguous per workspace
	Code           string     `json:"code,omitempty"`
	Detail         string     `json:"detail,omitempty"`
	Scope          string     `json:"scope,omitempty"`
	MovedSeq       uint64     `json:"moved_seq,omitempty"`
	MovedBy        string     `json:"moved_by,omitempty"` // a transaction; of phantom_tool the sidecar's agent
	By             string     `json:"by,omitempty"`       // sidecar: as its view showed it
	Tool           string     `json:"tool,omitempty"`     // of phantom_tool: server/name
	Floor          uint64     `json:"floor,omitempty"`    // of too_old: what is older is forgotten
	BlockedBy      []Blocker  `json:"blocked_by,omitempty"`
	Approvals      []Approval `json:"approvals,omitempty"` // by index; while it waits also the missing ones
	Retryable      bool       `json:"retryable"`
	ReRead         []string   `json:"re_read,omitempty"`
	Would          string     `json:"would,omitempty"` // observe: what enforcing would have decided
	Overtaken      *Overtaken `json:"overtaken,omitempty"`
	Residue        []string   `json:"residue,omitempty"`
	Final          bool       `json:"final"`
	Retraction     string     `json:"retraction,omitempty"` // the retracted transaction that it follows from, or itself
	Undone         bool       `json:"undone,omitempty"`     // its compensation is settled
	UndoneSeq      uint64     `json:"undone_seq,omitempty"` // of the decision that settled it, where it is remembered
	Attempt        int        `json:"attempt"`              // 1 for a first try
	AttemptsLeft   int        `json:"attempts_left,omitempty"`
	WaitedMs       int64      `json:"waited_ms,omitempty"`       // for other transactions, so far
	OwesSettlement bool       `json:"owes_settlement,omitempty"` // say what became of what was done under its touches
	BackoffMs      int        `json:"backoff_ms,omitempty"`      // wait this long before the next attempt
	GiveUp         bool       `json:"give_up,omitempty"`         // the budget of attempts is used up
	Signer         string     `json:"signer,omitempty"`          // the id of the key that signed its seal
}

// EndedSession answers DELETE /v1/workspaces/{workspace}/session.
type EndedSession struct {
	Session string `json:"session"`
	Reads   int    `json:"reads"` // outside transactions that no seal will carry any more
}

// Explain answers GET /v1/tx/{tx}/explain.
type Explain struct {
	Paragraph string   `json:"paragraph"`
	Decision  Decision `json:"decision"`
	Reads     []string `json:"reads,omitempty"`
	Writes    []string `json:"writes,omitempty"`
	Undo      *Undo    `json:"undo,omitempty"` // of a committed one that can still be taken back
}

// ClosureEdge says that a transaction rests on another through one read.
type ClosureEdge struct {
	Scope   string `json:"scope"`
	Writer  string `json:"writer,omitempty"`
	Version uint64 `json:"version"`
	View    uint64 `json:"view"`
}

// ClosureRow is one transaction of a closure.
type ClosureRow struct {
	Tx      string        `json:"tx"`
	Agent   string        `json:"agent,omitempty"`
	Status  string        `json:"status"`
	Code    string        `json:"code,omitempty"`
	Seq     uint64        `json:"seq,omitempty"`
	Edges   []ClosureEdge `json:"edges,omitempty"`
	RestsOn []string      `json:"rests_on,omitempty"`
	Writes  []string      `json:"writes,omitempty"`
	Scar    bool          `json:"scar,omitempty"`
}

// Closure answers GET /v1/tx/{tx}/closure: the transaction first, then what it rests on, breadth first.
type Closure struct {
	Tx        string       `json:"tx"`
	Rows      []ClosureRow `json:"rows"`
	Truncated bool         `json:"truncated"`
	Limit     int          `json:"limit"`
}

// ChainLink is the chain hash at one seq.
type ChainLink struct {
	Seq   uint64 `json:"seq"`
	Chain string `json:"chain"` // SHA-256, hexadecimal
}

// Chain answers GET /v1/workspaces/{workspace}/chain.
type Chain struct {
	Workspace string      `json:"workspace"`
	Seq       uint64      `json:"seq"`   // the view's
	First     uint64      `json:"first"` // the smallest seq that is still remembered
	Links     []ChainLink `json:"links"`
}

// OpenEpoch is one transaction that can still change a scope.
type OpenEpoch struct {
	Epoch uint64 `json:"epoch"`
	Tx    string `json:"tx"`
	Since uint64 `json:"since"`
}

// FrontierRow is one scope of the frontier.
type FrontierRow struct {
	Scope    string      `json:"scope"`
	Seq      uint64      `json:"seq"`
	Version  uint64      `json:"version,omitempty"`
	Writer   string      `json:"writer,omitempty"`
	Open     []OpenEpoch `json:"open,omitempty"`
	Frontier uint64      `json:"frontier,omitempty"` // smallest epoch that can still change the scope; zero: none
}

// Frontier answers GET /v1/workspaces/{workspace}/frontier.
type Frontier struct {
	Workspace string        `json:"workspace"`
	Rows      []FrontierRow `json:"rows"`
	Limit     int           `json:"limit"`
}

// Health is one part's state in GET /readyz; an empty Problem is a good one.
type Health struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
}

// Ready answers GET /readyz.
type Ready struct {
	Ready       bool              `json:"ready"`
	Agent       string            `json:"agent"`
	Workspace   string            `json:"workspace"`
	Incarnation uint64            `json:"incarnation"`
	View        uint64            `json:"view"`
	Parts       map[string]Health `json:"parts"`
	// Agents are those of a process that serves several, by name; agent and incarnation are empty then.
	Agents map[string]AgentReady `json:"agents,omitempty"`
}

// AgentReady is one agent of several in GET /readyz.
type AgentReady struct {
	Ready       bool              `json:"ready"`
	Incarnation uint64            `json:"incarnation"`
	Parts       map[string]Health `json:"parts"`
}
