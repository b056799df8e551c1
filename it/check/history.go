// Package check holds what a history must keep to: pure functions from what agents and observers recorded to the
// violations in it. They share no code with the fold, so that a rule which is wrong there is not wrong here too.
//
// The log gives the order: versions of a scope are seqs of the decisions that wrote it, as the log shows them.
package check

import (
	"cmp"
	"fmt"
	"slices"
)

// State is what an agent knows of a transaction's end.
type State string

// The states of an attempt.
const (
	Committed State = "committed"
	Aborted   State = "aborted"
	Unknown   State = "unknown" // the agent was not told
)

// Read is one answered read.
type Read struct {
	Scope   string
	Version uint64 // seq of the scope's last write; zero: absent
	View    uint64 // the seq of the view that answered
	SHA256  string // of the content, hexadecimal; empty: not recorded
}

// Write is one write that an agent asked for.
type Write struct {
	Scope  string
	SHA256 string // of the content, hexadecimal; empty: not recorded
}

// Attempt is one transaction as its agent knows it.
type Attempt struct {
	Agent  string
	Tx     string
	Reads  []Read
	Writes []Write
	State  State
	Seq    uint64 // of the decision, when the agent was told
	Code   string
	// Start and End are nanoseconds of one monotonic clock: when the first call left and when the decision arrived.
	// Zero: not recorded.
	Start, End int64
}

// Decision is one numbered outcome as an observer of the log has it.
type Decision struct {
	Seq    uint64
	Kind   string
	Tx     string
	Intent string // name of the one that it answers
	Agent  string
	Code   string
	Chain  string
	Writes []string // scopes that it moved
}

// Violation is one broken promise, with what shows it.
type Violation struct {
	Check string
	Text  string
}

// String returns the check's name and what was found.
func (v Violation) String() string { return v.Check + ": " + v.Text }

func violation(check, format string, args ...any) Violation {
	return Violation{Check: check, Text: fmt.Sprintf(format, args...)}
}

// History is what agents recorded beside what the log shows.
type History struct {
	Attempts  []Attempt
	Decisions []Decision // in the order in which an observer was given them
}

// All runs every check of one history.
func (h *History) All() []Violation {
	var found []Violation
	for _, check := range []func() []Violation{
		h.Contiguous, h.LostAcknowledged, h.Unresolved, h.Unfounded, h.Overtaken, h.Cycles, h.AgentOrder, h.RealTime,
		h.Registers,
	} {
		found = append(found, check()...)
	}
	return found
}

// decided is what the log says of each transaction.
func (h *History) decided() map[string]Decision {
	all := map[string]Decision{}
	for _, d := range h.Decisions {
		if d.Kind == string(Committed) || d.Kind == string(Aborted) {
			all[d.Tx] = d
		}
	}
	return all
}

// settled is one committed transaction: what the agent recorded, at the seq that the log gives it.
type settled struct {
	*Attempt
	seq uint64
}

// commits are the attempts that the log shows as committed, in commit order; what their agents were told does not
// matter here.
func (h *History) commits() []settled {
	log := h.decided()
	var all []settled
	for i := range h.Attempts {
		a := &h.Attempts[i]
		if d, ok := log[a.Tx]; ok && d.Kind == string(Committed) {
			all = append(all, settled{a, d.Seq})
		}
	}
	slices.SortFunc(all, func(x, y settled) int { return cmp.Compare(x.seq, y.seq) })
	return all
}

// versions are the seqs of the committed writes of each scope, ascending.
func versions(commits []settled) map[string][]uint64 {
	all := map[string][]uint64{}
	for _, c := range commits {
		for _, w := range c.Writes {
			all[w.Scope] = append(all[w.Scope], c.seq)
		}
	}
	return all
}
