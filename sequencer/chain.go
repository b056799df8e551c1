package sequencer

// Large contents, since logic 4. What does not fit into one event is a chain of them, and the seal names it only once
// each event is acknowledged: so a decision that is there has a content that was whole. The fold sees the name alone.

// Bounds of a content.
const (
	ChunkBytes = 256 << 10 // that one event of a chain has; the last one has what is left
	MaxContent = 16 << 20  // that the rules may allow
)

// ChunksOf is how many events a content of so many bytes is kept in, where it is a chain.
func ChunksOf(size int64) uint32 { return uint32((size + ChunkBytes - 1) / ChunkBytes) }

// Chains reports whether a content may be a chain.
func (r *Rules) Chains() bool { return r.Logic >= 4 }

// badChain says what is wrong with a chain; empty: nothing, or the content is none.
func (w *ShardWrite) badChain() string {
	r := w.Ref
	switch {
	case r == nil || r.Chunks == 0 && r.Last == 0:
		return ""
	case r.Size <= ChunkBytes || r.Chunks != ChunksOf(r.Size):
		// Readers count the events: with another number they would never have all, or leave some out.
		return "a chain has as many events as its size takes"
	case r.Offset < 0 || r.Last-r.Offset < int64(r.Chunks)-1:
		// Readers read from the first to the last: there would be no place for those between.
		return "a chain ends before all of its events"
	}
	return ""
}
