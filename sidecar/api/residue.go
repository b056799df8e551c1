package api

import "encoding/json"

// Residue is one effect that could not be made clean, or whose outcome is unknown.
type Residue struct {
	Tx     string   `json:"tx"`
	Index  uint32   `json:"index"` // issuance order in its transaction, 0-based
	Agent  string   `json:"agent"`
	Tool   string   `json:"tool"`
	Class  string   `json:"class"`
	Key    string   `json:"key,omitempty"` // what the sink was given; absent: it takes none
	Scopes []string `json:"scopes,omitempty"`
	Result string   `json:"result"` // leaked, unresolved or partial; clean once it is resolved
	State  string   `json:"state"`  // open, accepted or resolved
	Detail string   `json:"detail"` // what was tried and what is left to do
	Note   string   `json:"note,omitempty"`
	Tries  int      `json:"tries"`
	AtMs   int64    `json:"at_ms"` // unix milliseconds, of the sidecar that wrote it
	// Code says why nothing more is tried: changed_tool, or absent.
	Code string          `json:"code,omitempty"`
	Args json.RawMessage `json:"args,omitempty"` // with a code: of the call, unless they are large
	Call string          `json:"call,omitempty"` // how the call itself stands, as in Receipt.State
}

// ResidueList answers GET /v1/residue, newest first.
type ResidueList struct {
	Workspace string    `json:"workspace"`
	Items     []Residue `json:"items"`
	Truncated bool      `json:"truncated"`
}

// AcceptResidue is the body of POST /v1/residue/{tx}/{index}/accept.
type AcceptResidue struct {
	Note string `json:"note"` // who takes it as it is, and why
}

// Resolve says how a residue is dealt with: one of the two is set.
type Resolve struct {
	Accept *AcceptResidue
	Retry  *RetryResidue
}

// RetryResidue is the body of POST /v1/residue/{tx}/{index}/retry.
type RetryResidue struct {
	Force bool `json:"force,omitempty"` // also when the sink cannot know the call: it may then happen twice
	// ChangedTool: also when the tool is declared differently from how it was sealed. Today's declaration makes
	// the call.
	ChangedTool bool `json:"changed_tool,omitempty"`
}
