package sequencer_test

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// sealedOp is how a sealed transaction changes exactly this shard.
func (t *twinTx) sealedOp(scope sequencer.Scope) sequencer.Op {
	if t.phase != sequencer.PhaseSealed {
		return sequencer.OpSet
	}
	return opIn(t.seal, scope)
}

func opIn(s *sequencer.Seal, scope sequencer.Scope) sequencer.Op {
	for _, x := range s.Shards {
		if x.Scope == scope {
			return x.Op
		}
	}
	return sequencer.OpSet
}

// pastOp is how a committed one changed it.
func (t *twinTx) pastOp(scope sequencer.Scope) sequencer.Op {
	if t.past != nil {
		for _, x := range t.past.Writes {
			if x.Scope == scope {
				return x.Op
			}
		}
	}
	return sequencer.OpSet
}

func (t *twinTx) wasGranted(scope sequencer.Scope) bool {
	return slices.Contains(t.grants, sequencer.Hold{Scope: scope, Access: sequencer.WriteAccess})
}

// goesWith: what the sealed t writes at a scope, and what the hold of u there is for, are deltas of one kind.
func (t *twinTx) goesWith(scope sequencer.Scope, u *twinTx, h sequencer.Hold) bool {
	op := t.sealedOp(scope)
	switch {
	case op == sequencer.OpSet || h.Scope != scope:
		return false
	case u.undecided():
		return h.Kind == sequencer.Claimed && u.sealedOp(scope) == op
	}
	return h.Kind == sequencer.Granted && !u.wasGranted(scope) && u.pastOp(scope) == op
}

// badDelta: the write is a delta that means nothing.
func badDelta(x *sequencer.ShardWrite) bool {
	switch {
	case x.Op == sequencer.OpSet:
		return false
	case x.Expect != nil, x.Ref != nil && x.Ref.Chunks > 0:
		return true
	case x.Op == sequencer.OpAdd:
		text := string(x.Content)
		return text != "1" && text != "2" // as the histories have them
	}
	return false
}

// badChain: no writer can have written the events that the write names.
func badChain(x *sequencer.ShardWrite) bool {
	r := x.Ref
	if r == nil || r.Chunks == 0 && r.Last == 0 {
		return false
	}
	full := int64(r.Chunks) * sequencer.ChunkBytes
	fits := r.Chunks > 1 && r.Size <= full && r.Size > full-sequencer.ChunkBytes
	return !fits || r.Offset < 0 || r.Offset+int64(r.Chunks) > r.Last+1
}

// runsAtDelta is the first shard of a delta that an effect is at.
func runsAtDelta(s *sequencer.Seal) sequencer.Scope {
	for _, e := range s.Effects {
		for _, scope := range e.Scopes {
			for _, x := range s.Shards {
				if e.Class != sequencer.ClassRead && x.Scope == scope && x.Op != sequencer.OpSet {
					return scope
				}
			}
		}
	}
	return ""
}

// ontoDelta: a delta came upon a delta: neither has read the other.
func ontoDelta(later *twinTx, scope sequencer.Scope, earlier *twinTx, at sequencer.Scope) bool {
	return scope == at && later.pastOp(scope) != sequencer.OpSet && earlier.pastOp(at) != sequencer.OpSet
}

// lastStanding is the last content or delta of a shard that no retraction takes back, has taken back or is about to.
func (w *twin) lastStanding(scope sequencer.Scope, gone func(*twinTx) bool) *sequencer.ShardVersion {
	for i := len(w.versions) - 1; i >= 0; i-- {
		v := w.versions[i]
		if t := w.tx(v.Tx); v.Scope == scope && (v.Tx == "" || t == nil || !gone(t)) {
			return w.orTombstone(&v)
		}
	}
	return w.orTombstone(&sequencer.ShardVersion{Scope: scope, Unknown: true})
}

// keepWriters: where the cone has deltas, the writer is that of the last write that stands.
func (w *twin) keepWriters(r *twinRetraction) {
	gone := func(t *twinTx) bool { return slices.Contains(r.cone, t) || t.phase == sequencer.PhaseRetracted }
	for _, t := range r.cone {
		for _, x := range t.past.Writes {
			g := r.ground[x.Scope]
			if g.kept = g.kept || x.Op != sequencer.OpSet; !g.kept {
				continue
			}
			v := w.lastStanding(x.Scope, gone)
			u := w.tx(g.writer.Tx)
			switch {
			case v.Tx != "":
				g.writer = sequencer.Writer{Seq: v.Seq, Tx: v.Tx}
			case u != nil && gone(u):
				g.writer = sequencer.Writer{}
			}
		}
	}
}

// takeOut takes the delta of a member out of a shard.
func (w *twin) takeOut(t *twinTx, x sequencer.PastWrite) sequencer.ShardWrite {
	v := *w.lastStanding(x.Scope, func(t *twinTx) bool { return t.coneOf != "" })
	if !v.Unknown {
		v.Seq = w.seq + 1
		w.versions = append(w.versions, v)
	}
	return sequencer.ShardWrite{Scope: x.Scope, Op: x.Op, Removes: t.decision}
}

// asRead is a seal as the workspace's logic reads it: before logic 4 there are no deltas.
func (w *twin) asRead(s *sequencer.Seal) *sequencer.Seal {
	if w.rules.Logic > 3 {
		return s
	}
	out := *s
	out.Shards = slices.Clone(s.Shards)
	for i := range out.Shards {
		out.Shards[i].Op = sequencer.OpSet
	}
	out.Effects = slices.Clone(s.Effects)
	for i := range out.Effects {
		out.Effects[i].Absent, out.Effects[i].Approve, out.Effects[i].Args = false, false, sequencer.Hash{}
	}
	return &out
}
