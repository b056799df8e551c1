package sequencer_test

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// unreadable: before logic 4 a seal could not say that shards are gone.
func (w *twin) unreadable(in *sequencer.Intent) bool {
	return in.Kind == sequencer.IntentSeal && w.rules.Logic < 4 &&
		slices.ContainsFunc(in.Seal.Shards, func(x sequencer.ShardWrite) bool { return x.Absent })
}

// badTombstone: the seal takes shards away and does something else too.
func badTombstone(s *sequencer.Seal, x *sequencer.ShardWrite) bool {
	if !x.Absent {
		return false
	}
	more := len(s.Shards) > 1 || len(s.Reads) > 0 || len(s.Effects) > 0 || len(s.ReadFrom) > 0 || len(s.Touches) > 0
	return more || len(x.Content) > 0 || x.Op != sequencer.OpSet || x.Expect != nil || x.Former != nil
}

// tombOver is the last tombstone over a shard.
func (w *twin) tombOver(scope sequencer.Scope) (last *sequencer.Tombstone) {
	for i := range w.tombs {
		if w.tombs[i].Scope.Covers(scope) {
			last = &w.tombs[i]
		}
	}
	return last
}

// buried: what m wrote at a scope was taken away before a later seq.
func (w *twin) buried(m *twinTx, at sequencer.Scope, before sequencer.Seq) bool {
	return m.past != nil && !m.past.Effects && at.Type() == "shard" &&
		slices.ContainsFunc(w.tombs, func(b sequencer.Tombstone) bool {
			return b.Seq > m.decision && b.Seq <= before && b.Scope.Covers(at)
		})
}

// orTombstone is a content, or that there is none, where it was taken away since.
func (w *twin) orTombstone(v *sequencer.ShardVersion) *sequencer.ShardVersion {
	if b := w.tombOver(v.Scope); b != nil && b.Seq > v.Seq {
		return &sequencer.ShardVersion{Scope: v.Scope, Seq: b.Seq, Tx: b.Tx, Absent: true}
	}
	return v
}

// forgetTombs drops old tombstones; a shard that was written behind one is known not to have been there.
func (w *twin) forgetTombs(keep sequencer.Seq) {
	for len(w.tombs) > 0 && w.tombs[0].Seq <= keep {
		b := w.tombs[0]
		w.tombs = w.tombs[1:]
		for i, v := range w.versions {
			later := w.versions[i+1:]
			same := func(u sequencer.ShardVersion) bool { return u.Scope == v.Scope }
			at := slices.IndexFunc(later, same)
			if v.Seq < b.Seq && b.Scope.Covers(v.Scope) && at >= 0 && later[at].Seq > keep {
				w.versions[i] = sequencer.ShardVersion{Scope: v.Scope, Seq: b.Seq, Tx: b.Tx, Absent: true}
			}
		}
	}
}

// takeAway makes a seal one that takes shards away, mostly as such a seal has to be.
func (h *history) takeAway(s *sequencer.Seal) {
	if !h.rarely(6) {
		*s = sequencer.Seal{Hook: s.Hook, VerdictTicks: s.VerdictTicks, Touches: s.Touches}
	}
	s.Shards = append(s.Shards, sequencer.ShardWrite{Absent: true,
		Scope: pick(&h.dice, sequencer.Scope("shard:/"), "shard:/", "shard:/s", "shard:/*/x")})
}
