package topology

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// WriteCount is how often a shard was written since it was last taken away. All who count the same decisions have the
// same number, in whatever order the decisions come and however often: so it names a version alike everywhere.
type WriteCount struct {
	Writes uint64
	// Counted tells what is counted. Empty: nothing is known. The first entry stands for all that was decided up to it;
	// the others, in order, for one write each that came before some older decision.
	Counted []sequencer.Seq
}

// Known reports whether anything was counted. A row that an older release has written says nothing.
func (c *WriteCount) Known() bool { return len(c.Counted) > 0 }

// says reports whether there is anything to write down.
func (c *WriteCount) says() bool { return c.Known() || c.Writes != 0 }

// Add counts a write, or, absent, the decision that took the shard away, and reports whether it was new. All decisions
// up to whole are counted.
func (c *WriteCount) Add(seq, whole sequencer.Seq, absent bool) (fresh bool) {
	if !c.Known() {
		c.Counted = []sequencer.Seq{0}
	}
	at, there := slices.BinarySearch(c.Counted, seq)
	if at == 0 || there { // a second copy, or older than what took the shard away
		return false
	}
	if absent {
		c.Counted = append([]sequencer.Seq{seq}, c.Counted[at:]...)
		c.Writes = uint64(len(c.Counted) - 1)
	} else {
		c.Counted = slices.Insert(c.Counted, at, seq)
		c.Writes++
	}
	c.through(whole)
	return true
}

// through lets the first entry stand for all that was decided up to a seq, and for the write behind it.
func (c *WriteCount) through(whole sequencer.Seq) {
	whole = max(whole, c.Counted[0])
	at, there := slices.BinarySearch(c.Counted, whole+1)
	if there {
		whole, at = whole+1, at+1
	}
	c.Counted = slices.Delete(c.Counted, 1, at)
	c.Counted[0] = whole
}

// Clone is a copy that shares nothing.
func (c *WriteCount) Clone() WriteCount { return WriteCount{c.Writes, slices.Clone(c.Counted)} }

// CountFrom is the count of a shard that an older release has written, and did not count: its version is the first.
func CountFrom(version sequencer.Seq) WriteCount { return WriteCount{1, []sequencer.Seq{version}} }
