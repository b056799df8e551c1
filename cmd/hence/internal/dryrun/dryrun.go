// Package dryrun says of each call that a log has what another policy would make of it.
package dryrun

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/recorded"
	"github.com/hence-dev/hence/topology"
)

// Report is what a policy would make of a log's calls.
type Report struct {
	Workspace string       `json:"workspace"`
	Policy    string       `json:"policy"`
	Cut       bool         `json:"cut"` // retention has deleted older calls
	Tools     []Tool       `json:"tools"`
	Differs   []Difference `json:"differences"`
	LeftOut   int          `json:"left_out"` // differences beyond the limit
}

// Tool counts the calls of one tool.
type Tool struct {
	Tool    string `json:"tool"`
	Calls   int    `json:"calls"`
	Same    int    `json:"same"`
	Other   int    `json:"other"`   // taken otherwise
	Refused int    `json:"refused"` // that were taken
	Approve int    `json:"approve"` // of those that are taken, that need an approval
	Unseen  int    `json:"unseen"`  // whose arguments the log keeps apart, so that nothing is said of them
}

// Difference is a call that the policy would take otherwise.
type Difference struct {
	Tx      string `json:"tx"`
	Index   uint32 `json:"index"`
	Tool    string `json:"tool"`
	Refused string `json:"refused,omitempty"`
	Was     *Taken `json:"was,omitempty"`
	Would   *Taken `json:"would,omitempty"`
}

// Taken is how a call is taken.
type Taken struct {
	Class  string            `json:"class"`
	Scopes []sequencer.Scope `json:"scopes"`
	May    []sequencer.Scope `json:"may,omitempty"`
}

// String is the class and the scopes, in words.
func (t *Taken) String() string {
	var all []string
	for _, s := range append(slices.Clone(t.Scopes), t.May...) {
		all = append(all, string(s))
	}
	return t.Class + " of " + strings.Join(all, ", ")
}

// Run goes over the calls of a log. limit bounds the differences that are kept; 0: all are.
func Run(ctx context.Context, log *recorded.Log, p *policy.Policy, limit int) (*Report, error) {
	out := &Report{Workspace: log.Workspace, Policy: p.File(), Cut: log.EventsAt.Start > 0, Differs: []Difference{}}
	tools := map[string]*Tool{}
	type call struct {
		tx    sequencer.TxID
		index uint32
	}
	seen := map[call]bool{} // an event may come twice
	err := log.Events(ctx, func(e recorded.Event) error {
		if e.Kind != topology.EventEffect || e.Effect == nil || seen[call{e.Tx, e.Effect.Index}] {
			return nil
		}
		seen[call{e.Tx, e.Effect.Index}] = true
		t := tools[e.Effect.Tool]
		if t == nil {
			t = &Tool{Tool: e.Effect.Tool}
			tools[e.Effect.Tool] = t
		}
		d := t.add(p, e.Effect)
		if d == nil {
			return nil
		}
		if d.Tx = string(e.Tx); limit > 0 && len(out.Differs) == limit {
			out.LeftOut++
			return nil
		}
		out.Differs = append(out.Differs, *d)
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		out.Tools = append(out.Tools, *tools[name])
	}
	return out, err
}

// add counts a call; nil: it would be taken as it was.
func (t *Tool) add(p *policy.Policy, e *topology.EffectText) *Difference {
	t.Calls++
	if e.ArgsRef != nil {
		t.Unseen++
		return nil
	}
	d := &Difference{Index: e.Index, Tool: e.Tool}
	would := p.Explain(e.Tool, e.Args)
	if would.Refused != "" {
		t.Refused++
		d.Refused = would.Refused
		return d
	}
	if _, approve, _ := p.Treats(e.Tool); approve {
		t.Approve++
	}
	was := &Taken{e.Class.String(), e.Scopes, e.May}
	now := &Taken{would.Class, would.Scopes, would.May}
	if was.Class == now.Class && slices.Equal(was.Scopes, now.Scopes) && slices.Equal(was.May, now.May) {
		t.Same++
		return nil
	}
	t.Other++
	d.Was, d.Would = was, now
	return d
}

// Changed is how many calls would not be taken as they were.
func (r *Report) Changed() (n int) {
	for _, t := range r.Tools {
		n += t.Other + t.Refused
	}
	return n
}

// Write prints the report for people.
func (r *Report) Write(w io.Writer) error {
	if len(r.Tools) == 0 {
		return show.Plainly(w, "the log of %s has no call of a tool\n", r.Workspace)
	}
	t := show.Table{Head: []string{"TOOL", "CALLS", "SAME", "OTHERWISE", "REFUSED", "TO APPROVE"}}
	unseen := 0
	for _, one := range r.Tools {
		t.Add(one.Tool, strconv.Itoa(one.Calls), strconv.Itoa(one.Same), strconv.Itoa(one.Other), strconv.Itoa(one.Refused),
			strconv.Itoa(one.Approve))
		unseen += one.Unseen
	}
	var b strings.Builder // takes all
	_ = t.WriteIn(&b, 0)
	for _, d := range r.Differs {
		if d.Refused != "" {
			_ = show.Plainly(&b, "\n%s call %d, %s: refused: %s", d.Tx, d.Index, d.Tool, d.Refused)
			continue
		}
		_ = show.Plainly(&b, "\n%s call %d, %s: was %s\n  would be %s", d.Tx, d.Index, d.Tool, d.Was.String(),
			d.Would.String())
	}
	if len(r.Differs) > 0 {
		b.WriteByte('\n')
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(&b, "%d more; --limit 0 shows all.\n", r.LeftOut)
	}
	if unseen > 0 {
		fmt.Fprintf(&b, "Of %s nothing is said: the log keeps large arguments apart.\n", show.Several(unseen, "call"))
	}
	if r.Cut {
		b.WriteString("Older calls are not there any more: retention has deleted them.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
