package processor

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// Derived rows change in memory and are written when they have rested: a transaction's row is written once and not for
// each of its events, a busy scope's once a second. Until Kafka has a row, the offsets of the records in it stay
// uncommitted, so what a crash takes is computed again from the log.
const (
	rowsLook = 25 * time.Millisecond // how often an owner looks for rows to write
	rowsRest = 4                     // looks: a unit that nothing has changed meanwhile, 0.1 s, is written
	rowsWait = 40                    // looks: and a busy one then, a second after its first change
	maxHolds = 1 << 13               // records that a unit holds at most before it is written
)

// Places in the life of a row at which a test may end the process: see streams.Faults.Rows.
const (
	rowsDue      = "due"      // a unit is to be written
	rowsSent     = "sent"     // it is with the producer
	rowsKept     = "kept"     // Kafka has it, and its records are still held
	rowsGivenUp  = "given up" // the partition is given up, and nothing of this was written
	rowsAllGiven = "written"  // all of it is with the producer
)

// rowForm is how the rows of one derived table are read and written.
type rowForm[R any] struct {
	read func([]byte) (*R, error)
	// write brings a row into its one form first.
	write func(*R) ([]byte, error)
	// unitOf names the unit of a row: what is written together, in the falling order of its keys, and held together.
	unitOf func(key string) string
	header func(*R) []kgo.RecordHeader
}

// lazyTable is a derived table: those of its partitions that this process owns.
type lazyTable[R any] struct {
	*base
	form rowForm[R]

	parts map[int32]*lazyPart[R] // guarded by base.mu
}

func newLazyTable[R any](b *base, form rowForm[R]) *lazyTable[R] {
	b.patient = true
	return &lazyTable[R]{base: b, form: form, parts: make(map[int32]*lazyPart[R])}
}

// lazyPart is one owned partition.
type lazyPart[R any] struct {
	*lazyTable[R]
	partition int32
	store     *tableStore // Invariant: each row in it is with the producer, or was read from the table

	mu      sync.Mutex
	units   map[string]*rowUnit[R] // what was changed and is not in the store
	stopped error                  // set: no further record of this partition is taken, and no row written
	told    bool                   // it is entered: what stops it is said where people look
	left    bool                   // it is not ours any more
}

// rowUnit is the changed rows of one unit.
type rowUnit[R any] struct {
	rows   map[string]*R
	ledger *ledger
	held   []*entry // Invariant: each record that is in these rows and in no row before them
	rested int      // looks since the last change
	waited int      // looks since the first one
}

func (t *lazyTable[R]) common() *base { return t.base }

// part is an owned partition, or nil.
func (t *lazyTable[R]) part(partition int32) *lazyPart[R] {
	// Goka gives and takes partitions on another goroutine than those of callbacks and questions.
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.parts[partition]
}

// owned are the partitions in memory.
func (t *lazyTable[R]) owned() []*lazyPart[R] {
	// A copy: what is done with a partition takes its own lock, which must not be taken under this one.
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.parts))
}

// gain enters a partition whose table has been read, if it is still the one that this process has.
func (t *lazyTable[R]) gain(p *lazyPart[R]) {
	t.mu.Lock()
	current := t.stores[p.partition] == p.store
	if current {
		// Else goka has not waited for this recovery: its session is over, and a later one may have the partition.
		t.parts[p.partition] = p
	}
	t.mu.Unlock()
	if current {
		p.tell()
	}
}

func (t *lazyTable[R]) newPart(partition int32, store *tableStore) *lazyPart[R] {
	return &lazyPart[R]{lazyTable: t, partition: partition, store: store, units: make(map[string]*rowUnit[R])}
}

func (t *lazyTable[R]) dropped(graceful bool) {
	// First: a recovery that ends from here on enters nothing.
	t.forgetStores()
	for _, p := range t.owned() {
		p.leave(graceful)
	}
	t.mu.Lock()
	clear(t.parts)
	t.mu.Unlock()
}

// keepRows writes rows that are due until ctx ends.
func (t *lazyTable[R]) keepRows(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		// Rows rest while no record comes that could wake a callback.
		case <-t.cfg.Clock.After(rowsLook):
		}
		for _, p := range t.owned() {
			p.writeDue()
		}
	}
}

// row is the row of a key as it is now, nil if there is none; mu is held. It is the partition's own: who changes it
// enters it into its unit.
func (p *lazyPart[R]) row(key string) (*R, error) {
	if u := p.units[p.form.unitOf(key)]; u != nil && u.rows[key] != nil {
		return u.rows[key], nil
	}
	value, _ := p.store.Get(key) // a map's lookup does not fail
	if value == nil {
		return nil, nil
	}
	return p.form.read(value)
}

// changed is the unit of a row that a record changes. The record is held until Kafka has what it did; mu is held.
func (p *lazyPart[R]) changed(key string, l *ledger, e *entry) *rowUnit[R] {
	name := p.form.unitOf(key)
	u := p.units[name]
	if u == nil {
		u = &rowUnit[R]{rows: make(map[string]*R), ledger: l}
		p.units[name] = u
	}
	u.rested = 0
	// Committed before its row is written, it would be in no row of the next owner.
	l.hold(e)
	u.held = append(u.held, e)
	return u
}

// writeDue is one look: it writes the units that have rested or have waited long enough.
func (p *lazyPart[R]) writeDue() {
	// No record may come between a row and what is let go under it.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return
	}
	for name, u := range p.units {
		u.rested, u.waited = u.rested+1, u.waited+1
		if u.rested >= rowsRest || u.waited >= rowsWait || len(u.held) >= maxHolds {
			p.write(name, u)
		}
	}
}

// write sends the rows of a unit, and lets their records go when Kafka has all of them; mu is held.
func (p *lazyPart[R]) write(name string, u *rowUnit[R]) {
	if p.stopped != nil {
		// One of its rows is not what it should be, and rows of later records would hide that.
		return
	}
	p.at(rowsDue)
	var records []*kgo.Record
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(u.rows))) {
		value, err := p.form.write(u.rows[key])
		if err != nil { // its records stay held: passed over, they would be in no row
			p.stop(key, fmt.Errorf("its next version cannot be written: %w", err))
			return
		}
		// A copy changes nothing, so nothing is written: replicas and restarts bring each record several times.
		if had, _ := p.store.Get(key); !bytes.Equal(had, value) {
			records = append(records, &kgo.Record{Topic: p.table, Key: []byte(key), Value: value,
				Headers: p.form.header(u.rows[key])})
		}
	}
	delete(p.units, name)
	if len(records) == 0 {
		u.ledger.release(u.held...)
		return
	}
	left := new(atomic.Int64)
	left.Store(int64(len(records)))
	for _, r := range records {
		_ = p.store.Set(string(r.Key), r.Value) // a map's does not fail
		p.out.send(r, func(r *kgo.Record, err error) {
			if err != nil {
				// The records stay held, so the next owner takes them again.
				p.fail(fmt.Errorf("write row %q of %s: %w", r.Key, p.table, err))
			} else if left.Add(-1) == 0 {
				p.at(rowsKept)
				u.ledger.release(u.held...)
			}
		})
	}
	p.at(rowsSent)
}

// at tells a test where the rows are.
func (b *base) at(place string) {
	if f := b.cfg.Faults.Rows; f != nil {
		f(b.table, place)
	}
}

// leave ends all work on the partition. Only a graceful end writes what is in memory: a lost session's rows could be
// written over its heir's.
func (p *lazyPart[R]) leave(graceful bool) {
	// keepRows may be at this partition now; it sees left, and writes nothing more.
	p.mu.Lock()
	defer p.mu.Unlock()
	if graceful {
		p.at(rowsGivenUp)
		p.writeAll()
		p.at(rowsAllGiven)
	}
	p.left = true
	if p.stopped != nil && p.told {
		p.metrics.Stopped.WithLabelValues(p.name).Dec()
		p.cfg.Health.Drop(p.partName())
	}
}

// writeAll writes every changed row; mu is held.
func (p *lazyPart[R]) writeAll() {
	for name, u := range p.units {
		p.write(name, u)
	}
}

// stop ends the work on a partition at a row that cannot be used and that later records do not make again; mu is held.
func (p *lazyPart[R]) stop(key string, err error) {
	p.stopped = fmt.Errorf("row %q of %s cannot be used: %w. If a newer release wrote it, start that one. Else stop the "+
		"processors of this group, delete %s and the offsets of group %s, and start them: the table is rebuilt from %s",
		key, p.table, err, p.table, p.group, topology.TopicDecisions)
	p.cfg.Logger.Error("this partition is not processed", "processor", p.name, "partition", p.partition,
		"error", p.stopped)
	if p.told {
		p.tellStopped()
	}
}

// tell is as seqPartition's.
func (p *lazyPart[R]) tell() {
	// keepRows may be at this partition already, and goka may be taking it back.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told = !p.left; p.told && p.stopped != nil {
		p.tellStopped()
	}
}

// tellStopped says where people look that the partition has stopped; mu is held.
func (p *lazyPart[R]) tellStopped() {
	p.metrics.Stopped.WithLabelValues(p.name).Inc()
	p.cfg.Health.Set(p.partName(), p.stopped)
}

// partName is a stopped partition's name in a health, beside the sequencer's.
func (p *lazyPart[R]) partName() string { return fmt.Sprintf("%s partition %d", p.name, p.partition) }

// refuse keeps a record that a stopped partition cannot take: it holds it for good and waits for the end, since to
// return would let goka mark the record, and the partition go on without it.
func refuse(rec *tracked) {
	rec.ledger.hold(rec.entry)
	<-rec.Context().Done()
}
