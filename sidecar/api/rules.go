package api

// Rules are a workspace's settings; each change of them has the next version.
type Rules struct {
	Version        uint32 `json:"version"`
	Logic          uint32 `json:"logic"` // of the sequencer's own rules
	Observe        bool   `json:"observe"`
	Levels         string `json:"levels"`       // where a transaction names none
	HorizonSeqs    uint64 `json:"horizon_seqs"` // before logic 3: how long a committed transaction can be retracted
	CapSeqs        uint64 `json:"cap_seqs"`     // how far behind the head an idle session may hold the floor
	LeaseTicks     uint64 `json:"lease_ticks"`  // a tick is 250 ms or longer
	DeadlineTicks  uint64 `json:"deadline_ticks"`
	BoundTicks     uint64 `json:"bound_ticks"`
	VerdictTicks   uint64 `json:"verdict_ticks"`
	MaxOpen        uint32 `json:"max_open"`
	MaxScopes      uint32 `json:"max_scopes"`
	MaxBytes       uint32 `json:"max_footprint_bytes"`
	MaxInline      uint32 `json:"max_inline_bytes"`
	MaxContent     uint32 `json:"max_content_bytes"`
	MaxInlineTotal uint32 `json:"max_inline_total_bytes"`
	MaxKept        uint32 `json:"max_kept_bytes"`
	MaxSidecars    uint32 `json:"max_sidecars,omitempty"` // live ones; none before logic 3

	// Since logic 3 a committed transaction can be retracted for so many more commits, and so long, if MaxKept holds it.
	HorizonCommits uint32 `json:"horizon_commits,omitempty"`
	HorizonTicks   uint64 `json:"horizon_ticks,omitempty"`

	ApprovalTicks uint64 `json:"approval_ticks,omitempty"` // how long a seal waits for approvals; none before logic 4
}

// RulesChange is the body of PUT /v1/workspaces/{workspace}/rules: what is given changes, the rest stays.
type RulesChange struct {
	Logic          *uint32 `json:"logic,omitempty"`
	Observe        *bool   `json:"observe,omitempty"`
	Levels         *string `json:"levels,omitempty"`
	HorizonSeqs    *uint32 `json:"horizon_seqs,omitempty"`
	CapSeqs        *uint32 `json:"cap_seqs,omitempty"`
	LeaseTicks     *uint32 `json:"lease_ticks,omitempty"`
	DeadlineTicks  *uint32 `json:"deadline_ticks,omitempty"`
	BoundTicks     *uint32 `json:"bound_ticks,omitempty"`
	VerdictTicks   *uint32 `json:"verdict_ticks,omitempty"`
	MaxOpen        *uint32 `json:"max_open,omitempty"`
	MaxScopes      *uint32 `json:"max_scopes,omitempty"`
	MaxBytes       *uint32 `json:"max_footprint_bytes,omitempty"`
	MaxInline      *uint32 `json:"max_inline_bytes,omitempty"`
	MaxContent     *uint32 `json:"max_content_bytes,omitempty"`
	MaxInlineTotal *uint32 `json:"max_inline_total_bytes,omitempty"`
	MaxKept        *uint32 `json:"max_kept_bytes,omitempty"`
	MaxSidecars    *uint32 `json:"max_sidecars,omitempty"` // from logic 3 on; 0 is the default, 1,024

	HorizonCommits *uint32 `json:"horizon_commits,omitempty"` // from logic 3 on; 0 is the default, 2,000
	HorizonTicks   *uint32 `json:"horizon_ticks,omitempty"`   // from logic 3 on; 0 is the default, 2,419,200: a week
	ApprovalTicks  *uint32 `json:"approval_ticks,omitempty"`  // from logic 4 on; 0 is the default, 14,400: an hour
}

// ChangeOfRules is a change of the rules of a version.
type ChangeOfRules struct {
	Was uint32 // the version that is changed
	To  *RulesChange
}

// PutTool is the body of PUT /v1/tools/{name}.
type PutTool struct {
	Server    string `json:"server,omitempty"` // empty: "tools"
	Signature string `json:"signature"`        // a hash of the tool's declaration
}

// Tool answers a change of an agent's tools.
type Tool struct {
	Server     string `json:"server"`
	Name       string `json:"name"`
	Signature  string `json:"signature,omitempty"` // absent: it was withdrawn
	Generation uint64 `json:"generation"`
	Seq        uint64 `json:"seq"`
	Tools      int    `json:"tools"` // of the server, with this change
}
