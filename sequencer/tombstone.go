package sequencer

import "slices"

// A tombstone, since logic 4, is a commit whose only write says that there is no shard at or below a scope any more,
// however many there are: a reset in one decision. Seqs and the chain go on. It cannot be taken back, for what it took
// away is not kept; and what stood before it is not brought back by a retraction of its writer.

// Tombstone is one that was committed above the horizon of what is remembered.
type Tombstone struct {
	Scope Scope // may be a pattern
	Seq   Seq
	Tx    TxID
}

// tombstone is the only write of a seal that takes shards away; nil: it has none.
func (s *Seal) tombstone() *ShardWrite {
	if len(s.Shards) == 1 && s.Shards[0].Absent {
		return &s.Shards[0]
	}
	return nil
}

// badTombstone says what is wrong with a seal that takes shards away; empty: nothing.
func (s *Seal) badTombstone(w *ShardWrite) string {
	switch {
	case len(s.Shards) > 1 || len(s.Reads)+len(s.Effects)+len(s.ReadFrom)+len(s.Touches) > 0:
		// Nothing is kept of it for a retraction: what it had read or run beside could not be taken back with the others.
		return "what takes shards away is all of its seal"
	case len(w.Content) > 0 || w.Ref != nil || w.Type != "" || w.Op != OpSet || w.Expect != nil || w.Former != nil:
		// It is of many shards: none of these says anything of all of them.
		return "what takes shards away has no content, op, expected version or former content"
	}
	return ""
}

// bury notes a tombstone that commits at a seq.
func (f *Fold) bury(t *tx, w *ShardWrite, seq Seq) {
	b := Tombstone{w.Scope, seq, t.ID}
	f.tombs = append(f.tombs, b)
	f.tombBytes += b.bytes()
}

func (b *Tombstone) bytes() int { return 24 + len(b.Scope) + len(b.Tx) }

// tombOver returns the last tombstone over a shard, or nil.
func (f *Fold) tombOver(s Scope) *Tombstone {
	for i := len(f.tombs) - 1; i >= 0; i-- {
		f.look(1)
		if f.tombs[i].Scope.Covers(s) {
			return &f.tombs[i]
		}
	}
	return nil
}

// buried: between what a transaction wrote at a scope and a later position there is a tombstone over it. What has
// effects is taken for not buried: they lie outside of what a tombstone takes away.
func (f *Fold) buried(m *tx, at Scope, upTo Seq) bool {
	if len(f.tombs) == 0 || m.Past == nil || m.Past.Effects || !at.IsShard() {
		return false
	}
	first, _ := slices.BinarySearchFunc(f.tombs, m.Decision+1, func(b Tombstone, seq Seq) int {
		if b.Seq < seq {
			return -1
		}
		return 1
	})
	for _, b := range f.tombs[first:] {
		f.look(1)
		if b.Seq > upTo {
			return false
		}
		if b.Scope.Covers(at) {
			return true
		}
	}
	return false
}

// contentUnder is what a shard held before the writes of those that are left out; nothing, where a tombstone is over
// what stands.
func (f *Fold) contentUnder(s Scope, out func(TxID) bool) ShardVersion {
	v := f.shards.under(s, out)
	if b := f.tombOver(s); b != nil && b.Seq > v.Seq {
		return ShardVersion{Scope: s, Seq: b.Seq, Tx: b.Tx, Absent: true}
	}
	return v
}

// trimTombs drops the tombstones at or below a seq. A shard that was written since goes on to be known as one that was
// not there.
func (f *Fold) trimTombs(keep Seq) {
	for len(f.tombs) > 0 && f.tombs[0].Seq <= keep {
		b := f.tombs[0]
		f.tombs = f.tombs[1:]
		f.tombBytes -= b.bytes()
		f.look(len(f.shards.of))
		for _, p := range f.shards.of {
			n := 0
			for n < len(p.list) && p.list[n].Seq <= keep {
				n++
			}
			if n == 0 || n == len(p.list) || p.list[n-1].Seq >= b.Seq || !b.Scope.Covers(p.scope) {
				continue // it is forgotten now, or was written between the two
			}
			v := &p.list[n-1]
			f.shards.bytes -= v.bytes()
			*v = ShardVersion{Scope: p.scope, Seq: b.Seq, Tx: b.Tx, Absent: true}
			f.shards.bytes += v.bytes()
		}
	}
}
