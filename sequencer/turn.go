package sequencer

import (
	"cmp"
	"slices"
)

// advanceCone gives the members of a running retraction their turns, the most recent first, and reports whether all of
// it is undone. A member that no sidecar has to compensate is settled in its turn by the fold.
func (f *Fold) advanceCone(r *retraction) bool {
	for {
		m := f.nextMember(r)
		switch {
		case m == nil:
			return true
		case r.Turn != 0, m.Phase != PhaseRetracting, f.heldOutside(m):
			// A turn runs, or this one's own settlement is to come, or another's: one step back at a time, and over nothing
			// live (holes 7b, 7c).
			f.nameTurn(r, m)
			return false
		case m.Past.Effects:
			r.Named = nil
			o := Outcome{Kind: OutcomeTurn, Agent: m.Agent, Incarnation: m.Owner, Retraction: r.Tx}
			if m.Owner == 0 && f.bounded() {
				r.Named = &Blocker{Tx: m.ID, Why: whyOrphan} // somebody has to adopt it first
				o.BlockedBy = []Blocker{*r.Named}
			}
			f.accountRetraction(r)
			// Its sidecar may compensate from this seq on, and not before: the order of the turns is what puts the right value
			// back (holes 7e).
			r.Turn = f.emitTx(m, o)
			return false
		}
		f.undo(m, r, &Settle{})
	}
}

// nameTurn says what a member's turn waits for, whenever that begins with something else than was said last: with a
// transaction outside the cone, or with an orphan, which somebody has to adopt before anything goes on.
func (f *Fold) nameTurn(r *retraction, m *tx) {
	if !f.bounded() {
		return
	}
	var blockers []Blocker
	switch {
	case r.Turn != 0 && m.Owner != 0:
		return // its owner is at it
	case r.Turn != 0, m.Phase != PhaseRetracting:
		blockers = []Blocker{{Tx: m.ID, Why: m.why("settlement")}}
	default:
		blockers = f.outside(m)
	}
	// Said once: a decision for each step that finds the same cause would flood the log.
	if len(blockers) == 0 || r.Named != nil && *r.Named == blockers[0] {
		return
	}
	first, named := blockers[0], r.Named
	// Without its name in a decision an orphan is not adopted, and the retraction never ends (holes 17).
	r.Named = &first
	f.accountRetraction(r)
	if named != nil && named.Tx == first.Tx && first.Why != whyOrphan {
		return // it was adopted, which is said already
	}
	f.emitTx(m, Outcome{Kind: OutcomeRetracting, Agent: m.Agent, Incarnation: m.Owner, Retraction: r.Tx,
		BlockedBy: blockers})
}

// outside lists the decided transactions outside the cone that hold what a member wrote, orphans first.
func (f *Fold) outside(m *tx) []Blocker {
	var out []Blocker
	for _, w := range m.Past.Writes {
		f.holds.visit(w.Scope, func(_ Scope, b *bound) bool {
			if !b.t.undecided() && b.t.Retraction != m.Retraction {
				out = append(out, blockerOf(b))
			}
			return true
		})
	}
	orphan := func(b Blocker) int {
		if b.Why == whyOrphan {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b Blocker) int {
		return cmp.Or(cmp.Compare(orphan(a), orphan(b)), compareBlockers(a, b))
	})
	out = slices.Compact(out)
	return out[:min(len(out), maxBlockers)]
}

// nextMember is the one whose turn it is, or comes next; nil: all had it. A member may be forgotten after its turn,
// and its name may come again from a sidecar that repeats names: that is another transaction, and not of the cone.
func (f *Fold) nextMember(r *retraction) *tx {
	for ; r.done < len(r.Cone); r.done++ {
		f.look(1)
		id := r.Cone[r.done]
		if m := f.txs[id]; m != nil && m.Retraction == r.Tx && m.Phase != PhaseRetracted {
			return m
		}
	}
	return nil
}

// heldOutside: a decided transaction outside the cone holds what a member wrote; its settlement comes first, else it
// would put back what the member wrote.
func (f *Fold) heldOutside(m *tx) (held bool) {
	for _, w := range m.Past.Writes {
		f.holds.visit(w.Scope, func(_ Scope, b *bound) bool {
			held = held || !b.t.undecided() && b.t.Retraction != m.Retraction
			return !held
		})
	}
	return held
}

// settleTurn takes the settlement of a member of a cone: its compensation, when its turn has come.
func (f *Fold) settleTurn(m *tx, in *Intent) {
	r := f.retractions[0]
	switch {
	case r.Turn == 0 || f.nextMember(r) != m:
		// A compensation before its turn is overwritten by one that undoes an older value later (holes 7e).
		f.refuse(in, m, finding{code: CodeNotDecided, detail: "the transaction's turn in the retraction has not come"})
	case m.Owner != in.Incarnation:
		// Two sidecars that compensate at once each put back what they know.
		f.refuse(in, m, finding{code: CodeLeaseExpired, detail: "the settlement has another owner, or none: adopt it first"})
	default:
		s, why := f.owned(m, in.Settle)
		if why.found() {
			// See owned: it would make residue of what is not the cone's.
			f.refuse(in, m, why)
			return
		}
		m.answer(in, f.undo(m, r, s))
	}
}

// undo settles a member's turn. It is a write of all that the member wrote: each scope goes back to the writer that
// stands, each shard to that one's content, as a new version. What could not be made clean is residue.
func (f *Fold) undo(m *tx, r *retraction, s *Settle) Seq {
	seq := f.seq + 1
	o := Outcome{Kind: OutcomeSettled, Final: true, Retraction: r.Tx}
	failed := f.unclean(s)
	unclean, nameless := failed.any, f.merging() && s.nameless()
	o.Writes = f.write(m, m.undoneScopes(s), func(scope Scope, former Writer) Writer {
		g := r.scope(scope)
		switch {
		case failed.at(scope), g != nil && g.Unknown, nameless && !m.wroteShard(scope):
			// What was to come back is not there: said as residue, else a reader would rest on it.
			return Writer{Seq: seq, Tx: m.ID, Residue: true}
		case f.sharedAt(m, scope):
			// Another one ran there too while the workspace observed, so what came back may be that one's (holes 16c).
			unclean = true
			return Writer{Seq: seq, Tx: m.ID, Residue: true}
		case former.Residue && !r.has(former.Tx):
			return former // of one that was aborted meanwhile
		case g != nil && g.Kept && former.Tx != "" && !r.has(former.Tx):
			return former // its delta came upon this one and stands
		case g != nil:
			return g.Writer
		case r.has(former.Tx):
			// Of another member, which has its own turn: nothing of the cone stands.
			return Writer{}
		}
		return former
	})
	for i := range m.Past.Writes {
		w := &m.Past.Writes[i]
		if g := r.scope(w.Scope); w.Op != OpSet {
			o.Shards = append(o.Shards, f.takeOut(m, w, seq))
		} else if w.Shard && g.Unknown {
			// No content is known to put back: the shard stays as it is, and is said to.
			unclean = true
		} else if w.Shard && g.Shard != nil {
			v := *g.Shard
			g.Shard = nil
			o.Shards = append(o.Shards, f.restored(&v))
			v.Seq, v.Tx = seq, g.Writer.Tx
			f.shards.put(v)
		}
	}
	if unclean {
		m.Unclean = true
		o.Residue = []TxID{m.ID}
	}
	for _, h := range f.writtenHolds(m) {
		f.release(m, h)
	}
	m.Phase, m.Past.Undone, r.Turn, r.Named = PhaseRetracted, seq, 0, nil
	f.emitTx(m, o)
	f.accountRetraction(r)
	f.account(m)
	return seq
}

// nameless: for some effect it is unknown whether it was put back, and where it is. So whatever the transaction wrote
// may be as it left it (holes 26).
func (s *Settle) nameless() bool {
	return slices.ContainsFunc(s.Effects, func(e Settled) bool {
		return e.Result == ResultUnresolved && len(e.Scopes) == 0
	})
}

// wroteShard: it wrote the content of the shard, which the fold itself puts back.
func (t *tx) wroteShard(s Scope) bool {
	return slices.ContainsFunc(t.Past.Writes, func(w PastWrite) bool { return w.Scope == s && w.Shard })
}

// undoneScopes are the scopes that a turn writes: what the member wrote, and what its compensation names besides.
func (t *tx) undoneScopes(s *Settle) []Scope {
	var out []Scope
	for _, w := range t.Past.Writes {
		out = append(out, w.Scope)
	}
	for _, e := range s.Effects {
		out = append(out, e.Scopes...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
