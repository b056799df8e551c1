package sequencer_test

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// badApproval: approval is asked for what has left, or for unknown arguments.
func badApproval(e sequencer.Effect) bool {
	gated := e.Class == sequencer.ClassBufferable || e.Class == sequencer.ClassIrreversible
	if !e.Approve {
		return e.Args != sequencer.Hash{}
	}
	return !gated || e.Args == sequencer.Hash{}
}

// needed are the effects of a sealed transaction that need a yes, each with what was said of it.
func (t *twinTx) needed() []sequencer.Approval {
	var out []sequencer.Approval
	if t.phase != sequencer.PhaseSealed {
		return nil
	}
	for _, e := range t.seal.Effects {
		if !e.Approve {
			continue
		}
		word := sequencer.Approval{Index: e.Index, Args: e.Args}
		for _, a := range t.words {
			if a.Index == e.Index {
				word = a
			}
		}
		out = append(out, word)
	}
	return out
}

// unheard: one of them has no answer yet.
func (t *twinTx) unheard() bool {
	return slices.ContainsFunc(t.needed(), func(a sequencer.Approval) bool { return a.By == "" })
}

// denied is the first effect that an approver has denied.
func (t *twinTx) denied() *twinFinding {
	for _, a := range t.needed() {
		if a.By != "" && !a.Yes {
			return &twinFinding{code: sequencer.CodeDenied, scope: append(slices.Clone(t.seal.Effects[a.Index].Scopes), "")[0]}
		}
	}
	return nil
}

// waitForApproval sets how long a seal waits.
func (w *twin) waitForApproval(t *twinTx) {
	if len(t.needed()) > 0 {
		t.approvalDue = w.time + w.rules.ApprovalTicks
		t.due = max(t.due, t.approvalDue)
	}
}

// approve takes words; it reports whether one of them is new.
func (w *twin) approve(t *twinTx, in *sequencer.Intent) (heard bool) {
	v := in.Verdict
	switch {
	case t.phase == sequencer.PhaseOpen:
		w.refuseCode(nil, sequencer.CodeNotSealed)
		return false
	case !t.undecided():
		w.repeats = append(w.repeats, t.decision)
		return false
	case v.Footprint != sequencer.Hash{} && v.Footprint != t.footprint:
		w.refuseCode(nil, sequencer.CodeWrongFootprint)
		return false
	}
	for _, a := range v.Approvals {
		if len(a.By) > 128 {
			w.refuseCode(nil, sequencer.CodeLimit)
			return false
		}
		if !slices.ContainsFunc(t.seal.Effects, func(e sequencer.Effect) bool {
			return e.Index == a.Index && e.Approve && (!a.Yes || e.Args == a.Args)
		}) {
			w.refuseCode(nil, sequencer.CodeWrongFootprint)
			return false
		}
	}
	for _, a := range v.Approvals {
		if !slices.ContainsFunc(t.words, func(b sequencer.Approval) bool {
			return b.Index == a.Index && (a.Yes || !b.Yes)
		}) {
			t.words = slices.DeleteFunc(t.words, func(b sequencer.Approval) bool { return b.Index == a.Index })
			t.words = append(t.words, a)
			heard = true
		}
	}
	slices.SortFunc(t.words, func(a, b sequencer.Approval) int { return int(a.Index) - int(b.Index) })
	if no := t.denied(); no != nil {
		w.abort(t, *no)
	}
	return heard
}

// askApprovals makes some of a seal's held effects need a yes.
func (h *history) askApprovals(s *sequencer.Seal) {
	for i := range s.Effects {
		e := &s.Effects[i]
		if gated := e.Class == sequencer.ClassBufferable || e.Class == sequencer.ClassIrreversible; gated && h.rarely(2) ||
			h.rarely(60) {
			e.Approve, e.Args = !h.rarely(40), h.args()
		}
	}
}

func (h *history) args() sequencer.Hash {
	return pick(&h.dice, sequencer.Hash{1}, sequencer.Hash{1}, sequencer.Hash{1}, sequencer.Hash{2})
}

// words approve or deny, through the sidecar of anybody.
func (h *history) words(in *sequencer.Intent) {
	in.Agent = h.agent()
	in.Incarnation = h.incarnation(in.Agent)
	for {
		a := sequencer.Approval{Index: uint32(h.n(3)), Yes: !h.rarely(5), By: pick(&h.dice, "ann", "bob"), Args: h.args()}
		in.Verdict.Approvals = append(in.Verdict.Approvals, a)
		if !h.rarely(3) {
			break
		}
	}
	if t := h.twin.tx(in.Tx); t != nil && h.rarely(2) {
		list := t.needed()
		for i := range list {
			list[i].Yes, list[i].By = !h.rarely(8), pick(&h.dice, "ann", "bob")
		}
		if len(list) > 0 {
			in.Verdict.Approvals = list
		}
	}
	if !h.rarely(3) {
		in.Verdict.Footprint = sequencer.Hash{}
	}
}

// noteApprovals counts what came of approvals.
func (r *reached) noteApprovals(o *sequencer.Outcome) {
	yes := slices.ContainsFunc(o.Approvals, func(a sequencer.Approval) bool { return a.Yes })
	no := slices.ContainsFunc(o.Approvals, func(a sequencer.Approval) bool { return a.By != "" && !a.Yes })
	switch {
	case o.Kind == sequencer.OutcomeCommitted && yes:
		r.count["approved and committed"]++
	case o.Kind == sequencer.OutcomeWaiting && yes:
		r.count["approved and waiting"]++
	case o.Code == sequencer.CodeDenied && yes && no:
		r.count["denied beside a yes"]++
	case o.Code == sequencer.CodeDenied && !no:
		r.count["denied by silence"]++
	}
}
