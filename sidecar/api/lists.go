package api

// TxList answers GET /v1/workspaces/{workspace}/tx, newest first.
type TxList struct {
	Workspace string   `json:"workspace"`
	View      uint64   `json:"view"`
	Since     uint64   `json:"since"` // what was decided up to this seq, before the sidecar looked, is not listed
	Items     []TxItem `json:"items"`
	Next      string   `json:"next,omitempty"` // give it as ?after= for the rest
}

// TxItem is one transaction of a list, of any agent.
type TxItem struct {
	Tx       string   `json:"tx"`
	Agent    string   `json:"agent"`
	State    string   `json:"state"`
	Mode     string   `json:"mode,omitempty"`
	Seq      uint64   `json:"seq,omitempty"` // of the decision
	Code     string   `json:"code,omitempty"`
	Scope    string   `json:"scope,omitempty"`
	MovedSeq uint64   `json:"moved_seq,omitempty"`
	MovedBy  string   `json:"moved_by,omitempty"`
	WaitsFor []string `json:"waits_for,omitempty"` // transactions
	Final    bool     `json:"final"`
	Retract  string   `json:"retraction,omitempty"` // the retracted transaction that it follows from, or itself
}

// EffectList answers GET /v1/workspaces/{workspace}/effects: the tool calls of the sidecar's own agent, those of the
// newest transaction first. What a tool answered is in GET /v1/tx/{tx}/effects.
type EffectList struct {
	Workspace string    `json:"workspace"`
	Agent     string    `json:"agent"`
	Items     []Receipt `json:"items"`
	Next      string    `json:"next,omitempty"`
}

// AgentList answers GET /v1/workspaces/{workspace}/agents: agents whose sidecars have a lease, by name.
type AgentList struct {
	Workspace string      `json:"workspace"`
	Seq       uint64      `json:"seq"` // the list is exact as of it
	Items     []AgentItem `json:"items"`
	Next      string      `json:"next,omitempty"`
}

// AgentItem is one live agent. The counts are of transactions that the log knows.
type AgentItem struct {
	Agent       string `json:"agent"`
	Incarnation uint64 `json:"incarnation"`
	Here        bool   `json:"here"`             // it is the agent of this sidecar
	LeaseTicks  uint64 `json:"lease_left_ticks"` // a tick is 250 ms or longer
	Lag         uint64 `json:"lag"`              // seqs between what it still works on and the head
	Open        int    `json:"open"`
	Waiting     int    `json:"waiting"`   // for a grant, or for their decision
	Unsettled   int    `json:"unsettled"` // decided, and something is left to do
}

// ToolList answers GET /v1/workspaces/{workspace}/tools: what the sidecar's own agent has, by server and name.
type ToolList struct {
	Workspace string     `json:"workspace"`
	Agent     string     `json:"agent"`
	Items     []ToolItem `json:"items"`
	Next      string     `json:"next,omitempty"`
}

// ToolChange registers a tool, or withdraws it.
type ToolChange struct {
	PutTool
	Name     string
	Withdraw bool
}

// ToolItem is one tool: declared by the policy, or registered by the agent for plans to pin.
type ToolItem struct {
	Server       string `json:"server"`
	Name         string `json:"name"`            // a declaration's may have wildcards
	Source       string `json:"source"`          // policy or registered
	Class        string `json:"class,omitempty"` // of a declared one
	Runs         string `json:"runs,omitempty"`  // at_once, after_commit or with_commit
	Adapter      string `json:"adapter,omitempty"`
	Compensation string `json:"compensation,omitempty"` // the tool that undoes it
	UndoOnly     bool   `json:"undo_only,omitempty"`    // it only compensates: agents cannot call it
	Signature    string `json:"signature"`
}
