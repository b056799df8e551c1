package topology

import (
	"cmp"

	"github.com/hence-dev/hence/sequencer"
)

// What a row keeps of a shard with deltas: with the content under them, of sequencer.MaxMerged at most, it is a
// record.
const (
	rowWrites      = 4 << 10   // entries
	rowWritesBytes = 320 << 10 // of their contents, but for the first
)

// Merges reports whether a write of a shard is to be folded with those before it: one that merges, or one over
// others that do. A row that is nil is of a shard that is not there.
func (s *ShardRow) Merges(w *sequencer.ShardWrite) bool {
	return w.Op != sequencer.OpSet || w.Removes != 0 || s != nil && len(s.Writes) > 0
}

// Merge is the row of a shard behind one more write, nil if the shard is not there then; a row that is nil is of one
// that was not there before. Of former contents it takes the one that a retraction puts back. A write may come behind
// later ones, and twice. The row itself is not used any more.
func (s *ShardRow) Merge(seq sequencer.Seq, w *sequencer.ShardWrite, former []FormerContent,
	load func(*sequencer.Ref) ([]byte, error)) *ShardRow {
	out := &ShardRow{Scope: w.Scope}
	if s != nil {
		out.Version, out.Writer, out.Count = s.Version, s.Writer, s.Count
	}
	out.Version = max(out.Version, seq)
	if w.Absent && (s == nil || seq >= s.Version) {
		return nil // nothing under it is taken out or put back any more
	}
	x := s.State()
	x.Late(seq, w)
	if missing := x.Missing(); missing != 0 {
		for i := range former {
			if c := &former[i]; c.Carrier == missing && !x.List[0].Folded {
				x.List[0] = sequencer.Standing{Seq: missing, Type: c.Type, Content: c.Content, Ref: c.Ref}
			}
		}
	}
	if x.Bound(rowWrites, rowWritesBytes, load) != nil && x.Bound(2*rowWrites, 2*rowWritesBytes, nil) != nil {
		// What the deltas stand on cannot be loaded, now or ever, and a row has a bound.
		x.List = []sequencer.Standing{{Seq: x.Last(), Missing: true, Folded: true}}
	}
	switch last := len(x.List) - 1; {
	case last < 0 || x.List[last].Absent:
		return nil
	case last == 0 && !x.Merges() && !x.List[0].Missing:
		one := &x.List[0]
		out.Type, out.Content, out.Ref = one.Type, one.Content, one.Ref
		if one.Seq != out.Version {
			out.Restored, out.Held = one.Seq, true
		}
	default:
		out.Writes = x.List
	}
	return out
}

// State is what is known of a shard's writes, for the next one; nil: the shard is not there.
func (s *ShardRow) State() sequencer.Writes {
	switch {
	case s == nil:
		return sequencer.Writes{}
	case len(s.Writes) > 0:
		return sequencer.Writes{Seq: s.Version, List: s.Writes}
	}
	return sequencer.Writes{Seq: s.Version, List: []sequencer.Standing{{Seq: cmp.Or(s.Restored, s.Version), Type: s.Type,
		Content: s.Content, Ref: s.Ref, Missing: s.Lacks()}}}
}
