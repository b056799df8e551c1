package gate

import "github.com/hence-dev/hence/sequencer"

// ShardAccess is what a call of a shard tool reads or writes.
type ShardAccess struct {
	Scope     sequencer.Scope
	Write     bool   // Content is written there; else the shard is read
	Content   []byte // of a write
	MediaType string // of a write
}

// ShardTool is an adapter whose calls are reads and writes of the transaction itself. The transaction makes them; the
// gate never does, so there is nothing to release, to undo or to look up.
type ShardTool interface {
	// Shard says what a call reads or writes, or why its arguments name no shard: ErrNotSent.
	Shard(c Call) (ShardAccess, error)
}
