package processor

import (
	"maps"
	"slices"
	"sync"

	"github.com/lovoo/goka/storage"
)

// tableStore keeps one partition of a table in a map. goka's own memory storage sorts all keys at each new one; its
// LevelDB default would be a cache on disk, which belongs to one cluster and must be moved aside on another. There is
// no such cache here: a new owner reads its partition of the table topic from the start.
type tableStore struct {
	recovered func(*tableStore) error // called once the table topic has been read; may be nil

	mu     sync.RWMutex
	rows   map[string][]byte
	at     map[string]int64 // position that the row says it is of; only rows that say one
	stale  map[string]bool  // rows whose last record in the table topic is older than what the store has
	offset int64
	known  bool
	whole  bool // the table topic has been read to its end
}

func newTableStore(recovered func(*tableStore) error) *tableStore {
	return &tableStore{recovered: recovered, rows: make(map[string][]byte), at: make(map[string]int64),
		stale: make(map[string]bool)}
}

// Open implements storage.Storage.
func (s *tableStore) Open() error { return nil }

// Close implements storage.Storage.
func (s *tableStore) Close() error { return nil }

// Has implements storage.Storage.
func (s *tableStore) Has(key string) (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.rows[key]
	return ok, nil
}

// Get implements storage.Storage; the bytes must not be changed.
func (s *tableStore) Get(key string) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.rows[key], nil
}

// Set implements storage.Storage.
func (s *tableStore) Set(key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[key] = value
	return nil
}

// Delete implements storage.Storage.
func (s *tableStore) Delete(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, key)
	delete(s.at, key)
	delete(s.stale, key)
	return nil
}

// GetOffset implements storage.Storage.
func (s *tableStore) GetOffset(missing int64) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.known {
		return missing, nil
	}
	return s.offset, nil
}

// SetOffset implements storage.Storage.
func (s *tableStore) SetOffset(offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset, s.known = offset, true
	return nil
}

// MarkRecovered implements storage.Storage.
func (s *tableStore) MarkRecovered() error {
	s.mu.Lock()
	s.whole = true
	// Given back before recovered, which reads the rows.
	s.mu.Unlock()
	if s.recovered == nil {
		return nil
	}
	return s.recovered(s)
}

// ready reports whether the table topic has been read to its end.
func (s *tableStore) ready() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.whole
}

// Iterator implements storage.Storage.
func (s *tableStore) Iterator() (storage.Iterator, error) { return s.IteratorWithRange(nil, nil) }

// IteratorWithRange implements storage.Storage over a copy of the rows.
func (s *tableStore) IteratorWithRange(start, limit []byte) (storage.Iterator, error) {
	it := &tableIterator{rows: s.snapshot(), at: -1}
	for _, k := range slices.Sorted(maps.Keys(it.rows)) {
		if k >= string(start) && (limit == nil || k < string(limit)) {
			it.keys = append(it.keys, k)
		}
	}
	return it, nil
}

// snapshot copies the map; rows are never changed in place.
func (s *tableStore) snapshot() map[string][]byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.rows)
}

// newer takes a row while the table is read back, unless the store has one of a later position: a processor that was
// thought dead may have written an old row over a new one.
func (s *tableStore) newer(key string, value []byte, at int64) {
	// Goka reads a table on a goroutine of its own, while another partition's questions may look here.
	s.mu.Lock()
	defer s.mu.Unlock()
	had, ok := s.at[key]
	if ok && had > at {
		// Kept, and written again later: compaction would leave the late one.
		s.stale[key] = true
		return
	}
	delete(s.stale, key)
	s.rows[key], s.at[key] = value, at
}

// rowAt is the row of a key if it says that it is of this position; else nil.
func (s *tableStore) rowAt(key string, at int64) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if had, ok := s.at[key]; !ok || had != at {
		return nil
	}
	return s.rows[key]
}

// position is what the row of a key says; -1: it says none.
func (s *tableStore) position(key string) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if at, ok := s.at[key]; ok {
		return at
	}
	return -1
}

// joined takes a row that was joined from all of its records; stale says that the last of them had less.
func (s *tableStore) joined(key string, value []byte, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[key] = value
	if delete(s.stale, key); stale {
		s.stale[key] = true
	}
}

// overruled are the rows that must be written again, because the table topic ends with an older one.
func (s *tableStore) overruled() map[string][]byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	rows := make(map[string][]byte, len(s.stale))
	for key := range s.stale {
		rows[key] = s.rows[key]
	}
	return rows
}

// prefixed calls f for each row whose key begins with a prefix, in no order, until f returns false.
func (s *tableStore) prefixed(prefix string, f func(key string, value []byte) bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for k, v := range s.rows {
		if len(k) >= len(prefix) && k[:len(prefix)] == prefix && !f(k, v) {
			return
		}
	}
}

type tableIterator struct {
	rows map[string][]byte
	keys []string
	at   int
}

func (it *tableIterator) Next() bool             { it.at++; return it.at < len(it.keys) }
func (it *tableIterator) Err() error             { return nil }
func (it *tableIterator) Key() []byte            { return []byte(it.keys[it.at]) }
func (it *tableIterator) Value() ([]byte, error) { return it.rows[it.keys[it.at]], nil }
func (it *tableIterator) Release()               {}
func (it *tableIterator) Seek(key []byte) bool {
	at, _ := slices.BinarySearch(it.keys, string(key))
	it.at = at - 1
	return at < len(it.keys)
}
