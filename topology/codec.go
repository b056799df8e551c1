package topology

import "github.com/hence-dev/hence/sequencer"

// formatVersion is the format that every MessagePack record is written in; see wire.go for what may change under it.
const formatVersion = 1

func recordCodec[T any](record string, bufferBytes int, walk func(*walker, *T)) codec[T] {
	return codec[T]{record: record, version: formatVersion, bufferBytes: bufferBytes, maxBytes: MaxRecordBytes,
		maxItems: maxListItems, maxText: maxTextBytes, walk: walk}
}

// inputCodec is for what sidecars write: shorter texts, so that what is decided about them can always be written.
func inputCodec[T any](record string, bufferBytes int, walk func(*walker, *T)) codec[T] {
	c := recordCodec(record, bufferBytes, walk)
	c.maxText = maxNameBytes
	return c
}

func replyCodec[T any](record string, walk func(*walker, *T)) codec[T] {
	return codec[T]{record: record, version: formatVersion, bufferBytes: 16 << 10, maxBytes: MaxSnapshotBytes,
		maxItems: MaxSnapshotBytes / shardRowBytes, maxText: maxTextBytes, walk: walk}
}

// EncodeIntent writes a record of hence.intents. It fails when a text is not UTF-8 or over 4 KiB, or the record over
// MaxRecordBytes; the same holds for every encoder here, with texts of 64 KiB for all but intents and events.
func EncodeIntent(v *sequencer.Intent) ([]byte, error) {
	return inputCodec("intent", 512, walkIntent).encode(v)
}

// DecodeIntent reads a record of hence.intents. It fails with ErrMalformed or ErrForeignVersion; the same holds for
// every decoder here. What it returns shares no memory with b; empty lists are nil.
func DecodeIntent(b []byte) (*sequencer.Intent, error) {
	return inputCodec("intent", 0, walkIntent).decode(b)
}

// EncodeOutcome writes a decision as it travels on NATS.
func EncodeOutcome(v *sequencer.Outcome) ([]byte, error) {
	return recordCodec("outcome", 512, walkOutcome).encode(v)
}

// DecodeOutcome reads a decision as it travels on NATS.
func DecodeOutcome(b []byte) (*sequencer.Outcome, error) {
	return recordCodec("outcome", 0, walkOutcome).decode(b)
}

// EncodeReplica writes a row of the sequencer's table.
func EncodeReplica(v *sequencer.ReplicaState) ([]byte, error) {
	return recordCodec("replica", 8<<10, walkReplica).encode(v)
}

// DecodeReplica reads a row of the sequencer's table.
func DecodeReplica(b []byte) (*sequencer.ReplicaState, error) {
	return recordCodec("replica", 0, walkReplica).decode(b)
}

// EncodeEvent writes a record of hence.events.
func EncodeEvent(v *Event) ([]byte, error) {
	return inputCodec("event", 256+len(v.Content), walkEvent).encode(v)
}

// DecodeEvent reads a record of hence.events.
func DecodeEvent(b []byte) (*Event, error) {
	return inputCodec("event", 0, walkEvent).decode(b)
}

// EncodeScopeMove writes a record of hence.scopes, as processors of former releases do.
func EncodeScopeMove(v *ScopeMove) ([]byte, error) {
	return recordCodec("scope move", 256, walkScopeMove).encode(v)
}

// DecodeScopeMove reads a record of hence.scopes, which processors of former releases wrote.
func DecodeScopeMove(b []byte) (*ScopeMove, error) {
	return recordCodec("scope move", 0, walkScopeMove).decode(b)
}

// EncodeFrontierRow writes a row of the frontier table.
func EncodeFrontierRow(v *FrontierRow) ([]byte, error) {
	return recordCodec("frontier row", 256, walkFrontierRow).encode(v)
}

// DecodeFrontierRow reads a row of the frontier table.
func DecodeFrontierRow(b []byte) (*FrontierRow, error) {
	return recordCodec("frontier row", 0, walkFrontierRow).decode(b)
}

// EncodeClosureRow writes a row of the closure table.
func EncodeClosureRow(v *ClosureRow) ([]byte, error) {
	return recordCodec("closure row", 256, walkClosureRow).encode(v)
}

// DecodeClosureRow reads a row of the closure table.
func DecodeClosureRow(b []byte) (*ClosureRow, error) {
	return recordCodec("closure row", 0, walkClosureRow).decode(b)
}

// EncodeClosure writes a closure as a request for it is answered.
func EncodeClosure(v *Closure) ([]byte, error) { return replyCodec("closure", walkClosure).encode(v) }

// DecodeClosure reads the answer to a request for a closure.
func DecodeClosure(b []byte) (*Closure, error) { return replyCodec("closure", walkClosure).decode(b) }

// EncodeSnapshot writes a snapshot. It may be as large as MaxSnapshotBytes, which no broker takes in one message.
func EncodeSnapshot(v *Snapshot) ([]byte, error) {
	return replyCodec("snapshot", walkSnapshot).encode(v)
}

// DecodeSnapshot reads a snapshot.
func DecodeSnapshot(b []byte) (*Snapshot, error) {
	return replyCodec("snapshot", walkSnapshot).decode(b)
}
