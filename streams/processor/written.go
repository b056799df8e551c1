package processor

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// What is kept of the decisions that this process wrote.
const (
	writtenMost  = 1024
	writtenBytes = 4 << 20 // of both forms together
)

// writtenDecisions are the decisions that this process wrote a moment ago, in both of their forms. Closure and
// frontier read them from hence.decisions: where a record is byte for byte what was written, the MessagePack of NATS
// says the same in a seventh of the time that its JSON takes, and once for both.
type writtenDecisions struct {
	seed maphash.Seed

	mu    sync.Mutex
	of    map[uint64]*writtenDecision // by the hash of the CloudEvent
	order []uint64                    // Invariant: the keys of of, as they came
	bytes int
}

type writtenDecision struct {
	event  []byte
	size   int // of both forms
	decode func() (*sequencer.Outcome, error)
}

func newWrittenDecisions() *writtenDecisions {
	return &writtenDecisions{seed: maphash.MakeSeed(), of: make(map[uint64]*writtenDecision)}
}

// add keeps a decision in place of the oldest ones; its bytes must not change afterwards.
func (w *writtenDecisions) add(event, message []byte) {
	key := maphash.Bytes(w.seed, event)
	// Partitions write on goroutines of their own, and so do the readers.
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[key] != nil {
		return // a second copy
	}
	d := &writtenDecision{event: event, size: len(event) + len(message)}
	d.decode = sync.OnceValues(func() (*sequencer.Outcome, error) { return topology.DecodeOutcome(message) })
	w.of[key], w.order, w.bytes = d, append(w.order, key), w.bytes+d.size
	for len(w.order) > writtenMost || w.bytes > writtenBytes {
		w.bytes -= w.of[w.order[0]].size
		delete(w.of, w.order[0])
		w.order = w.order[1:]
	}
}

// decode does what topology.DecodeCloudEvent does. What it returns may be shared and must not be changed.
func (w *writtenDecisions) decode(event []byte) (*sequencer.Outcome, error) {
	key := maphash.Bytes(w.seed, event)
	// Read outside of it: who decides shall not wait for who reads.
	w.mu.Lock()
	d := w.of[key]
	w.mu.Unlock()
	if d == nil || !bytes.Equal(d.event, event) {
		return topology.DecodeCloudEvent(event) // another process wrote it, or this one long ago
	}
	return d.decode()
}
