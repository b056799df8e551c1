package topology

import (
	"hash"
	"hash/fnv"
	"strings"
)

// HashWorkspace is the 32-bit FNV-1a hash of the workspace part of a key. Producers, processors and views all choose
// partitions with it, so that everything about one workspace lies in one partition number of every topic.
func HashWorkspace(key []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range key {
		if c == keySeparator[0] {
			break
		}
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

// PartitionOf is the partition of a key among so many; Validate holds their number to a power of two, where the
// partitioners of franz-go, sarama and goka agree on every hash. Fewer than one partition panics.
func PartitionOf(key string, partitions int32) int32 {
	if partitions < 1 {
		panic("topology: a topic has at least one partition")
	}
	p := int32(HashWorkspace([]byte(key))) % partitions
	if p < 0 {
		return -p
	}
	return p
}

// NewHasher is HashWorkspace as goka wants it.
func NewHasher() hash.Hash32 { return &hasher{Hash32: fnv.New32a()} }

// hasher stops listening at the first separator.
type hasher struct {
	hash.Hash32
	ended bool
}

func (h *hasher) Write(p []byte) (int, error) {
	if h.ended {
		return len(p), nil
	}
	part := p
	if at := strings.IndexByte(string(p), keySeparator[0]); at >= 0 {
		part, h.ended = p[:at], true
	}
	_, err := h.Hash32.Write(part)
	return len(p), err
}

func (h *hasher) Reset() {
	h.ended = false
	h.Hash32.Reset()
}
