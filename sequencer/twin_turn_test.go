package sequencer_test

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// settleTurn is the settlement of a member of a running retraction.
func (w *twin) settleTurn(t *twinTx, in *sequencer.Intent) {
	r := w.retractions[0]
	at := slices.IndexFunc(r.cone, func(t *twinTx) bool { return t.phase != sequencer.PhaseRetracted })
	switch {
	case !r.turn || r.cone[at] != t:
		w.refuseCode(t, sequencer.CodeNotDecided)
	case t.owner != in.Incarnation:
		w.refuseCode(t, sequencer.CodeLeaseExpired)
	default:
		s, refused := w.owned(t, in.Settle)
		if refused != "" {
			w.refuse(t, twinFinding{code: sequencer.CodeWrongScopes, scope: refused})
			return
		}
		w.answer(t, w.undo(r, t, s))
	}
}

// undo settles a member's turn.
func (w *twin) undo(r *twinRetraction, t *twinTx, s *sequencer.Settle) sequencer.Seq {
	o := sequencer.Outcome{Kind: sequencer.OutcomeSettled, Final: true, Retraction: r.root.id}
	var scopes, dirty []sequencer.Scope
	for _, x := range t.past.Writes {
		scopes = append(scopes, x.Scope)
	}
	for _, e := range s.Effects {
		scopes = append(scopes, e.Scopes...)
		if e.Result != sequencer.ResultClean {
			o.Residue = []sequencer.TxID{t.id}
			dirty = append(dirty, e.Scopes...)
		}
	}
	slices.Sort(scopes)
	seq := w.seq + 1
	member := func(id sequencer.TxID) bool {
		return slices.ContainsFunc(r.cone, func(t *twinTx) bool { return t.id == id })
	}
	o.Writes = w.write(t, slices.Compact(scopes), func(scope sequencer.Scope, former sequencer.Writer) sequencer.Writer {
		g := r.ground[scope]
		switch {
		case w.rules.Logic > 3 && namesNothing(s) && !isShardOf(t, scope),
			slices.ContainsFunc(dirty, scope.Overlaps), g != nil && g.shard != nil && g.shard.Unknown:
			return sequencer.Writer{Seq: seq, Tx: t.id, Residue: true}
		case w.doubtful(t, scope):
			o.Residue = []sequencer.TxID{t.id}
			return sequencer.Writer{Seq: seq, Tx: t.id, Residue: true}
		case former.Residue && !member(former.Tx):
			return former
		case g != nil && g.kept && former.Tx != "" && !member(former.Tx):
			return former
		case g != nil:
			return g.writer
		case member(former.Tx):
			return sequencer.Writer{}
		}
		return former
	})
	for _, x := range t.past.Writes {
		g := r.ground[x.Scope]
		switch {
		case x.Op != sequencer.OpSet:
			o.Shards = append(o.Shards, w.takeOut(t, x))
		case !x.Shard || g.shard == nil:
		case g.shard.Unknown:
			o.Residue = []sequencer.TxID{t.id}
		default:
			v := *g.shard
			o.Shards = append(o.Shards, sequencer.ShardWrite{Scope: v.Scope, Type: v.Type, Content: v.Content, Ref: v.Ref,
				Absent: v.Absent, Restored: v.From})
			v.Seq, v.Tx = seq, g.writer.Tx
			w.versions = append(w.versions, v)
			g.shard = nil
		}
	}
	t.phase, t.past.Undone, r.turn = sequencer.PhaseRetracted, seq, false
	r.named = sequencer.Blocker{}
	return w.emitTx(t, o)
}

// keepPast notes what a retraction may ask of a transaction that commits; the window is as it was before.
func (w *twin) keepPast(t *twinTx) {
	if !w.retracts() {
		return
	}
	if len(t.seal.Shards) == 1 && t.seal.Shards[0].Absent {
		w.tombs = append(w.tombs, sequencer.Tombstone{Scope: t.seal.Shards[0].Scope, Seq: w.seq + 1, Tx: t.id})
		return
	}
	t.past = &sequencer.Past{From: t.seal.ReadFrom}
	for _, r := range t.seal.Reads {
		t.past.Reads = append(t.past.Reads, sequencer.PastRead{Scope: r.Scope, View: r.View})
	}
	for _, e := range t.seal.Effects {
		t.past.Effects = t.past.Effects || e.Class != sequencer.ClassRead
	}
	for _, x := range t.seal.Shards {
		if !slices.ContainsFunc(w.versions, func(v sequencer.ShardVersion) bool { return v.Scope == x.Scope }) {
			w.versions = append(w.versions, w.before(t, x))
		}
		v := sequencer.ShardVersion{Scope: x.Scope, Seq: w.seq + 1, Tx: t.id, Type: x.Type, Content: x.Content, Ref: x.Ref}
		if w.bounded() {
			v = sequencer.ShardVersion{Scope: x.Scope, Seq: w.seq + 1, Tx: t.id, From: w.seq + 1}
		}
		w.versions = append(w.versions, v)
	}
	t.commit = w.time
}

// before is what stood in a shard of which no content is kept.
func (w *twin) before(t *twinTx, x sequencer.ShardWrite) sequencer.ShardVersion {
	v := sequencer.ShardVersion{Scope: x.Scope}
	if f := x.Former; f != nil && f.View >= w.floor && w.lastWrite(x.Scope).Seq <= f.View {
		v.Seq, v.Absent = min(f.Version, w.keepFrom()), f.Version == 0
		if !w.bounded() {
			v.Type, v.Content, v.Ref = f.Type, f.Content, f.Ref
		} else if v.From = f.Restored; v.From == 0 {
			v.From = f.Version
		}
		return v
	}
	expected := x.Expect != nil && x.Expect.Version == 0 && !t.free
	v.Absent = w.unversioned == 0 || expected || w.tombOver(x.Scope) != nil
	v.Unknown = !v.Absent
	return v
}

// noteWrites adds what was written first by these.
func (t *twinTx) noteWrites(list []sequencer.Write, shards []sequencer.Scope) {
	if t.past == nil {
		return
	}
	for _, x := range list {
		if !slices.ContainsFunc(t.past.Writes, func(y sequencer.PastWrite) bool { return y.Scope == x.Scope }) {
			t.past.Writes = append(t.past.Writes, sequencer.PastWrite{Scope: x.Scope, Former: x.Former,
				Shard: slices.Contains(shards, x.Scope)})
		}
	}
}

// keepFrom is the horizon, or where a queued retraction needs what came after it.
func (w *twin) keepFrom() sequencer.Seq {
	keep := w.horizon
	for _, r := range w.retractions {
		if r.cone == nil {
			keep = min(keep, r.root.decision-1)
		}
	}
	return keep
}

// forgetContents drops the contents that no retraction can restore, and the pasts that none can ask for.
func (w *twin) forgetContents(keep sequencer.Seq) {
	w.forgetTombs(keep)
	var kept []sequencer.ShardVersion
	for i, v := range w.versions {
		later := slices.ContainsFunc(w.versions[i+1:], func(u sequencer.ShardVersion) bool { return u.Scope == v.Scope })
		covered := slices.ContainsFunc(w.versions[i+1:], func(u sequencer.ShardVersion) bool {
			return u.Scope == v.Scope && u.Seq <= keep
		})
		switch {
		case v.Seq > keep, later && !covered:
			kept = append(kept, v)
		case !later:
			w.unversioned = max(w.unversioned, v.Seq)
		}
	}
	w.versions = kept
	for _, t := range w.txs {
		if t.past != nil && t.coneOf == "" && t.decision <= keep {
			t.past = nil
		}
	}
}

// namesNothing: an effect is unresolved and names no scope.
func namesNothing(s *sequencer.Settle) bool {
	for _, e := range s.Effects {
		if e.Result == sequencer.ResultUnresolved && len(e.Scopes) == 0 {
			return true
		}
	}
	return false
}

// isShardOf: the transaction wrote the content of this shard.
func isShardOf(t *twinTx, scope sequencer.Scope) bool {
	for _, x := range t.past.Writes {
		if x.Scope == scope && x.Shard {
			return true
		}
	}
	return false
}
