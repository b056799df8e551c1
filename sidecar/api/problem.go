package api

import "fmt"

// ProblemTypes is what every problem's type URI begins with.
const ProblemTypes = "https://github.com/hence-dev/hence/blob/main/docs/codes/"

// ProblemType is a code's type URI: the address of the page about it, docs/codes/CODE.md of this repository.
func ProblemType(code string) string { return ProblemTypes + code + ".md" }

// Problem is a refused request as RFC 9457 writes it, with what an agent needs to act on it. It is an error.
type Problem struct {
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Status      int        `json:"status"`
	Detail      string     `json:"detail"`
	Code        string     `json:"code"` // stable: programs may compare it
	Retryable   bool       `json:"retryable"`
	SafeSameKey bool       `json:"safe_to_retry_with_same_key"`
	ReRead      []string   `json:"re_read,omitempty"` // scopes to read again before a further attempt
	Scope       string     `json:"scope,omitempty"`
	MovedSeq    uint64     `json:"moved_seq,omitempty"`
	MovedBy     string     `json:"moved_by,omitempty"`
	By          string     `json:"by,omitempty"`
	Tool        string     `json:"tool,omitempty"`
	Floor       uint64     `json:"floor,omitempty"`
	View        uint64     `json:"view,omitempty"`
	Overtaken   *Overtaken `json:"overtaken,omitempty"`
	Decision    *Decision  `json:"decision,omitempty"` // set when a transaction was decided
	Read        *Seen      `json:"read,omitempty"`     // what a commit asked to be read again
}

// Error says what was refused and why, on one line.
func (p *Problem) Error() string {
	return fmt.Sprintf("%s (%d): %s", p.Code, p.Status, p.Detail)
}
