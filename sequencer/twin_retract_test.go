package sequencer_test

import (
	"cmp"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// twinRetraction is an accepted retraction; with a cone it runs.
type twinRetraction struct {
	root   *twinTx
	seq    sequencer.Seq
	cone   []*twinTx // the most recent first
	turn   bool
	named  sequencer.Blocker // the first of those that its next turn was said to wait for
	ground map[sequencer.Scope]*twinGround
}

// twinGround is what stands at a scope under a cone.
type twinGround struct {
	writer sequencer.Writer
	shard  *sequencer.ShardVersion // nil: none, or restored already
	kept   bool                    // the cone has deltas there
}

func (w *twin) retracts() bool { return w.rules.Logic > 1 }

func (t *twinTx) aborted() bool {
	return t.phase == sequencer.PhaseAborted || t.phase == sequencer.PhaseFinalAborted
}

func (t *twinTx) inCone() bool { return t.coneOf != "" && t.phase != sequencer.PhaseRetracted }

func (w *twin) retract(t *twinTx) {
	at := slices.IndexFunc(w.retractions, func(r *twinRetraction) bool {
		return r.root == t || slices.Contains(r.cone, t)
	})
	switch {
	case !w.retracts():
		w.refuseCode(t, sequencer.CodeUnknownIntent)
	case t.undecided() || t.aborted():
		w.refuseCode(t, sequencer.CodeNotCommitted)
	case t.phase == sequencer.PhaseRetracted:
		w.repeat(t, t.past.Undone)
	case at >= 0:
		w.repeat(t, w.retractions[at].seq)
	case t.past == nil || t.decision <= w.horizon:
		w.refuseCode(t, sequencer.CodeTooOld)
	case w.unfinished():
		w.refuseCode(t, sequencer.CodeNotWhileObserving)
	default:
		r := &twinRetraction{root: t}
		w.answer(t, 0)
		running := len(w.retractions) > 0 && w.retractions[0].cone != nil
		w.retractions = append(w.retractions, r)
		if t.final() && !running {
			return
		}
		o := sequencer.Outcome{Kind: sequencer.OutcomeRetracting, Retraction: t.id}
		if !t.final() {
			why := "settlement"
			if t.owner == 0 {
				why = "orphan"
			}
			o.BlockedBy = append(o.BlockedBy, sequencer.Blocker{Tx: t.id, Why: why})
		}
		if running {
			o.BlockedBy = append(o.BlockedBy, sequencer.Blocker{Tx: w.retractions[0].root.id, Why: "retraction"})
		}
		r.seq = w.emitTx(t, o)
		w.answer(t, r.seq)
	}
}

// undoSome goes on with retractions as far as it goes.
func (w *twin) undoSome() {
	for len(w.retractions) > 0 {
		r := w.retractions[0]
		if r.cone == nil {
			at := slices.IndexFunc(w.retractions, func(r *twinRetraction) bool { return r.root.final() })
			if at < 0 {
				return
			}
			w.startUndoing(w.retractions[at])
			continue
		}
		at := slices.IndexFunc(r.cone, func(t *twinTx) bool { return t.phase != sequencer.PhaseRetracted })
		switch {
		case at < 0:
			w.retractions = w.retractions[1:]
		case r.turn, r.cone[at].phase != sequencer.PhaseRetracting, w.heldByOthers(r, r.cone[at]):
			w.sayWait(r, r.cone[at])
			return
		case r.cone[at].past.Effects:
			t := r.cone[at]
			r.turn, r.named = true, sequencer.Blocker{}
			o := sequencer.Outcome{Kind: sequencer.OutcomeTurn, Agent: t.agent, Incarnation: t.owner,
				Retraction: r.root.id}
			if t.owner == 0 && w.bounded() {
				r.named = sequencer.Blocker{Tx: t.id, Why: "orphan"}
				o.BlockedBy = []sequencer.Blocker{r.named}
			}
			w.emitTx(t, o)
			return
		default:
			w.undo(r, r.cone[at], &sequencer.Settle{})
		}
	}
}

func (w *twin) heldByOthers(r *twinRetraction, t *twinTx) (held bool) {
	for _, x := range t.past.Writes {
		w.others(t, x.Scope, func(u *twinTx, _ sequencer.Hold) {
			held = held || !u.undecided() && !slices.Contains(r.cone, u)
		})
	}
	return held
}

// follows: t read from u, or overwrote a scope of it.
func (w *twin) follows(t, u *twinTx) bool {
	if slices.Contains(t.past.From, u.id) {
		return true
	}
	for _, x := range u.past.Writes {
		for _, r := range t.past.Reads {
			if x.Scope.Overlaps(r.Scope) && r.View >= u.decision && !w.buried(u, x.Scope, r.View) {
				return true
			}
		}
		for _, y := range t.past.Writes {
			if x.Scope.Overlaps(y.Scope) && t.decision > u.decision && !ontoDelta(t, y.Scope, u, x.Scope) &&
				!w.buried(u, x.Scope, t.decision) {
				return true
			}
		}
	}
	return false
}

func (w *twin) startUndoing(r *twinRetraction) {
	r.cone = []*twinTx{r.root}
	for n := 0; n < len(r.cone); n++ {
		for _, t := range w.txs {
			if t.past != nil && t.coneOf == "" && !slices.Contains(r.cone, t) && w.follows(t, r.cone[n]) {
				r.cone = append(r.cone, t)
			}
		}
	}
	slices.SortFunc(r.cone, func(a, b *twinTx) int { return cmp.Compare(b.decision, a.decision) })
	w.retractions = slices.DeleteFunc(w.retractions, func(q *twinRetraction) bool {
		return slices.Contains(r.cone, q.root)
	})
	w.retractions = slices.Insert(w.retractions, 0, r)
	r.ground = map[sequencer.Scope]*twinGround{}
	var ids []sequencer.TxID
	for _, t := range r.cone {
		ids = append(ids, t.id)
		for _, x := range t.past.Writes {
			g := r.ground[x.Scope]
			if g == nil {
				g = &twinGround{writer: r.covered(x.Scope)}
				r.ground[x.Scope] = g
			}
			if x.Shard && x.Op == sequencer.OpSet && g.shard == nil {
				v := w.contentUnder(r, x.Scope)
				if w.rules.Logic > 3 && v.Seq > t.decision { // a tombstone has taken it away since
					g.kept = true
				} else {
					g.shard = v
				}
			}
		}
	}
	w.keepWriters(r)
	for _, t := range r.cone {
		t.coneOf = r.root.id
		if t.final() {
			t.phase = sequencer.PhaseRetracting
		}
		if w.sidecar(t.owner) == nil {
			t.owner = 0
			for _, s := range w.sidecars {
				if s.agent == t.agent {
					t.owner = s.incarnation
				}
			}
		}
	}
	a := r.root.answers[sequencer.IntentRetract]
	seq := w.emitTx(r.root, sequencer.Outcome{Kind: sequencer.OutcomeRetracting, Retraction: r.root.id, Cone: ids,
		Agent: r.root.agent, Incarnation: r.root.owner, Intent: idOf(sequencer.IntentRetract, r.root.id, a.N)})
	r.seq = cmp.Or(r.seq, seq)
	a.Seq = r.seq
	r.root.answers[sequencer.IntentRetract] = a
	for _, t := range r.cone {
		if t != r.root {
			w.emitTx(t, sequencer.Outcome{Kind: sequencer.OutcomeRetracting, Retraction: r.root.id, Agent: t.agent,
				Incarnation: t.owner})
		}
	}
	w.refuseUnder(r)
}

// covered is whom the oldest member that wrote at a scope wrote over.
func (r *twinRetraction) covered(scope sequencer.Scope) (last sequencer.Writer) {
	for i := len(r.cone) - 1; i >= 0; i-- {
		met := false
		for _, x := range r.cone[i].past.Writes {
			if x.Scope.Overlaps(scope) {
				met = true
				if x.Former.Seq > last.Seq {
					last = x.Former
				}
			}
		}
		if met {
			return last
		}
	}
	return last
}

// contentUnder is the last content of a shard whose writer stands.
func (w *twin) contentUnder(r *twinRetraction, scope sequencer.Scope) *sequencer.ShardVersion {
	for i := len(w.versions) - 1; i >= 0; i-- {
		v := w.versions[i]
		t := w.tx(v.Tx)
		gone := v.Tx != "" && t != nil && (slices.Contains(r.cone, t) || t.phase == sequencer.PhaseRetracted)
		if v.Scope == scope && !gone {
			return w.orTombstone(&v)
		}
	}
	return w.orTombstone(&sequencer.ShardVersion{Scope: scope, Unknown: true})
}

// refuseUnder aborts whom the retraction would undercut.
func (w *twin) refuseUnder(r *twinRetraction) {
	list := slices.Clone(w.txs)
	slices.SortStableFunc(list, func(a, b *twinTx) int { return cmp.Compare(a.epoch, b.epoch) })
	for _, t := range list {
		if !t.undecided() {
			continue
		}
		why := r.metBy(t)
		if why == nil && t.phase == sequencer.PhaseSealed {
			why = w.readBy(r, t)
		}
		if why = t.enforce(why); why != nil {
			w.abort(t, *why)
		}
	}
}

// metBy finds the smallest scope of those that t holds, claims or waits for which a member wrote, and the last one.
func (r *twinRetraction) metBy(t *twinTx) *twinFinding {
	holds := t.holds()
	slices.SortFunc(holds, func(a, b sequencer.Hold) int { return cmp.Compare(a.Scope, b.Scope) })
	for _, h := range holds {
		for _, m := range r.cone {
			if slices.ContainsFunc(m.past.Writes, func(x sequencer.PastWrite) bool {
				op := t.sealedOp(h.Scope)
				both := op != sequencer.OpSet && x.Scope == h.Scope && x.Op == op && !t.wasGranted(h.Scope)
				return x.Scope.Overlaps(h.Scope) && !both
			}) {
				return &twinFinding{code: sequencer.CodeCascade, scope: h.Scope,
					moved: sequencer.Writer{Seq: m.decision, Tx: m.id}}
			}
		}
	}
	return nil
}

// sawUndone: a read of the seal saw what m wrote and a retraction takes back, or took.
func (w *twin) sawUndone(t, m *twinTx) bool {
	return slices.ContainsFunc(t.seal.Reads, func(x sequencer.Read) bool {
		if x.View < m.decision || m.past.Undone != 0 && x.View >= m.past.Undone {
			return false
		}
		return slices.ContainsFunc(m.past.Writes, func(y sequencer.PastWrite) bool {
			return y.Scope.Overlaps(x.Scope) && !w.buried(m, y.Scope, x.View)
		})
	})
}

func (w *twin) readBy(r *twinRetraction, t *twinTx) *twinFinding {
	for _, m := range r.cone {
		if slices.Contains(t.restsOn, m.id) || w.sawUndone(t, m) {
			return &twinFinding{code: sequencer.CodeCascade, level: sequencer.A3, scope: w.met(t, m),
				moved: sequencer.Writer{Seq: m.decision, Tx: m.id}}
		}
	}
	return nil
}
