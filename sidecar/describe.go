package sidecar

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// decision describes a transaction as it stands; s.mu is held.
func (s *session) decision(t *tx) *api.Decision {
	switch o := t.ending(); {
	case o != nil:
		d := s.describe(t, o)
		d.State = stateOf(o)
		s.advise(t, d)
		return d
	case t.phase == phaseSealed && t.waiting != nil:
		d := s.describe(t, t.waiting)
		d.Seq, d.State = 0, api.StateSealed
		return d
	}
	d := s.describe(t, &sequencer.Outcome{})
	d.State = api.StateOpen
	if t.phase == phaseSealed {
		d.State = api.StateSealed
	}
	if t.waiting != nil {
		d.BlockedBy = blockers(t.waiting)
	}
	return d
}

// describe takes over what an outcome says of a transaction.
func (s *session) describe(t *tx, o *sequencer.Outcome) *api.Decision {
	d := describe(o)
	d.Tx, d.Workspace, d.Mode = string(t.id), s.workspace, t.begin.Mode.String()
	d.Base, d.Attempt, d.Final = uint64(t.base), t.attempt, t.final
	d.Overtaken = t.overtaken
	if t.residue {
		d.Residue = append(d.Residue, string(t.id))
	}
	d.Retraction, d.Undone = string(t.retraction.of), t.retraction.undone
	d.WaitedMs, d.AttemptsLeft = t.waited(s.clock.Now()), max(0, s.limits.Attempts-t.attempt)
	d.OwesSettlement = len(t.own) > 0 && o.Kind == sequencer.OutcomeAborted && !t.final
	if o.Code != "" && o.Kind == sequencer.OutcomeAborted {
		d.ReRead = s.reRead(t, o)
	}
	return d
}

// describe is any transaction's outcome as the API writes it.
func describe(o *sequencer.Outcome) *api.Decision {
	d := &api.Decision{
		Tx: string(o.Tx), Workspace: o.Workspace, Mode: o.Mode.String(), Seq: uint64(o.Seq), Code: string(o.Code),
		Detail: o.Detail, Scope: string(o.Scope), MovedSeq: uint64(o.Moved.Seq), MovedBy: string(o.Moved.Tx),
		BlockedBy: blockers(o), Retryable: o.Retryable, Would: string(o.Would), Final: o.Final,
	}
	for _, tx := range o.Residue {
		d.Residue = append(d.Residue, string(tx))
	}
	return d
}

func blockers(o *sequencer.Outcome) (out []api.Blocker) {
	for _, b := range o.BlockedBy {
		out = append(out, api.Blocker{Tx: string(b.Tx), Scope: string(b.Scope), Why: b.Why})
	}
	return out
}

// advise says how a further attempt should be made.
func (s *session) advise(t *tx, d *api.Decision) {
	if d.State != api.StateAborted || !d.Retryable {
		return
	}
	if t.attempt >= s.limits.Attempts {
		d.GiveUp, d.Retryable = true, false
		return
	}
	d.BackoffMs = int(backoff(t.attempt).Milliseconds()) + 1
}

// reRead names what to read again: what is known to have moved, else everything that was read.
func (s *session) reRead(t *tx, o *sequencer.Outcome) []string {
	var out []string
	for _, scope := range t.moved {
		out = append(out, string(scope))
	}
	if len(out) == 0 {
		for _, r := range t.allReads() {
			if o.Scope == "" || r.Scope.Overlaps(o.Scope) {
				out = append(out, string(r.Scope))
			}
		}
	}
	if len(out) == 0 && o.Scope != "" {
		out = append(out, string(o.Scope))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lost is the problem of a transaction whose session has ended.
func (s *session) lost(t *tx) error {
	p := problem(codeSessionLost, "the session of %s has ended and the transaction with it: retry it, or begin anew, "+
		"and read again what it had read", t.id)
	for _, r := range t.allReads() {
		p.ReRead = append(p.ReRead, string(r.Scope))
	}
	slices.Sort(p.ReRead)
	p.ReRead = slices.Compact(p.ReRead)
	return p
}

// forgotten is the problem of an agent whose former reads cannot be shown any more.
func (s *session) forgotten() error {
	return problem(codeSessionLost, "%v: what was read before is not known any more. "+
		"Read again what this request builds on, then send it again", errSessionGone)
}

// explain says in words how a transaction stands.
func (s *session) explain(t *tx) *api.Explain {
	s.mu.Lock()
	defer s.mu.Unlock()
	var d *api.Decision
	if t.gone() {
		p := asProblem(s.lost(t))
		d = s.describe(t, &sequencer.Outcome{Detail: p.Detail})
		d.State, d.Code, d.Retryable, d.ReRead = api.StateAborted, codeSessionLost, true, p.ReRead
	} else {
		d = s.decision(t)
	}
	out := &api.Explain{Decision: *d, Paragraph: sentence(d)}
	for _, r := range t.allReads() {
		out.Reads = append(out.Reads, fmt.Sprintf("%s at version %d, view %d", r.Scope, r.Version, r.View))
	}
	for _, w := range t.writes {
		out.Writes = append(out.Writes, string(w.Scope))
	}
	return out
}

// sentence is one paragraph on how a transaction stands and what to do about it.
func sentence(d *api.Decision) string {
	var b strings.Builder
	switch d.State {
	case api.StateCommitted:
		fmt.Fprintf(&b, "%s committed at seq %d.", d.Tx, d.Seq)
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
	for _, by := range d.BlockedBy {
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
		fmt.Fprintf(&b, " Try again and read %s anew.", strings.Join(d.ReRead, ", "))
	case d.Retryable:
		b.WriteString(" A further attempt can succeed.")
	}
	return b.String()
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
	case sequencer.CodeTooOld:
		text = "too_old, it rests on something older than what the workspace remembers"
	case sequencer.CodeLeaseExpired:
		text = "lease_expired, its sidecar was gone for too long"
	case sequencer.CodeOwnTransaction:
		text = "own_transaction, another open transaction of this session has it: seal or abort that one first"
	case sequencer.CodeSibling:
		text = "sibling, another branch of the group acts there: let one branch act, or select a winner first"
	case sequencer.CodeTouchBound:
		text = "touch_bound, it waited for as long as it may: ask again, or abort"
	case sequencer.CodeVetoed:
		text = "vetoed, the hook said no"
	case sequencer.CodeLostBranch:
		text = "lost_branch, another branch of its group was chosen"
	case sequencer.CodePhantomTool:
		text = "phantom_tool, a tool that it relies on was changed or withdrawn: plan anew with the tools as they are"
	case sequencer.CodeDeadline:
		text = "deadline, it took longer than it was allowed to"
	}
	if d.Scope != "" {
		text += " (" + d.Scope
		if d.MovedSeq > 0 {
			text += fmt.Sprintf(", moved at seq %d", d.MovedSeq)
		}
		if d.MovedBy != "" {
			text += " by " + d.MovedBy
		}
		text += ")"
	}
	if d.Detail != "" {
		text += ": " + d.Detail
	}
	return text
}
