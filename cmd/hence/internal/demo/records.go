package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// ReadRecord is one read as its agent saw it.
type ReadRecord struct {
	Scope   string `json:"scope"`
	Exists  bool   `json:"exists"`
	Version uint64 `json:"version"` // seq of the shard's last write; 0: absent
	View    uint64 `json:"view"`    // seq of the view that answered
	SHA256  string `json:"sha256"`
	Bytes   int    `json:"bytes"`
}

// WriteRecord is one write as its agent asked for it.
type WriteRecord struct {
	Scope  string `json:"scope"`
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// The ends of an attempt, as its agent knows them.
const (
	EndCommitted   = "committed"
	EndAborted     = "aborted"
	EndInterrupted = "interrupted" // given up before the seal left: its sidecar went away, or its session did
	EndUnknown     = "unknown"     // the seal left, and its outcome is not known
)

// Attempt is one transaction of an agent: a task's first try or a further one.
type Attempt struct {
	Agent  string        `json:"agent"`
	Task   int           `json:"task"` // position in the run's list of tasks; -1: the initial data
	N      int           `json:"n"`    // 1-based
	Tx     string        `json:"tx"`
	Reads  []ReadRecord  `json:"reads"`
	Writes []WriteRecord `json:"writes"`
	// Effects are the tool calls, in the order in which they were made.
	Effects []EffectRecord `json:"effects,omitempty"`
	// Planned are the calls of a planned turn, in the order of the plan.
	Planned []PlannedRecord `json:"planned,omitempty"`
	Sealed  bool            `json:"sealed"`
	End     string          `json:"end"`
	Code    string          `json:"code,omitempty"`  // why it was aborted
	Would   string          `json:"would,omitempty"` // observe: what would have been decided
	Seq     uint64          `json:"seq,omitempty"`   // of its decision
	// FromLog is set when the agent was not told and the decision log had to be asked.
	FromLog bool `json:"from_log,omitempty"`
	// WaitNS is the time from the seal to the decision in nanoseconds, where both were seen in one go.
	WaitNS time.Duration `json:"wait_ns,omitempty"`
}

func (a *Attempt) committed() bool { return a.End == EndCommitted }

func contentHash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// records collects the attempts of all agents.
type records struct {
	mu       sync.Mutex
	attempts []*Attempt
}

// add takes an attempt that has ended; its agent does not change it any more.
func (r *records) add(a *Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, a)
}

func (r *records) all() []*Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Attempt(nil), r.attempts...)
}

// write puts one attempt on each line.
func writeRecords(w io.Writer, attempts []*Attempt) error {
	enc := json.NewEncoder(w)
	for _, a := range attempts {
		if err := enc.Encode(a); err != nil {
			return fmt.Errorf("write the record of transaction %s: %w", a.Tx, err)
		}
	}
	return nil
}
