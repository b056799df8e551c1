package api

import "context"

// Look is how a shard is looked at.
type Look struct {
	Binds   bool   // the agent reads it: the next seal of its conversation carries the read
	Version uint64 // a former version, which binds nothing; zero: the newest
}

// Content is one version of a shard with its bytes.
type Content struct {
	Scope     string
	Version   uint64 // zero: it does not exist
	View      uint64
	Writer    string
	MediaType string
	Body      []byte

	// Parts is set where the content is too large to be held whole: it gives Size bytes part by part, the last of them
	// only once all are known to be what was written. Body is nil then.
	Parts func(ctx context.Context, take func(part []byte) error) error
	Size  int64
}

// Put is one shard to write, in a transaction of one write.
type Put struct {
	Scope     string
	MediaType string
	Body      []byte
	Versions  []uint64 // one of these its version must be, zero: it is not there; nil: any
	Exists    bool     // it must be there, at whichever version
	Op        string   // append, add or union: Body is a delta; empty: it is the content
}
