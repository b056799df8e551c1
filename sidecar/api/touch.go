package api

// The states of a touch.
const (
	TouchGranted = "granted"
	TouchWaiting = "waiting"
)

// Want is one scope that a transaction asks for.
type Want struct {
	Scope  string `json:"scope"`
	Access string `json:"access"` // read or write
}

// Touch is the body of POST /v1/tx/{tx}/touches.
type Touch struct {
	Wants   []Want `json:"wants"`
	WaitMs  *int   `json:"wait_ms,omitempty"`  // how long the answer may take; absent: 30 s
	BoundMs int    `json:"bound_ms,omitempty"` // how long the touch may wait; zero: the workspace's default
}

// Touched answers a touch.
type Touched struct {
	Tx        string     `json:"tx"`
	State     string     `json:"state"` // granted: act now. waiting: not yet; ask again
	Wants     []Want     `json:"wants"`
	View      uint64     `json:"view"`
	BlockedBy []Blocker  `json:"blocked_by,omitempty"`
	WaitedMs  int64      `json:"waited_ms,omitempty"`
	Overtaken *Overtaken `json:"overtaken,omitempty"`
}

// Settlement is the body of POST /v1/tx/{tx}/settlement: what became of what an agent did by itself under the touches
// of a transaction that was aborted.
type Settlement struct {
	Effects  []SettledEffect `json:"effects,omitempty"`
	NoneElse bool            `json:"none_else,omitempty"` // nothing else was done under them
}

// SettledEffect is one act and what is left of it.
type SettledEffect struct {
	Scopes []string `json:"scopes"`
	Result string   `json:"result"` // clean: taken back; or leaked, unresolved, partial
}

// Announced answers a read of a scope that Hence does not keep: make the read now.
type Announced struct {
	Tx        string     `json:"tx"`
	Scope     string     `json:"scope"`
	View      uint64     `json:"view"` // the footprint has the read as of this seq
	Announced bool       `json:"announced"`
	Overtaken *Overtaken `json:"overtaken,omitempty"`
}

// Seal is the body of POST /v1/tx/{tx}/seal; it may be left out.
type Seal struct {
	Pins         []Pin `json:"pins,omitempty"`
	TouchesKnown *bool `json:"touches_known,omitempty"` // absent: true, the outcome of what was done under them is known
}

// Pin is a tool as the agent's plan knew it.
type Pin struct {
	Server    string `json:"server,omitempty"` // empty: "tools"
	Name      string `json:"name"`
	Signature string `json:"signature"`
}
