package sequencer_test

import (
	"cmp"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// bounded: the rules are those of logic 3.
func (w *twin) bounded() bool { return w.rules.Logic > 2 }

// refusesJoin: there are as many sidecars as the rules allow, and the agent has none.
func (w *twin) refusesJoin(agent string) bool {
	live := slices.ContainsFunc(w.sidecars, func(s *twinSidecar) bool { return s.agent == agent })
	return w.bounded() && w.seq > 0 && !live && len(w.sidecars) >= int(w.rules.MaxSidecars)
}

// own are the scopes that a settlement may name.
func (t *twinTx) own() []sequencer.Scope {
	out := append(slices.Clone(t.gated), t.sealed...)
	for _, g := range t.grants {
		if g.Access == sequencer.WriteAccess {
			out = append(out, g.Scope)
		}
	}
	if t.past != nil {
		for _, x := range t.past.Writes {
			out = append(out, x.Scope)
		}
	}
	slices.SortFunc(out, func(a, b sequencer.Scope) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return out
}

// owned is the settlement as it counts; refused is the first scope in it that is not the transaction's.
func (w *twin) owned(t *twinTx, s *sequencer.Settle) (counts *sequencer.Settle, refused sequencer.Scope) {
	if !w.bounded() {
		return s, ""
	}
	own, n := t.own(), 0
	wide := &sequencer.Settle{NoneElse: s.NoneElse}
	for _, e := range s.Effects {
		var scopes []sequencer.Scope
		for _, x := range e.Scopes {
			at := slices.IndexFunc(own, func(o sequencer.Scope) bool { return o.Covers(x) })
			if at < 0 {
				return nil, x
			}
			scopes = append(scopes, own[at])
			n++
		}
		wide.Effects = append(wide.Effects, sequencer.Settled{Index: e.Index, Scopes: scopes, Result: e.Result})
	}
	if n > int(w.rules.MaxScopes) {
		return wide, ""
	}
	return s, ""
}

// share marks the scopes at which what is granted to, or committed by, an observed transaction meets others.
func (w *twin) share(t *twinTx, scopes []sequencer.Scope) {
	if !t.free || !w.bounded() {
		return
	}
	for _, s := range scopes {
		w.others(t, s, func(u *twinTx, h sequencer.Hold) {
			if h.Kind != sequencer.Claimed && h.Access == sequencer.WriteAccess {
				u.shared = append(u.shared, h.Scope)
				t.shared = append(t.shared, s)
			}
		})
	}
}

// doubtful: it is unknown what stands at a scope after a settlement of the transaction.
func (w *twin) doubtful(t *twinTx, s sequencer.Scope) bool {
	return !w.rules.Observe && slices.ContainsFunc(t.shared, s.Overlaps)
}

// unfinished: the workspace observes, or a transaction that opened while it did is not final.
func (w *twin) unfinished() bool {
	return w.bounded() && (w.rules.Observe || slices.ContainsFunc(w.txs, func(t *twinTx) bool {
		return t.free && !t.final()
	}))
}

// refusesRules says why rules that are well formed do not come into force.
func (w *twin) refusesRules(r *sequencer.Rules) sequencer.Code {
	switch {
	case r.Logic < 3:
		return ""
	case r.LeaseTicks < 10:
		return sequencer.CodeUnknownIntent
	case r.Observe && len(w.retractions) > 0:
		return sequencer.CodeNotWhileObserving
	}
	return ""
}

// switched is what comes of rules in the step in which they come into force.
func (w *twin) switched(former sequencer.Rules) {
	if !w.bounded() || w.rules.Observe {
		return
	}
	for _, t := range w.txs {
		if former.Logic < 3 && t.free && !t.undecided() {
			t.shared = append(t.shared, t.own()...) // what of it was shared is not noted
		}
	}
	if !former.Observe && !slices.ContainsFunc(w.txs, func(t *twinTx) bool { return t.free && t.undecided() }) {
		return
	}
	seq := w.seq
	for _, t := range w.txs {
		if t.undecided() {
			w.abort(t, twinFinding{code: sequencer.CodeRulesChanged, moved: sequencer.Writer{Seq: seq}})
		}
	}
}

// sayWait says what the turn of a member waits for, when that is another thing than was said last.
func (w *twin) sayWait(r *twinRetraction, t *twinTx) {
	if !w.bounded() || r.turn && t.owner != 0 {
		return
	}
	var list []sequencer.Blocker
	why := func(u *twinTx, kind string) string {
		if u.owner == 0 {
			return "orphan"
		}
		return kind
	}
	if r.turn || t.phase != sequencer.PhaseRetracting {
		list = append(list, sequencer.Blocker{Tx: t.id, Why: why(t, "settlement")})
	} else {
		for _, x := range t.past.Writes {
			w.others(t, x.Scope, func(u *twinTx, h sequencer.Hold) {
				if !u.undecided() && !slices.Contains(r.cone, u) {
					list = append(list, sequencer.Blocker{Tx: u.id, Scope: h.Scope, Why: why(u, h.Kind.String())})
				}
			})
		}
	}
	slices.SortFunc(list, func(a, b sequencer.Blocker) int {
		first := 0
		if (a.Why == "orphan") != (b.Why == "orphan") {
			if first = 1; a.Why == "orphan" {
				first = -1
			}
		}
		return cmp.Or(first, cmp.Compare(a.Tx, b.Tx), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Why, b.Why))
	})
	list = slices.Compact(list)
	if len(list) == 0 || r.named == list[0] {
		return
	}
	said := r.named
	r.named = list[0]
	if said.Tx == list[0].Tx && list[0].Why != "orphan" {
		return
	}
	w.emitTx(t, sequencer.Outcome{Kind: sequencer.OutcomeRetracting, Agent: t.agent, Incarnation: t.owner,
		Retraction: r.root.id, BlockedBy: list[:min(len(list), 16)]})
}

// silence is what a hook comes to that gave no answer.
func (w *twin) silence() sequencer.Code {
	if !w.bounded() {
		return sequencer.CodeVetoed
	}
	return sequencer.CodeHookUnavailable
}
