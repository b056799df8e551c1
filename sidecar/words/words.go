// Package words puts what was decided into words and into the shapes of the API: the sidecar, the console and
// exported transactions say the same sentence about the same decision.
package words

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// Decision is any transaction's outcome as the API writes it; its State is left to who knows the transaction.
func Decision(o *sequencer.Outcome) *api.Decision {
	d := &api.Decision{
		Tx: string(o.Tx), Workspace: o.Workspace, Mode: o.Mode.String(), Seq: uint64(o.Seq), Code: string(o.Code),
		Detail: o.Detail, Scope: string(o.Scope), MovedSeq: uint64(o.Moved.Seq),
		MovedBy: cmp.Or(string(o.Moved.Tx), o.MovedAgent), By: o.By, Tool: o.Tool,
		BlockedBy: Blockers(o), Retryable: o.Retryable, Would: string(o.Would), Final: o.Final,
	}
	if o.Code == sequencer.CodeTooOld {
		d.Floor = uint64(o.Floor)
	}
	d.Approvals, d.Signer = Approvals(o.Approvals), o.Signer
	for _, tx := range o.Residue {
		d.Residue = append(d.Residue, string(tx))
	}
	return d
}

// Approvals are who has said what of calls that need a yes.
func Approvals(list []sequencer.Approval) (out []api.Approval) {
	for _, a := range list {
		out = append(out, api.Approval{Index: a.Index, Yes: a.Yes, By: a.By, ArgsSHA256: hex.EncodeToString(a.Args[:])})
	}
	return out
}

// Blockers are the transactions that an outcome waits for.
func Blockers(o *sequencer.Outcome) (out []api.Blocker) {
	for _, b := range o.BlockedBy {
		out = append(out, api.Blocker{Tx: string(b.Tx), Scope: string(b.Scope), Why: b.Why})
	}
	return out
}

// Sentence is one paragraph on how a transaction stands and what to do about it.
func Sentence(d *api.Decision) string {
	var b strings.Builder
	switch d.State {
	case api.StateCommitted:
		fmt.Fprintf(&b, "%s committed at seq %d.%s", d.Tx, d.Seq, takenBack(d))
	case api.StateAborted:
		fmt.Fprintf(&b, "%s was aborted: %s.", d.Tx, reason(d))
	case api.StateSealed:
		fmt.Fprintf(&b, "%s is sealed and not decided yet.", d.Tx)
	default:
		fmt.Fprintf(&b, "%s is open.", d.Tx)
		if d.Code != "" {
			fmt.Fprintf(&b, " Its last request was refused: %s.", reason(d))
		}
	}
	if d.State == api.StateCommitted {
		for _, a := range d.Approvals {
			fmt.Fprintf(&b, " Call %d was approved by %s.", a.Index, a.By)
		}
	}
	if d.Signer != "" {
		fmt.Fprintf(&b, " It was signed by the key %s.", d.Signer)
	}
	waits := d.BlockedBy
	if d.State == api.StateAborted || d.State == api.StateCommitted {
		waits = nil // over, and the reason names who was in the way
	}
	for _, by := range waits {
		if by.Why == "approval" && by.Tx == d.Tx {
			fmt.Fprintf(&b, " It waits until %s.", approvals(d))
			continue
		}
		fmt.Fprintf(&b, " It waits for %s (%s)", by.Tx, by.Why)
		if by.Scope != "" {
			fmt.Fprintf(&b, " at %s", by.Scope)
		}
		b.WriteString(".")
	}
	if d.Overtaken != nil && d.State != api.StateCommitted && d.Code != string(sequencer.CodeStaleRead) {
		fmt.Fprintf(&b, " What it read of %s was overwritten at seq %d by %s.",
			d.Overtaken.Scope, d.Overtaken.Seq, d.Overtaken.Writer)
	}
	if slices.Contains(d.Residue, d.Tx) {
		b.WriteString(" Not all of its effects could be made clean: see the list of residues.")
	}
	if d.Would != "" {
		fmt.Fprintf(&b, " It only observed; otherwise it would have been: %s.", d.Would)
	}
	switch {
	case d.GiveUp:
		fmt.Fprintf(&b, " After %d attempts a further one is not worth it.", d.Attempt)
	case d.Retryable && len(d.ReRead) > 0:
		fmt.Fprintf(&b, " Retry, and read %s again.", strings.Join(d.ReRead, ", "))
	case d.Retryable:
		b.WriteString(" A further attempt can succeed.")
	}
	return b.String()
}

// cause says where and by whom, as far as it is known.
func cause(d *api.Decision) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if at := cmp.Or(d.Tool, d.Scope); at != "" {
		add("%s", at)
	}
	by, seq := d.MovedBy, d.MovedSeq
	switch code := sequencer.Code(d.Code); {
	case code == sequencer.CodeTooOld:
		if d.Floor > 0 {
			add("what is older than seq %d is forgotten", d.Floor)
		}
	case seq == 0:
		if by != "" {
			add("by %s", by)
		}
	case code == sequencer.CodeConflict:
		add("granted to %s at seq %d", by, seq)
	case code == sequencer.CodeWounded:
		add("granted to it at seq %d, needed by %s", seq, by)
	case code == sequencer.CodeOwnTransaction:
		add("%s has it since seq %d", by, seq)
	case code == sequencer.CodeLostBranch:
		add("%s was chosen at seq %d", by, seq)
	case code == sequencer.CodeCascade:
		add("by %s, decided at seq %d", by, seq)
	case code == sequencer.CodePhantomTool:
		add("changed at seq %d by the sidecar of %s", seq, by)
	case by == "":
		add("moved at seq %d", seq)
	default:
		add("moved at seq %d by %s", seq, by)
	}
	return strings.Join(parts, ", ")
}

// approvals says which calls still need an approval.
func approvals(d *api.Decision) string {
	var calls []string
	for _, a := range d.Approvals {
		if a.By == "" {
			calls = append(calls, fmt.Sprint(a.Index))
		}
	}
	switch len(calls) {
	case 0:
		return "its calls are approved"
	case 1:
		return "its call " + calls[0] + " is approved"
	}
	return "its calls " + strings.Join(calls, ", ") + " are approved"
}

// reason puts a code into words.
func reason(d *api.Decision) string {
	text := d.Code
	switch sequencer.Code(d.Code) {
	case sequencer.CodeStaleRead:
		text = "stale_read, something it had read was overwritten before it could commit"
	case sequencer.CodeVersionMismatch:
		text = "version_mismatch, a shard does not have the version that was expected"
	case sequencer.CodeConflict:
		text = "conflict, a younger transaction was granted what it asked for"
	case sequencer.CodeWounded:
		text = "wounded, an older transaction needed what it held"
	case sequencer.CodeCascade:
		text = "cascade, what it rests on was aborted or is being taken back"
	case sequencer.CodeTooOld:
		text = "too_old, it rests on something older than what the workspace remembers"
	case sequencer.CodeLeaseExpired:
		text = "lease_expired, its sidecar was gone for too long"
	case sequencer.CodeOwnTransaction:
		text = "own_transaction, another open transaction of this conversation has it"
	case sequencer.CodeSibling:
		text = "sibling, another branch of the group acts there: let one branch act, or select a winner first"
	case sequencer.CodeTouchBound:
		text = "touch_bound, it waited for as long as it may: ask again, or abort"
	case sequencer.CodeVetoed:
		text = "vetoed, the hook said no"
	case sequencer.CodeHookUnavailable:
		text = "hook_unavailable, the hook said neither yes nor no"
	case sequencer.CodeDenied:
		text = "denied, one of its calls was denied, or not approved in time"
	case sequencer.CodeLostBranch:
		text = "lost_branch, another branch of its group was chosen"
	case sequencer.CodePhantomTool:
		text = "phantom_tool, a tool that it relies on was changed or withdrawn: plan again with the tools as they are"
	case sequencer.CodeDeadline:
		text = "deadline, it took longer than it was allowed to"
	case sequencer.CodeRulesChanged:
		text = "rules_changed, the workspace began to enforce what it only observed while this was undecided"
	}
	if why := cause(d); why != "" {
		text += " (" + why + ")"
	}
	if d.Detail != "" {
		text += ": " + d.Detail
	}
	return text
}

// Refusal is the problem that says how a transaction ended.
func Refusal(d *api.Decision) *api.Problem {
	p := api.Problemf(d.Code, "%s", Sentence(d))
	p.Retryable = d.Retryable && !d.GiveUp
	p.ReRead, p.Scope, p.MovedSeq, p.MovedBy = d.ReRead, d.Scope, d.MovedSeq, d.MovedBy
	p.By, p.Tool, p.Floor = d.By, d.Tool, d.Floor
	p.Overtaken, p.Decision = d.Overtaken, d
	return p
}

// NotTaken is the problem of an intent that the log has refused: it says nothing of how a transaction stands.
func NotTaken(o *sequencer.Outcome, format string, args ...any) *api.Problem {
	p := api.Problemf(string(o.Code), "%s: %s", fmt.Sprintf(format, args...), o.Detail)
	p.Retryable = o.Retryable
	return p
}

// NoUndo says of a committed transaction that no retraction takes it any more.
const NoUndo = "It can no longer be taken back: it is beyond the workspace's undo horizon."

// takenBack says of a committed transaction that a retraction took it back, or does so now.
func takenBack(d *api.Decision) string {
	var with string
	if d.Retraction != "" && d.Retraction != d.Tx {
		with = " with the retraction of " + d.Retraction
	}
	switch {
	case d.UndoneSeq != 0:
		return fmt.Sprintf(" It was taken back at seq %d%s.", d.UndoneSeq, with)
	case d.Undone:
		return " It was taken back" + with + "."
	case d.Retraction != "":
		return " It is being taken back" + with + "."
	}
	return ""
}

// leastRate is how many seconds a rate is taken from at least: that of a burst says nothing.
const leastRate = 60

// Undo is how long a transaction can still be taken back; nil: no longer, or the workspace's logic has no such bounds.
func Undo(c *topology.Cone) *api.Undo {
	left := c.Undo
	if left == nil {
		return nil
	}
	u := &api.Undo{Through: uint64(c.Through), CommitsLeft: left.Commits, BytesLeft: left.Bytes,
		SecondsLeft: uint64(left.Ticks) / 4, Commits: left.Made, RateSeconds: uint64(left.Span) / 4}
	// At the rate of the span: the time until so much of what was used in it is used again.
	after := func(left, used uint64) float64 {
		if used == 0 {
			return math.Inf(1)
		}
		return float64(left) / float64(used) * max(1, float64(u.RateSeconds))
	}
	u.Nearest = "time"
	first := float64(u.SecondsLeft)
	for _, bound := range []struct {
		name  string
		after float64
	}{{"commits", after(left.Commits, left.Made)}, {"bytes", after(left.Bytes, left.Kept)}} {
		if bound.after < first {
			u.Nearest, first = bound.name, bound.after
		}
	}
	if u.RateSeconds >= leastRate {
		u.EstimateSeconds = uint64(first)
	}
	u.Sentence = fmt.Sprintf("It can be taken back for %s, %s, or %s of the log's time, whichever ends first. ",
		counted(left.Commits, "more commit"), roughly(left.Bytes), lasting(u.SecondsLeft))
	switch {
	case u.Nearest == "time":
		u.Sentence += "The nearest bound is the time."
	case u.RateSeconds < leastRate:
		u.Sentence += fmt.Sprintf("The nearest bound is the %s; too little has happened for an estimate of when.", u.Nearest)
	default:
		u.Sentence += fmt.Sprintf("The nearest bound is the %s: in about %s at the rate of the last %s (%s), an estimate.",
			u.Nearest, lasting(u.EstimateSeconds), lasting(max(1, u.RateSeconds)), counted(left.Made, "commit"))
	}
	return u
}

func counted(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// roughly is a number of bytes of what the workspace may remember.
func roughly(n uint64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d more bytes to remember", n)
	}
	return fmt.Sprintf("%d KiB more to remember", n>>10)
}

// lasting is a time with the unit that suits it.
func lasting(seconds uint64) string {
	for _, unit := range []struct {
		seconds uint64
		name    string
	}{{24 * 3600, "day"}, {3600, "hour"}, {60, "minute"}} {
		if seconds >= 2*unit.seconds {
			return counted((seconds+unit.seconds/2)/unit.seconds, unit.name)
		}
	}
	return counted(seconds, "second")
}

// Closure is what a transaction rests on as the API writes it.
func Closure(c *topology.Closure) *api.Closure {
	out := &api.Closure{Tx: string(c.Tx), Truncated: c.Truncated, Limit: c.Limit}
	for i := range c.Rows {
		out.Rows = append(out.Rows, closureRow(&c.Rows[i]))
	}
	return out
}

// ExplainRow explains a transaction as far as its row knows it.
func ExplainRow(workspace string, row *topology.ClosureRow) *api.Explain {
	r := closureRow(row)
	d := api.Decision{Tx: r.Tx, Workspace: workspace, Seq: r.Seq, Code: r.Code, Final: row.Final,
		Retraction: string(row.Retraction), Undone: r.Status == api.RetractDone, State: api.StateOpen}
	switch {
	case r.Seq != 0 && r.Code == "":
		d.State = api.StateCommitted
	case r.Seq != 0:
		d.State = api.StateAborted
	case r.Status == api.StateSealed:
		d.State = api.StateSealed
	}
	out := &api.Explain{Decision: d, Writes: r.Writes}
	for _, e := range r.Edges {
		out.Reads = append(out.Reads, e.Scope)
	}
	out.Paragraph = Sentence(&d) + " That is what the closure table keeps; hence tail --tx " + r.Tx +
		" shows all that was said."
	return out
}

func closureRow(r *topology.ClosureRow) api.ClosureRow {
	out := api.ClosureRow{Tx: string(r.Tx), Agent: r.Agent, Status: r.Status, Code: string(r.Code),
		Seq: uint64(r.Seq), Scar: r.Scar}
	for _, e := range r.Edges {
		out.Edges = append(out.Edges, api.ClosureEdge{Scope: string(e.Scope), Writer: string(e.Writer),
			Version: uint64(e.Version), View: uint64(e.View)})
	}
	for _, id := range r.RestsOn {
		out.RestsOn = append(out.RestsOn, string(id))
	}
	for _, scope := range r.Writes {
		out.Writes = append(out.Writes, string(scope))
	}
	return out
}

// Cone is what a retraction would undo, as the API writes it.
func Cone(cone *topology.Cone) *api.Retraction {
	r := &api.Retraction{Tx: string(cone.Tx), State: api.RetractPossible, Through: uint64(cone.Through),
		Total: int(cone.Total), Cone: []api.ConeMember{}, Undo: Undo(cone)}
	for i := range cone.Members {
		m := &cone.Members[i]
		one := api.ConeMember{Tx: string(m.Tx), Agent: m.Agent, Seq: uint64(m.Seq), Depth: int(m.Depth), Why: m.Why,
			Of: string(m.Of), At: string(m.At)}
		for _, s := range m.Writes {
			one.Writes = append(one.Writes, string(s))
		}
		for _, s := range m.Restored {
			one.Restored = append(one.Restored, api.ShardRestored{Scope: string(s.Scope), Seq: uint64(s.Seq),
				Writer: string(s.Tx), Absent: s.Absent, Unknown: s.Unknown})
		}
		r.Cone = append(r.Cone, one)
	}
	return r
}
