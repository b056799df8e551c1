package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/sidecar/words"
)

// decision describes a transaction as it stands.
func (s *Agent) decision(t *tx) *api.Decision {
	switch o := t.ending(); {
	case o != nil:
		d := s.describe(t, o)
		d.State = view.StateOf(o)
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
		d.BlockedBy = words.Blockers(t.waiting)
	}
	return d
}

// describe takes over what an outcome says of a transaction.
func (s *Agent) describe(t *tx, o *sequencer.Outcome) *api.Decision {
	d := words.Decision(o)
	d.Tx, d.Workspace, d.Mode = string(t.id), s.workspace, t.begin.Mode.String()
	d.Base, d.Attempt, d.Final = uint64(t.base), t.attempt, t.final
	d.Overtaken, d.Session = t.overtaken, t.begin.Session
	if t.residue {
		d.Residue = append(d.Residue, string(t.id))
	}
	t.retraction.Tell(d)
	d.WaitedMs, d.AttemptsLeft = t.waited(s.clock.Now()), max(0, s.limits.Attempts-t.attempt)
	d.OwesSettlement = len(t.own) > 0 && o.Kind == sequencer.OutcomeAborted && !t.final
	if o.Code != "" && o.Kind == sequencer.OutcomeAborted {
		d.ReRead = s.reRead(t, o)
	}
	return d
}

// advise says how a further attempt should be made.
func (s *Agent) advise(t *tx, d *api.Decision) {
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
func (s *Agent) reRead(t *tx, o *sequencer.Outcome) []string {
	var out []string
	for _, scope := range t.moved {
		out = append(out, string(scope))
	}
	if len(out) == 0 {
		for r := range t.everyRead {
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
func (s *Agent) lost(t *tx) error {
	p := api.Problemf(api.CodeSessionLost, "the session of %s has ended and the transaction with it: retry it, or "+
		"begin anew, and read again what it had read", t.id)
	for r := range t.everyRead {
		p.ReRead = append(p.ReRead, string(r.Scope))
	}
	slices.Sort(p.ReRead)
	p.ReRead = slices.Compact(p.ReRead)
	return p
}

// forgotten is the problem of an agent whose former reads cannot be shown any more.
func (s *Agent) forgotten() error {
	return api.Problemf(api.CodeSessionLost, "%v: what was read before is not known any more. "+
		"Read again what this request builds on, then send it again", journal.ErrSessionGone)
}

// explain says in words how a transaction stands.
func (s *Agent) explain(ctx context.Context, t *tx) *api.Explain {
	calls := words.Calls(s.effects(ctx, t).Effects)
	var d *api.Decision
	if t.gone() {
		p := api.AsProblem(s.lost(t))
		d = s.describe(t, &sequencer.Outcome{Detail: p.Detail})
		d.State, d.Code, d.Retryable, d.ReRead = api.StateAborted, api.CodeSessionLost, true, p.ReRead
	} else {
		d = s.decision(t)
	}
	out := &api.Explain{Decision: *d, Paragraph: words.Sentence(d) + calls}
	for r := range t.everyRead {
		out.Reads = append(out.Reads, fmt.Sprintf("%s at version %d, view %d", r.Scope, r.Version, r.View))
	}
	for _, w := range t.writes {
		out.Writes = append(out.Writes, string(w.Scope))
	}
	return out
}
