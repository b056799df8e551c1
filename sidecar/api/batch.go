package api

import "encoding/json"

// Reads is the body of POST /v1/workspaces/{workspace}/reads.
type Reads struct {
	Scopes []string `json:"scopes"` // 1 to 128 shards, or patterns: their items list shards
}

// Seen answers it: what the scopes showed at one view, in their order.
type Seen struct {
	Workspace string  `json:"workspace"`
	View      uint64  `json:"view"`
	Items     []Shard `json:"items"`
}

// Commit is the body of POST /v1/workspaces/{workspace}/commit. Every field may be left out.
type Commit struct {
	Reads   []SeenAt `json:"reads,omitempty"`
	Writes  []Write  `json:"writes,omitempty"`
	Effects []Effect `json:"effects,omitempty"`
	Mode    string   `json:"mode,omitempty"`  // optimistic, ordered or locked; empty: the sidecar's default
	Level   string   `json:"level,omitempty"` // L0 to L4, or a list such as "A1,A3"; empty: the workspace's
	// ReadAgain: where a read does not hold any more, the refusal has what POST …/reads of its shards would answer.
	ReadAgain bool `json:"read_again,omitempty"`
}

// SeenAt is one read that a commit rests on, as some answer showed it. One shard has a Version; a pattern, and what
// Hence does not keep, has AsOf.
type SeenAt struct {
	Scope   string  `json:"scope"`
	Version *uint64 `json:"version,omitempty"` // zero: it was absent
	AsOf    uint64  `json:"as_of,omitempty"`   // a seq that an answer gave before the agent read it
	// Announce: also where nothing is known to write scopes of this type.
	Announce bool `json:"announce,omitempty"`
}

// Committed answers a commit.
type Committed struct {
	Tx       string    `json:"tx"`
	Decision Decision  `json:"decision"`
	Effects  []Receipt `json:"effects,omitempty"` // in the order of the request
	Read     *Seen     `json:"-"`                 // of the refusal's problem
}

// Offers answers GET /v1/tools: what the agent may call, by name.
type Offers struct {
	Tools []Offer `json:"tools"`
}

// Offer is one tool as a framework for agents declares it to a model.
type Offer struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Arguments   json.RawMessage `json:"arguments"` // JSON Schema of an object
	Class       string          `json:"class"`
	Runs        string          `json:"runs"` // RunsAtOnce, RunsGranted or RunsCommitted
}

// When a tool's calls run.
const (
	RunsAtOnce    = "at_once"      // reads
	RunsGranted   = "when_granted" // before the commit, once its scopes are the transaction's own
	RunsCommitted = "after_commit" // held until then; shard tools are applied with it
)
