package api

import (
	"context"
	"fmt"
	"time"
)

// Counted is a shard as faces show it that name versions by a count: the first write makes version 0.
type Counted struct {
	Scope     string
	Seq       uint64 // of the decision that wrote it; zero: it is absent
	Version   uint64 // writes since the first one
	MediaType string
	Body      []byte
	Former    int    // older contents that are remembered here
	Owner     string // the holder of its token; empty: none

	// Parts gives a content that is not in Body, because it is too large to be held whole: Size bytes, the last of them
	// only once all are known to be what was written.
	Parts func(ctx context.Context, take func(part []byte) error) error
	Size  int64
}

// KeyedRead is one read that a commit names by its count.
type KeyedRead struct {
	Scope   string
	Version uint64
}

// KeyedCommit replaces the content of one shard, if it and what its reader was given are as they were.
type KeyedCommit struct {
	Reader  string // whose delivery log counts, too; empty: none
	Scope   string
	Version uint64
	Content []byte
	// MediaType makes the media type out of the one that stands.
	MediaType func(now string) string
	Reads     []KeyedRead // of one scope the last counts; they count before the delivery log
	Observe   bool        // reads that have moved refuse nothing
	Revive    bool        // a reader whose log has ended begins another
}

// KeyedDone is what became of a commit.
type KeyedDone struct {
	Version   uint64
	Checked   bool // it rests on reads, and none of them refused it
	Divergent bool // one of them had moved
}

// Registered counts the scopes of a registration by what became of them.
type Registered struct{ Fresh, Known, Missing int }

// ReaderLog is what a reader was given.
type ReaderLog struct {
	Reader string
	Given  []ReaderGiven
}

// ReaderGiven is one scope of it.
type ReaderGiven struct {
	Scope   string
	Version uint64
	AgeMs   int64
}

// Why a keyed request was refused.
const (
	KeyedExpired = "expired"  // the reader's log is not whole any more
	KeyedMissing = "missing"  // there is no such shard
	KeyedExists  = "exists"   // there is one already
	KeyedMoved   = "moved"    // the shard to write is at another version
	KeyedStale   = "stale"    // what was read is at another version
	KeyedUnknown = "unknown"  // the shard has never been at that version
	KeyedDropped = "dropped"  // that version is not remembered any more
	KeyedFull    = "too many" // the reader was given more than its log holds
	KeyedHeld    = "held"     // another name has the shard's token
)

// KeyedRefusal is why a keyed request was refused.
type KeyedRefusal struct {
	Why   string
	Scope string
	Was   uint64 // the version that was named
	Now   uint64 // the shard's

	Listed bool // it was read with all that a pattern covers, at no version of its own

	By    string    // who has the token
	Until time.Time // and until when at least
}

// Error says it on one line.
func (r *KeyedRefusal) Error() string {
	return fmt.Sprintf("%s: %s at version %d, named was %d", r.Scope, r.Why, r.Now, r.Was)
}
