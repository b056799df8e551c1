package processor

import (
	"cmp"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// A row of the frontier keeps some former contents of its shard. A retraction's settlement only names the decision
// that carries what it puts back, and hence.decisions is kept for a time: without them a shard that stands would lose
// its content with that decision. The bounds keep a row from growing by more than one inline content; they leave out
// the oldest, so that the same ones stay in whatever order moves come. Restored stays beside a content that is Held: a
// later retraction names that decision again. Near the bounds a table that is made again may hold what the first one
// did not, or the reverse.
const (
	formerMost  = 8
	formerBytes = 4 << 10 // of inline contents together; others are references
)

// encodeRow writes a row. One that is too large is written without its former contents: they are a help, and a row
// that cannot be written stops the partition.
func encodeRow(row *topology.FrontierRow) ([]byte, error) {
	b, err := topology.EncodeFrontierRow(row)
	if err != nil && len(row.Former) > 0 {
		row.Former = nil
		return topology.EncodeFrontierRow(row)
	}
	return b, err
}

// keepFormer puts what stands in a row among its former contents.
func keepFormer(row *topology.FrontierRow) {
	if s := row.Shard; s != nil && !s.Lacks() {
		addFormer(row, contentOf(s))
	}
}

func contentOf(s *topology.ShardRow) topology.FormerContent {
	return topology.FormerContent{Version: s.Version, Carrier: cmp.Or(s.Restored, s.Version), Type: s.Type,
		Content: s.Content, Ref: s.Ref}
}

// addFormer adds a content that is not there.
func addFormer(row *topology.FrontierRow, c topology.FormerContent) {
	if i, there := findFormer(row, c.Version); !there {
		row.Former = slices.Insert(row.Former, i, c)
	}
}

func findFormer(row *topology.FrontierRow, version sequencer.Seq) (int, bool) {
	return slices.BinarySearchFunc(row.Former, version, func(c topology.FormerContent, seq sequencer.Seq) int {
		return cmp.Compare(c.Version, seq)
	})
}

// trimFormer keeps the newest contents up to the first that does not fit: so the same ones stay in whatever order
// they came.
func trimFormer(row *topology.FrontierRow) {
	first, size := len(row.Former), 0
	for first > 0 && len(row.Former)-first < formerMost {
		if size += len(row.Former[first-1].Content); size > formerBytes {
			break
		}
		first--
	}
	if row.Former = slices.Delete(row.Former, 0, first); len(row.Former) == 0 {
		row.Former = nil
	}
}

// recall gives a shard the content that a retraction put back, if it is among some, and reports whether it was.
func recall(s *topology.ShardRow, among []topology.FormerContent) bool {
	if !s.Lacks() {
		return false
	}
	for i := range among {
		if c := &among[i]; c.Carrier == s.Restored {
			s.Type, s.Content, s.Ref, s.Held = c.Type, c.Content, c.Ref, true
			return true
		}
	}
	return false
}

// lateFormer gives a row what a late move wrote before that which stands: a content that may be put back, or was.
func lateFormer(row *topology.FrontierRow, m *topology.ScopeMove) (changed bool) {
	late := topology.ShardRow{Version: m.Seq, Type: m.Shard.Type, Content: m.Shard.Content, Ref: m.Shard.Ref,
		Restored: m.Shard.Restored}
	recall(&late, row.Former)
	if m.Shard.Absent || m.Seq == row.Shard.Version || late.Lacks() {
		return false
	}
	c := contentOf(&late)
	changed = recall(row.Shard, []topology.FormerContent{c})
	_, there := findFormer(row, m.Seq)
	addFormer(row, c)
	trimFormer(row)
	_, stays := findFormer(row, m.Seq)
	return changed || stays && !there
}
