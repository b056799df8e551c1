package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Health is what a run of the processors knows about itself: asking costs nothing, since it asks nobody. The zero
// value is that of a run that has not begun.
type Health struct {
	mu    sync.Mutex
	parts map[string]error
	notes map[string]string
}

// The parts of a health.
const (
	partKafka    = "kafka"
	partTopics   = "topics"
	partNATS     = "nats"
	partReplicas = "replicas"
)

// healthIn is how often Kafka and NATS are asked whether they are there.
const healthIn = time.Second

var errNotStarted = errors.New("it has not started yet")

// Ready says what is wrong with each part; nil is well. "kafka": a broker answers. "topics": they are as they must be.
// "nats": the connection stands. "sequencer", "closure", "frontier": the processor is a member of its group, has
// recovered all partitions that it was given, and works on them. "replicas": no other replica has come to another
// state. "partition n", "frontier partition n": only there when the sequencer's, or the frontier's, has stopped.
func (h *Health) Ready() map[string]error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ready := map[string]error{partReplicas: nil}
	for _, part := range []string{partKafka, partTopics, partNATS, "sequencer", "closure", "frontier"} {
		ready[part] = errNotStarted
	}
	maps.Copy(ready, h.parts)
	return ready
}

// set notes what is wrong with a part, or that nothing is. A nil health notes nothing.
func (h *Health) set(part string, err error) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.parts == nil {
		h.parts = make(map[string]error)
	}
	h.parts[part] = err
}

// Notes say what somebody should look at although the run works: "workspace NAME" is there when one workspace has
// stopped and the others go on, and "hash_every" when the replicas compare their states at different seqs. They do not
// make a run unready: one workspace's record must not keep the others' sidecars from being started.
func (h *Health) Notes() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.notes)
}

// note says what somebody should look at. A nil health notes nothing.
func (h *Health) note(part, text string) {
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

// unnote forgets a note.
func (h *Health) unnote(part string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.notes, part)
}

// drop forgets a part.
func (h *Health) drop(part string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.parts, part)
}

// watch looks after Kafka and NATS until ctx ends.
func (h *Health) watch(ctx context.Context, cfg Config, kafka *kgo.Client, conn *nats.Conn) {
	if h == nil {
		return
	}
	for ctx.Err() == nil {
		tryCtx, cancel := context.WithTimeout(ctx, 2*healthIn)
		err := kafka.Ping(tryCtx)
		cancel()
		if err != nil {
			err = cfg.kafkaAway(err)
		}
		h.set(partKafka, err)
		h.set(partNATS, cfg.natsAway(conn))
		select {
		case <-ctx.Done():
		case <-cfg.Clock.After(healthIn):
		}
	}
}

// natsAway says what is wrong with the connection to NATS.
func (c Config) natsAway(conn *nats.Conn) error {
	switch {
	case conn == nil:
		return nil
	case conn.IsConnected():
		return nil
	case conn.LastError() != nil:
		return fmt.Errorf("NATS at %s is %s: %w", c.NATS, conn.Status(), conn.LastError())
	}
	return fmt.Errorf("NATS at %s does not answer: it is %s", c.NATS, conn.Status())
}
