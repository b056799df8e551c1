package retail

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Memory is a state of the shop as a map from shard to content: a [Store] for replays and tests, and the form in
// which two final states are compared. It is not safe for concurrent use while something is applied.
type Memory map[string][]byte

// Read returns a shard's content. It never fails.
func (m Memory) Read(key string) ([]byte, bool, error) {
	value, ok := m[key]
	return value, ok, nil
}

// Apply writes all that a task changed.
func (m Memory) Apply(result Result) { maps.Copy(m, result.Writes) }

// Hash returns the hex SHA-256 of all shards in key order, each key and content with its length before it. Equal
// states, and no others, have equal hashes.
func (m Memory) Hash() string {
	h := sha256.New()
	put := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		put([]byte(key))
		put(m[key])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Diff returns the keys whose content is not the same in both, sorted; absent and empty are not the same.
func (m Memory) Diff(other Memory) []string {
	var keys []string
	for key, value := range m {
		if o, ok := other[key]; !ok || string(o) != string(value) {
			keys = append(keys, key)
		}
	}
	for key := range other {
		if _, ok := m[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Replay runs tasks one after the other, alone, over a copy of a state, and returns the state that they leave.
func (d *Domain) Replay(start Memory, tasks []Task) (Memory, error) {
	state := maps.Clone(start)
	if state == nil {
		state = Memory{}
	}
	for i, task := range tasks {
		result, err := d.Run(task, state)
		if err != nil {
			return nil, fmt.Errorf("replay, position %d: %w", i, err)
		}
		state.Apply(result)
	}
	return state, nil
}
