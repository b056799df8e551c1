package processor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lovoo/goka/storage"

	"github.com/hence-dev/hence/streams"
)

// tableStore keeps one partition of a table in a map. goka's own memory storage sorts all keys at each new one; its
// LevelDB default would be a cache on disk, which belongs to one cluster and must be moved aside on another. There is
// no such cache here: a new owner reads its partition of the table topic, from the marker on if there is one.
//
// Invariant: a row is in the store before its record is given to the producer, and a deletion as well. So a row that
// is read and sent under mu is never sent behind a newer one of its key (again).
type tableStore struct {
	recovered func(*tableStore) error // called once the table topic has been read; may be nil
	session   *session                // that it was gained in; markers are committed by this one only
	span      streams.TableSpan       // what had to be read when it was gained
	kept      atomic.Int64            // the marker that Kafka has: nothing is read before it; -1: none

	mu     sync.RWMutex
	rows   map[string][]byte
	bytes  int64            // keys and rows together
	at     map[string]int64 // position that the row was read with; only rows that said one, and that were not set since
	stale  map[string]bool  // rows whose last record in the table topic is older than what the store has
	offset int64            // of the last record of the table topic that was read, or that goka wrote
	whole  bool             // the table topic has been read to its end
	log    tableLog
}

// tableLog is what is known of a table's log from some offset on.
type tableLog struct {
	from, next     int64 // its offsets: all that lies between them counts, of any writer
	records, bytes int64 // of it that was read, or that this owner wrote: these are the sample
}

// size is how many bytes lie there, as the sample has it.
func (l tableLog) size() int64 {
	if l.records == 0 {
		return 0
	}
	return (l.next - l.from) * l.bytes / l.records
}

func newTableStore(span streams.TableSpan, recovered func(*tableStore) error) *tableStore {
	s := &tableStore{recovered: recovered, span: span, offset: span.From() - 1, rows: make(map[string][]byte),
		at: make(map[string]int64), stale: make(map[string]bool), log: tableLog{from: span.From(), next: span.From()}}
	s.kept.Store(span.Marker)
	return s
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
	s.put(key, value)
	delete(s.at, key) // its own position is another one
	return nil
}

// put takes a row; mu is held.
func (s *tableStore) put(key string, value []byte) {
	had, ok := s.rows[key]
	if s.bytes += int64(len(value) - len(had)); !ok {
		s.bytes += int64(len(key))
	}
	s.rows[key] = value
}

// Delete implements storage.Storage.
func (s *tableStore) Delete(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, ok := s.rows[key]; ok {
		s.bytes -= int64(len(key) + len(had))
	}
	delete(s.rows, key)
	delete(s.at, key)
	delete(s.stale, key)
	return nil
}

// GetOffset implements storage.Storage: goka reads from the offset behind it on.
func (s *tableStore) GetOffset(int64) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.offset, nil
}

// SetOffset implements storage.Storage.
func (s *tableStore) SetOffset(offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = offset
	return nil
}

// errCutShort is returned by MarkRecovered when records of the table were not read.
var errCutShort = errors.New("the table was not read to its end")

// MarkRecovered implements storage.Storage.
func (s *tableStore) MarkRecovered() error {
	s.mu.Lock()
	if s.offset < s.span.End-1 {
		s.mu.Unlock()
		// Goka may take a reader that the broker turned away, as when records are deleted under it, for one that is done.
		return fmt.Errorf("%w: read up to offset %d of %d", errCutShort, s.offset, s.span.End)
	}
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
	s.put(key, value)
	s.at[key] = at
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
	s.put(key, value)
	if delete(s.stale, key); stale {
		s.stale[key] = true
	}
}

// logged counts a record of the table's log, with its size.
func (s *tableStore) logged(offset int64, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if offset < s.log.from {
		return // it was sent before the log was counted from there on
	}
	s.log.next = max(s.log.next, offset+1)
	s.log.records, s.log.bytes = s.log.records+1, s.log.bytes+int64(size)
}

// countFrom counts the log from an offset on.
func (s *tableStore) countFrom(offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = tableLog{from: offset, next: offset}
}

// keys are those of all rows.
func (s *tableStore) keys() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.rows))
}

// again gives f a row and its position, if it is there, so that f sends it before any newer one is, and returns its
// bytes. Position -1: the row says it, or none.
func (s *tableStore) again(key string, f func(row []byte, at int64, there bool)) int {
	// Who changes the row waits until it is sent, and sends the new one behind it.
	s.mu.RLock()
	defer s.mu.RUnlock()
	row, there := s.rows[key]
	at, ok := s.at[key]
	if !ok {
		at = -1
	}
	f(row, at, there)
	return len(row)
}

// read is how many bytes of the log were counted.
func (s *tableStore) read() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.log.bytes
}

// sizes are the bytes of the counted log and those of the rows.
func (s *tableStore) sizes() (log, rows int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.log.size(), s.bytes
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
