package sequencer

import (
	"cmp"
	"slices"
)

// shardLog keeps which contents the shards had that were written since the horizon, and what each held at it.
// Since logic 3 these are references: the log has a content for as long as its decision, and a state record has not.
type shardLog struct {
	of        map[Scope]*shardPast // Invariant: none is empty
	order     []shardAt            // by seq: where trim looks next
	bytes     int                  // an estimate of what the entries keep. Invariant: the sum over all lists
	forgotten Seq                  // a shard that is not in the log may have been written up to here
}

// shardPast is the contents of one shard. Once it is empty the log no longer has it, and it stays empty.
type shardPast struct {
	scope Scope
	list  []ShardVersion  // by Seq. Invariant: the first is what stood at the horizon, as far as that is known
	room  [2]ShardVersion // of list, while it has no more: one content, and what stood there before it
}

type shardAt struct {
	seq   Seq
	shard *shardPast
}

func newShardLog() shardLog { return shardLog{of: map[Scope]*shardPast{}} }

func (l *shardLog) put(v ShardVersion) { l.putInto(l.of[v.Scope], v) }

// putInto adds a content to those of its shard; nil: it has none yet.
func (l *shardLog) putInto(p *shardPast, v ShardVersion) *shardPast {
	if p == nil {
		p = &shardPast{scope: v.Scope}
		p.list = p.room[:0]
		l.of[v.Scope] = p
	}
	p.list = append(p.list, v)
	l.order = append(l.order, shardAt{v.Seq, p})
	l.bytes += v.bytes()
	return p
}

func (v *ShardVersion) bytes() int {
	if v.From != 0 { // there is no content here
		return 32 + len(v.Scope) + len(v.Tx)
	}
	n := 48 + len(v.Scope) + len(v.Tx) + len(v.Type) + len(v.Content)
	if v.Ref != nil {
		n += 56
	}
	return n
}

// trim drops what lies at or below a seq, but for the last content of a shard that was written after it.
func (l *shardLog) trim(keep Seq) {
	n := 0
	for n < len(l.order) && l.order[n].seq <= keep {
		l.trimShard(l.order[n].shard, keep)
		n++
	}
	l.order = l.order[n:]
}

func (l *shardLog) trimShard(p *shardPast, keep Seq) {
	n := 0
	for n < len(p.list) && p.list[n].Seq <= keep {
		n++
	}
	switch {
	case n == 0:
		return
	case n < len(p.list):
		n-- // it stood there at the horizon
	default:
		l.forgotten = max(l.forgotten, p.list[n-1].Seq)
		delete(l.of, p.scope)
	}
	for i := range p.list[:n] {
		l.bytes -= p.list[i].bytes()
	}
	if len(p.list) > shortList {
		clear(p.list[:n]) // contents are let go
		p.list = p.list[n:]
	} else {
		p.list = slices.Delete(p.list, 0, n) // keeps its room
	}
}

// shortList is how many contents of a shard are moved in place rather than reallocated.
const shortList = 8

// entries returns all contents by Seq, those of one seq by Scope.
func (l *shardLog) entries() []ShardVersion {
	var out []ShardVersion
	for _, p := range l.of {
		out = append(out, p.list...)
	}
	slices.SortStableFunc(out, func(a, b ShardVersion) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Scope, b.Scope))
	})
	return out
}

// under is what a shard held before the writes of those that are left out. It is unknown where the log does not say.
func (l *shardLog) under(s Scope, out func(TxID) bool) ShardVersion {
	if p := l.of[s]; p != nil {
		for i := len(p.list) - 1; i >= 0; i-- {
			if v := &p.list[i]; v.Tx == "" || !out(v.Tx) {
				return *v
			}
		}
	}
	return ShardVersion{Scope: s, Unknown: true}
}

// keepShards notes the contents that a commit at the next seq writes, and before the first of a shard what it covers.
func (f *Fold) keepShards(t *tx, seq Seq) {
	if !f.retracts() {
		return
	}
	if w := t.Seal.tombstone(); w != nil {
		f.bury(t, w, seq)
		return
	}
	for i := range t.Seal.Shards {
		w := &t.Seal.Shards[i]
		p := f.shards.of[w.Scope]
		if p == nil {
			// What stood there must be known before it is written over: else the first writer since the horizon cannot be
			// retracted.
			p = f.shards.putInto(nil, f.formerOf(t, w))
		}
		v := ShardVersion{Scope: w.Scope, Seq: seq, Tx: t.ID}
		if f.bounded() {
			v.From = seq
		} else {
			v.Type, v.Content, v.Ref = w.Type, w.Content, w.Ref
		}
		f.shards.putInto(p, v)
	}
}

// restored is the write of a turn's outcome that puts a version of a shard back.
func (f *Fold) restored(v *ShardVersion) ShardWrite {
	return ShardWrite{Scope: v.Scope, Type: v.Type, Content: v.Content, Ref: v.Ref, Absent: v.Absent, Restored: v.From}
}

// formerOf is what stood in a shard that was not written since the horizon. The fold has forgotten it; the writer may
// say it, and is believed when nothing was written since its view. Without that a retraction leaves the shard as it is
// and says so. Since logic 3 only the seq of the carrying decision is kept, the first one's also where it was restored
// before: the table of scopes recalls the content from the few that it keeps, and else views read it from the log.
func (f *Fold) formerOf(t *tx, w *ShardWrite) ShardVersion {
	v := ShardVersion{Scope: w.Scope}
	x := w.Former
	if x != nil && x.View >= f.floor {
		// Believed only where no write came between: else a retraction would bring back what was overwritten already.
		if _, _, _, moved := f.window.after(w.Scope, x.View); !moved {
			v.Seq, v.Absent = min(x.Version, f.keepFrom()), x.Version == 0
			if !f.bounded() {
				v.Type, v.Content, v.Ref = x.Type, x.Content, x.Ref
			} else if !v.Absent {
				v.From = cmp.Or(x.Restored, x.Version)
			}
			return v
		}
	}
	v.Absent = f.shards.forgotten == 0 || w.Expect != nil && w.Expect.Version == 0 && !t.Free ||
		f.tombOver(w.Scope) != nil
	v.Unknown = !v.Absent
	return v
}
