package processor

import (
	"fmt"
	"sync"
)

// A ledger decides how far the offsets of one consumer session may be committed: only over gapless runs of finished
// records. goka marks a record when that record's own emits are acknowledged, and sarama keeps the greatest mark, so
// without a ledger one refused emit is jumped over by the next record and lost at the next start.
type ledger struct {
	mark func(topic string, partition int32, next int64) // called under mu, so that marks never go back

	mu   sync.Mutex
	runs map[place]*run
}

type place struct {
	topic     string
	partition int32
}

// run is the records of one partition that were begun and are not committed.
type run struct {
	entries []*entry // Invariant: by offset, and the first one is not finished: what lies before it may be committed
	next    int64    // after the last one begun
	marked  int64    // what was marked last; zero: nothing
}

// entry is one record in work.
type entry struct {
	at     place
	offset int64
	// open is what is still to be done about it, goka's own mark included; at zero it is finished. Invariant: then it is
	// not held again.
	open int
}

func newLedger(mark func(topic string, partition int32, next int64)) *ledger {
	return &ledger{mark: mark, runs: make(map[place]*run)}
}

// begin enters a record; offsets of one partition are begun in rising order.
func (l *ledger) begin(topic string, partition int32, offset int64) *entry {
	// Callbacks begin records, the producer's acknowledgements finish them.
	l.mu.Lock()
	defer l.mu.Unlock()
	at := place{topic, partition}
	r := l.runs[at]
	if r == nil {
		r = new(run)
		l.runs[at] = r
	}
	if n := len(r.entries); n > 0 && r.entries[n-1].offset >= offset {
		// Out of order, a commit could pass over a record that is still in work.
		panic(fmt.Sprintf("streams: %s/%d offset %d begun after %d", topic, partition, offset, r.entries[n-1].offset))
	}
	e := &entry{at: at, offset: offset, open: 1}
	r.entries, r.next = append(r.entries, e), offset+1
	return e
}

// hold keeps a record unfinished until release is called once more.
func (l *ledger) hold(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.open == 0 {
		// It may be committed already; what is done about it now would be lost with this process.
		panic(fmt.Sprintf("streams: %s/%d offset %d held after it was finished", e.at.topic, e.at.partition, e.offset))
	}
	e.open++
}

// release ends one hold of each record.
func (l *ledger) release(entries ...*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// All of them first: advancing one by one would mark a run's head several times.
	for _, e := range entries {
		e.open--
	}
	for _, e := range entries {
		if e.open == 0 {
			l.advance(e.at)
		}
	}
}

// done is goka's mark of the record at an offset.
func (l *ledger) done(topic string, partition int32, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := place{topic, partition}
	r := l.runs[at]
	if r == nil {
		// A former session's mark: its records come again.
		return
	}
	lo, hi := 0, len(r.entries)
	for lo < hi {
		if mid := (lo + hi) / 2; r.entries[mid].offset < offset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(r.entries) || r.entries[lo].offset != offset {
		return
	}
	r.entries[lo].open--
	if r.entries[lo].open == 0 {
		l.advance(at)
	}
}

// advance marks the finished records at the head of a run; mu is held.
func (l *ledger) advance(at place) {
	r := l.runs[at]
	n := 0
	for n < len(r.entries) && r.entries[n].open <= 0 {
		n++
	}
	// Something before them is not finished: to commit behind it would lose it at the next start.
	if n == 0 {
		return
	}
	next := r.entries[n-1].offset + 1
	clear(r.entries[:n])
	r.entries = r.entries[n:]
	r.marked = next
	l.mark(at.topic, at.partition, next)
}

// stands calls f with what was marked last in a partition, zero: nothing, before anything more is marked.
func (l *ledger) stands(at place, f func(next int64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := int64(0)
	if r := l.runs[at]; r != nil {
		next = r.marked
	}
	f(next)
}

// next is the offset after the last one begun in a partition; zero when none was.
func (l *ledger) next(at place) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[at]; r != nil {
		return r.next
	}
	return 0
}
