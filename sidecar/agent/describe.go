package agent

import (
	"context"
	"crypto/rand"
	"math/big"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

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
		"begin another one, and read again what it had read", t.id)
	for r := range t.everyRead {
		p.ReRead = append(p.ReRead, string(r.Scope))
	}
	slices.Sort(p.ReRead)
	p.ReRead = slices.Compact(p.ReRead)
	return p
}

// find is the transaction that a route names.
func (s *Agent) find(id sequencer.TxID) (*tx, error) {
	agent, inc, _, ok := api.OwnerOf(id)
	if !ok {
		return nil, api.Problemf(api.CodeUnknownTx, "%.100q is not the id of a transaction", string(id))
	}
	if agent != s.agent {
		return nil, api.Problemf(api.CodeOtherAgent, "%s is a transaction of agent %s, and the request is of agent %s: "+
			"send it with the token of %s", id, agent, s.agent, agent)
	}
	t := s.txs[id]
	switch {
	case t != nil && t.fate == fateUnread:
		return nil, api.Problemf(api.CodeNotReady, "how %s ended is not known yet: the sidecar was started again and "+
			"has not read the log so far; ask again", id)
	case t != nil && t.fate == fateGone:
		return nil, api.Problemf(api.CodeForgotten, "%s was sealed, and how it ended is no longer in the log: look "+
			"at what it would have written, or GET /v1/tx/%s/closure, before retrying the work", id, id)
	case t != nil:
		return t, nil
	case inc == s.incarnation && s.knew(id):
		return nil, api.Problemf(api.CodeForgotten, "%s is over and no longer remembered", id)
	case inc < s.incarnation, s.incarnation == 0:
		return nil, api.Problemf(api.CodeSessionLost, "the session of %s has ended and nothing is known of it here "+
			"any more. If it was sealed, GET /v1/tx/%s/closure says how it ended; else begin a new transaction and "+
			"read again", id, id)
	}
	return nil, api.Problemf(api.CodeUnknownTx, "there is no transaction %s", id)
}

// knew: the id was given out in this session.
func (s *Agent) knew(id sequencer.TxID) bool {
	_, _, n, ok := api.OwnerOf(id)
	return ok && n >= 1 && n <= s.count
}

// close takes a transaction out of the open ones. It stays known until Limits.Decided newer ones are over.
func (s *Agent) close(t *tx, to phase) {
	s.loop.Moved(&t.changed)
	if t.phase == phaseOpen || t.phase == phaseSealed {
		t.slim()
		s.open--
		s.order = append(s.order, t.id)
		s.trim()
	}
	if t.phase != phaseLost {
		t.phase = to
	}
	if !t.pins() {
		delete(s.active, t.id)
	}
	delete(s.sending, t.id)
	s.view.Leave(t.id)
}

// maxKept bounds how many transactions that are still needed trim passes over at once.
const maxKept = 16

// trim forgets transactions that are over, oldest first, beyond the limit. Those whose decision is not known yet, or
// that are not settled, go to the end: what is owed of them would be forgotten, too.
func (s *Agent) trim() {
	for kept := 0; len(s.order) > s.limits.Decided && kept < maxKept; {
		id := s.order[0]
		s.order = s.order[1:]
		if s.active[id] != nil || s.settle.Owes(id) {
			s.order = append(s.order, id)
			kept++
			continue
		}
		delete(s.txs, id)
	}
}

// oldest is what the watermark may promise: nothing open is older.
func (s *Agent) oldest(at sequencer.Seq) sequencer.Seq {
	for _, t := range s.active {
		at = min(at, t.base)
		for _, r := range t.loose {
			at = min(at, r.View)
		}
	}
	for _, m := range s.asked { // an answer may make a read of that view
		at = min(at, m.view)
	}
	return s.loose.Oldest(at)
}

func decisionRecord(id sequencer.TxID, o *sequencer.Outcome) *journal.DecidedRecord {
	return &journal.DecidedRecord{Tx: id, State: view.StateOf(o), Code: o.Code, Seq: o.Seq, Scope: o.Scope,
		Moved:  o.Moved,
		Detail: o.Detail, Final: o.Final, By: o.By, Tool: o.Tool, MovedAgent: o.MovedAgent, Floor: o.Floor}
}

// traceOf is the span that a transaction's work belongs to.
func (s *Agent) traceOf(id sequencer.TxID) trace.SpanContext {
	if t := s.txs[id]; t != nil {
		return t.trace
	}
	return trace.SpanContext{}
}

// traces notes the span that a transaction's work belongs to from now on.
func (s *Agent) traces(ctx context.Context, t *tx) {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		t.trace = sc
	}
}

// Span is the span that a transaction's work belongs to; not valid: none, or the agent does not know it.
func Span(s *Agent, tx string) (span trace.SpanContext) {
	s.loop.Run(func() { span = s.traceOf(sequencer.TxID(tx)) })
	return span
}

// backoff is how long to wait before the next attempt: it grows with the attempts, and half of it is by chance, so
// that agents that were refused together do not come back together.
func backoff(attempt int) time.Duration {
	most := 2 * time.Millisecond << min(attempt, 7)
	n, err := rand.Int(rand.Reader, big.NewInt(int64(most/2)))
	if err != nil {
		return most
	}
	return most/2 + time.Duration(n.Int64())
}
