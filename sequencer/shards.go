package sequencer

import (
	"cmp"
	"slices"
)

// shardLog keeps the contents of the shards that were written since the horizon, and of each what stood there at it.
type shardLog struct {
	of        map[Scope][]ShardVersion // by Seq
	order     []shardAt                // by seq: where trim looks next
	bytes     int                      // an estimate of what the entries keep
	forgotten Seq                      // a shard that is not in the log may have been written up to here
}

type shardAt struct {
	seq   Seq
	scope Scope
}

func newShardLog() shardLog { return shardLog{of: map[Scope][]ShardVersion{}} }

func (l *shardLog) put(v ShardVersion) {
	l.of[v.Scope] = append(l.of[v.Scope], v)
	l.order = append(l.order, shardAt{v.Seq, v.Scope})
	l.bytes += v.bytes()
}

func (v *ShardVersion) bytes() int {
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
		l.trimScope(l.order[n].scope, keep)
		n++
	}
	l.order = l.order[n:]
}

func (l *shardLog) trimScope(s Scope, keep Seq) {
	list := l.of[s]
	n := 0
	for n < len(list) && list[n].Seq <= keep {
		n++
	}
	if n == len(list) {
		if n > 0 {
			l.forgotten = max(l.forgotten, list[n-1].Seq)
		}
	} else if n > 0 {
		n-- // it stood there at the horizon
	}
	for i := range list[:n] {
		l.bytes -= list[i].bytes()
	}
	if n == len(list) {
		delete(l.of, s)
	} else if n > 0 {
		l.of[s] = slices.Clone(list[n:])
	}
}

// entries returns all contents by Seq, those of one seq by Scope.
func (l *shardLog) entries() []ShardVersion {
	var out []ShardVersion
	for _, list := range l.of {
		out = append(out, list...)
	}
	slices.SortFunc(out, func(a, b ShardVersion) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Scope, b.Scope))
	})
	return out
}

// under is what a shard held before the writes of those that are left out. It is unknown where the log does not say.
func (l *shardLog) under(s Scope, out func(TxID) bool) ShardVersion {
	list := l.of[s]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Tx == "" || !out(list[i].Tx) {
			return list[i]
		}
	}
	return ShardVersion{Scope: s, Unknown: true}
}

// keepShards notes the contents that a commit at the next seq writes, and before the first of a shard what it covers.
func (f *Fold) keepShards(t *tx, seq Seq) {
	if !f.retracts() {
		return
	}
	for i := range t.Seal.Shards {
		w := &t.Seal.Shards[i]
		if len(f.shards.of[w.Scope]) == 0 {
			f.shards.put(f.formerOf(t, w))
		}
		f.shards.put(ShardVersion{Scope: w.Scope, Seq: seq, Tx: t.ID, Type: w.Type, Content: w.Content, Ref: w.Ref})
	}
}

// formerOf is what stood in a shard that was not written since the horizon. The fold has forgotten it; the writer may
// say it, and is believed when nothing was written since its view.
func (f *Fold) formerOf(t *tx, w *ShardWrite) ShardVersion {
	v := ShardVersion{Scope: w.Scope}
	x := w.Former
	if x != nil && x.View >= f.floor {
		if _, _, _, moved := f.window.after(w.Scope, x.View); !moved {
			v.Seq, v.Type, v.Content, v.Ref = min(x.Version, f.keepFrom()), x.Type, x.Content, x.Ref
			v.Absent = x.Version == 0
			return v
		}
	}
	v.Absent = f.shards.forgotten == 0 || w.Expect != nil && w.Expect.Version == 0 && !t.Free
	v.Unknown = !v.Absent
	return v
}
