package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/yamlfile"
)

// ErrPolicy is matched by the error that Load returns when the file is refused.
var ErrPolicy = errors.New("the policy is refused")

// Severity says what a finding means.
type Severity string

// The severities.
const (
	Mistake Severity = "mistake" // effects can go wrong: the command that found it fails
	Note    Severity = "note"    // safe, but perhaps not what was meant
)

// Finding is one thing that is wrong or strange in a policy.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Tool     string   `json:"tool,omitempty"` // the declaration's name or glob
	File     string   `json:"file,omitempty"` // when it is not the policy's own
	Line     int      `json:"line"`           // 1-based; 0: the file as a whole
	Column   int      `json:"column"`
	What     string   `json:"what"`
	Fix      string   `json:"fix"`
}

// Text is the finding on one line, with the file's name in front.
func (f Finding) Text(file string) string {
	if f.File != "" {
		file = f.File
	}
	where := file
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", file, f.Line, f.Column)
	}
	about := ""
	if f.Tool != "" {
		about = "tool " + f.Tool + ": "
	}
	return fmt.Sprintf("%s: %s%s: %s", where, about, f.What, f.Fix)
}

// Refusal is what Load returns for a file that cannot be used: every problem, in the order of the file.
type Refusal struct {
	File     string
	Findings []Finding
	More     bool // there were more than are listed
}

// Error lists the problems, one to a line.
func (r *Refusal) Error() string {
	lines := make([]string, 0, len(r.Findings)+1)
	for _, f := range r.Findings {
		lines = append(lines, f.Text(r.File))
	}
	if r.More {
		lines = append(lines, "and more: fix these first")
	}
	return strings.Join(lines, "\n")
}

// Is makes the refusal match ErrPolicy.
func (r *Refusal) Is(target error) bool { return target == ErrPolicy }

func sortFindings(found []Finding) {
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Rule, b.Rule))
	})
}

// The parts of a file, under the names that the readers here use.
type (
	place = yamlfile.Place
	node  = yamlfile.Node
)

func findingAt(p place, rule, what, fix string) Finding {
	return Finding{Rule: rule, Severity: Mistake, Line: p.Line, Column: p.Column, What: what, Fix: fix}
}

// maxFindings is how many findings one run lists.
const maxFindings = 30

// parse reads a policy, or a file of cases for one.
func parse(data []byte) (*node, *Finding) {
	root, problem := yamlfile.Parse(data, yamlfile.Fixes{Large: "split the policy or shorten it",
		Empty: `write at least "version: 1", "server: name" and "tools: []"`})
	if problem != nil {
		f := findingAt(problem.Place, "yaml", problem.What, problem.Fix)
		return nil, &f
	}
	return root, nil
}
