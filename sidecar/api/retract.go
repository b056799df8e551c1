package api

// The states of a retraction.
const (
	RetractPossible = "possible"   // a dry run: nothing has happened
	RetractRunning  = "retracting" // accepted
	RetractDone     = "retracted"
)

// The fates of a call that a retraction meets.
const (
	FateCompensated = "compensated"
	FateLeft        = "left"    // it has left for good and becomes residue
	FateUnknown     = "unknown" // what the agent did by itself: it is asked
)

// Retract is the body of POST /v1/tx/{tx}/retract; it may be left out.
type Retract struct {
	DryRun bool   `json:"dry_run,omitempty"`
	Reason string `json:"reason,omitempty"` // for the sidecar's log
}

// Retraction is what a retraction undoes, or would undo.
type Retraction struct {
	Tx        string       `json:"tx"`
	State     string       `json:"state"`
	Seq       uint64       `json:"seq,omitempty"`     // of its acceptance
	Through   uint64       `json:"through,omitempty"` // the cone is as of this seq
	Total     int          `json:"total"`             // members, also those that are not shown
	BlockedBy []Blocker    `json:"blocked_by,omitempty"`
	Cone      []ConeMember `json:"cone"` // the most recent first
	Undo      *Undo        `json:"undo,omitempty"`
}

// Undo is how long a committed transaction can still be taken back: whichever of the three bounds comes first.
type Undo struct {
	Through     uint64 `json:"through"`      // as of this seq
	CommitsLeft uint64 `json:"commits_left"` // of the workspace
	BytesLeft   uint64 `json:"bytes_left"`   // of what it may remember
	SecondsLeft uint64 `json:"seconds_left"` // of the log's time
	Nearest     string `json:"nearest"`      // commits, bytes or time
	// EstimateSeconds is when the nearest bound comes at the rate of Commits in the last RateSeconds; absent: too little
	// has happened.
	EstimateSeconds uint64 `json:"estimate_seconds,omitempty"`
	Commits         uint64 `json:"commits"`
	RateSeconds     uint64 `json:"rate_seconds"`
	Sentence        string `json:"sentence"`
}

// ConeMember is one transaction that follows from the retracted one, or that one.
type ConeMember struct {
	Tx          string          `json:"tx"`
	Agent       string          `json:"agent"`
	Seq         uint64          `json:"seq"`
	Depth       int             `json:"depth"`
	Why         string          `json:"why,omitempty"` // read_from or overwrote
	Of          string          `json:"of,omitempty"`  // the member that it follows from
	At          string          `json:"at,omitempty"`  // the scope where
	Writes      []string        `json:"writes,omitempty"`
	Restored    []ShardRestored `json:"restored,omitempty"`
	Effects     []ConeEffect    `json:"effects,omitempty"`
	MoreEffects bool            `json:"more_effects,omitempty"`
}

// ShardRestored is a shard as a retraction leaves it.
type ShardRestored struct {
	Scope   string `json:"scope"`
	Seq     uint64 `json:"seq,omitempty"` // since when that content was there
	Writer  string `json:"writer,omitempty"`
	Absent  bool   `json:"absent,omitempty"`  // it is not there any more
	Unknown bool   `json:"unknown,omitempty"` // its former content is not known: it stays, as residue
}

// ConeEffect is one call of a member.
type ConeEffect struct {
	Index  uint32   `json:"index"`
	Tool   string   `json:"tool"`
	Class  string   `json:"class"`
	Scopes []string `json:"scopes,omitempty"`
	Fate   string   `json:"fate"`
}
