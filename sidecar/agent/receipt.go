package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
)

// standing is how a transaction stands for its calls.
func (s *Agent) standing(t *tx) settle.Standing {
	now := s.decision(t)
	st := settle.Standing{State: now.State, Over: t.final || t.retraction.Final, Clean: t.clean,
		Back: t.retraction.Undone, Unapproved: unapproved(now)}
	if !st.Over && st.State == api.StateCommitted {
		st.Idle = s.settle.WhyNot(t.id)
	}
	return st
}

// receiptNow is a call's receipt as its transaction stands now.
func (s *Agent) receiptNow(t *tx, p gate.Progress) *api.Receipt {
	out := settle.Receipt(p, s.standing(t))
	out.Overtaken, out.Call = t.overtaken, t.callAt(p.Index)
	return out
}

// unreadNote is what is said of a call that the log may know more of.
const unreadNote = "the log cannot be read now, so what was done about it since is not known"

// effects lists a transaction's calls as they stand. The log is read only where it may know more than the journal, and
// for so long only: it reads from the transaction's first event on, or fails to while the log is away.
func (s *Agent) effects(ctx context.Context, t *tx) *api.Effects {
	d, st := s.decision(t), s.standing(t)
	var issued []gate.Progress
	here := t.incarnation >= s.formers.First() // all that it called was issued by this process
	for _, i := range t.effects {
		issued = append(issued, gate.Progress{Effect: i.effect})
	}
	known, kept, shared := s.delivery.Calls(t.id)
	if !kept { // the journal has dropped it: only what was issued is still remembered
		known, shared = issued, len(issued) > 0 || !here
	}
	var unread error
	if st.Over && (shared || slices.ContainsFunc(known, isLeft)) {
		known, unread = s.settle.SinceSettled(ctx, t.id, known)
		if unread != nil {
			s.log.Warn("what others did about calls cannot be read from the log", "tx", string(t.id), "cause", unread)
		}
	}
	out := &api.Effects{Tx: d.Tx, State: d.State, Final: d.Final, Effects: []api.Receipt{}}
	for _, p := range known {
		r := settle.Receipt(p, st)
		r.Call = t.callAt(p.Index)
		if unread != nil && (shared || isLeft(p)) {
			r.Note = fmt.Sprintf("%s: %v", unreadNote, unread)
		}
		out.Effects = append(out.Effects, *r)
	}
	return out
}

// isLeft reports whether a call of a settled transaction may be residue. Any sidecar may have tried it again since,
// and only the log says so.
func isLeft(p gate.Progress) bool {
	return !p.Ran() && (p.Tool.Class.Gated() || p.GivenUp || p.Answer == nil) || p.UndoLost
}

// callsOf says how the calls of any agent's transaction stand, as far as the log says it.
func (s *Agent) callsOf(ctx context.Context, id sequencer.TxID, st settle.Standing) string {
	logged, err := s.settle.SinceSettled(ctx, id, nil)
	if err != nil {
		return "" // how it was decided is worth saying without them
	}
	var list []api.Receipt
	for _, p := range logged {
		list = append(list, *settle.Receipt(p, st))
	}
	return words.Calls(list)
}
