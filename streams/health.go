package streams

import (
	"errors"
	"maps"
	"sync"
)

// Health is what a run of the processors knows about itself: asking costs nothing, since it asks no server. The zero
// value is that of a run that has not begun.
type Health struct {
	mu    sync.Mutex
	parts map[string]error
	notes map[string]string
}

// The parts of a health that are not a processor's.
const (
	PartKafka    = "kafka"
	PartTopics   = "topics"
	PartNATS     = "nats"
	PartReplicas = "replicas"
)

var errNotStarted = errors.New("it has not started yet")

// Ready says what is wrong with each part; nil is well. "kafka": a broker answers. "topics": they are as they must be.
// "nats": the connection stands. "sequencer", "closure", "frontier": the processor is a member of its group, has
// recovered all partitions that it was given, and works on them. "replicas": no other replica has come to another
// state. "partition n", "frontier partition n": only there when the sequencer's, or the frontier's, has stopped.
func (h *Health) Ready() map[string]error {
	// Three processors, the watch and probes read and write it.
	h.mu.Lock()
	defer h.mu.Unlock()
	ready := map[string]error{PartReplicas: nil}
	for _, part := range []string{PartKafka, PartTopics, PartNATS, "sequencer", "closure", "frontier"} {
		ready[part] = errNotStarted
	}
	maps.Copy(ready, h.parts)
	return ready
}

// Set notes what is wrong with a part, or that nothing is. A nil health notes nothing.
func (h *Health) Set(part string, err error) {
	if h == nil {
		return
	}
	// See Ready.
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.parts == nil {
		h.parts = make(map[string]error)
	}
	h.parts[part] = err
}

// Notes say what needs an operator although the run works: "workspace NAME" is there when one workspace has
// stopped and the others go on, and "hash_every" when the replicas compare their states at different seqs. They do not
// make a run unready: one workspace's record must not keep the others' sidecars from being started.
func (h *Health) Notes() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.notes)
}

// Note says what needs an operator. A nil health notes nothing.
func (h *Health) Note(part, text string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notes == nil {
		h.notes = make(map[string]string)
	}
	h.notes[part] = text
}

// Unnote forgets a note.
func (h *Health) Unnote(part string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.notes, part)
}

// Drop forgets a part.
func (h *Health) Drop(part string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.parts, part)
}
