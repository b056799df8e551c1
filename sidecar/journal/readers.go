package journal

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// Delivered is what a reader was given of one shard, or of a pattern.
type Delivered struct {
	Scope   sequencer.Scope
	Version sequencer.Seq // of a pattern the view's seq
	Writes  uint64        `json:",omitempty"`
	AtMs    int64
	// By is the reader's own write that is on its way, or was when the process ended: a version that it made is one
	// that the reader knows.
	By sequencer.TxID `json:",omitempty"`
}

// ReaderState says what a reader's next commit is told.
type ReaderState byte

// The states of a reader.
const (
	ReaderLive      ReaderState = 0   // its log is whole
	ReaderOwed      ReaderState = 'o' // its log is lost or expired, and it was not told: its next commit is
	ReaderEnded     ReaderState = 'e' // it was told, and has read nothing since
	ReaderForgotten ReaderState = 'f' // not even its name is kept, but as one of many
	readerGone      ReaderState = 'g' // it has read nothing, so there is nothing to remember
)

// Reader is the delivery log of one name beside the agent's own conversations: what it was given, the last version of
// each.
type Reader struct {
	State ReaderState
	TTLms int64 // zero: the agent's default
	AtMs  int64 // of its last request
	Reads []Delivered

	at *list.Element
}

// read is the place of a scope among a reader's; negative: it was not given that.
func (r *Reader) read(scope sequencer.Scope) int {
	return slices.IndexFunc(r.Reads, func(d Delivered) bool { return d.Scope == scope })
}

// ReaderRecord is a reader as it is from this record on, or, with Add, what it was given besides.
type ReaderRecord struct {
	Name  string
	Add   bool        `json:",omitempty"`
	State ReaderState `json:",omitempty"`
	TTLms int64       `json:",omitempty"`
	AtMs  int64
	Reads []Delivered `json:",omitempty"`
}

// Readers are the readers of an agent. The zero value has none.
type Readers struct {
	byName map[string]*Reader
	live   list.List // of names, least recently used first: those that are live
	idle   list.List // and those that are not
	reads  int       // Invariant: of all together
	former blurred   // names that are forgotten
}

// Len counts the readers, Reads what they were given.
func (r *Readers) Len() int { return len(r.byName) }

// Reads counts what all readers were given.
func (r *Readers) Reads() int { return r.reads }

// apply takes a record.
func (r *Readers) apply(body []byte) error {
	var rec ReaderRecord
	if err := json.Unmarshal(body, &rec); err != nil {
		return err
	}
	r.take(&rec)
	return nil
}

func (r *Readers) take(rec *ReaderRecord) {
	was := r.byName[rec.Name]
	if rec.Add {
		r.add(was, rec)
		return
	}
	if was != nil {
		r.drop(rec.Name, was)
	}
	switch rec.State {
	case ReaderForgotten:
		r.former.add(rec.Name)
	case readerGone:
	default:
		r.put(rec.Name, &Reader{State: rec.State, TTLms: rec.TTLms, AtMs: rec.AtMs, Reads: slices.Clone(rec.Reads)})
	}
}

// add gives a reader more. One that was told that its log had ended begins another one.
func (r *Readers) add(was *Reader, rec *ReaderRecord) {
	if was == nil {
		was = &Reader{State: r.stateOf(rec.Name)}
	} else {
		r.drop(rec.Name, was)
	}
	if was.State == ReaderEnded {
		was.State = ReaderLive
	}
	was.AtMs = max(was.AtMs, rec.AtMs)
	for _, d := range rec.Reads {
		if i := was.read(d.Scope); i >= 0 {
			was.Reads[i] = d
		} else {
			was.Reads = append(was.Reads, d)
		}
	}
	r.put(rec.Name, was)
}

func (r *Readers) put(name string, one *Reader) {
	if r.byName == nil {
		r.byName = map[string]*Reader{}
	}
	r.byName[name] = one
	r.reads += len(one.Reads)
	one.at = r.order(one).PushBack(name)
}

func (r *Readers) drop(name string, one *Reader) {
	delete(r.byName, name)
	r.reads -= len(one.Reads)
	r.order(one).Remove(one.at)
}

func (r *Readers) order(one *Reader) *list.List {
	if one.State == ReaderLive {
		return &r.live
	}
	return &r.idle
}

// stateOf is the state of a name that nothing is kept of.
func (r *Readers) stateOf(name string) ReaderState {
	if r.former.has(name) {
		return ReaderOwed
	}
	return ReaderLive
}

// empty ends the logs of all readers that were given anything. What they were owed they are still.
func (r *Readers) empty() {
	var names []string
	for _, order := range []*list.List{&r.idle, &r.live} {
		for e := order.Front(); e != nil; e = e.Next() {
			if name := e.Value.(string); len(r.byName[name].Reads) > 0 {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		one := r.byName[name]
		r.drop(name, one)
		if one.Reads = nil; one.State == ReaderLive {
			one.State = ReaderEnded
		}
		r.put(name, one)
	}
}

// records are the shortest ones that come to the same readers, in their order.
func (r *Readers) records() (out []any) {
	if r.former != nil {
		out = append(out, r.former)
	}
	for _, order := range []*list.List{&r.idle, &r.live} {
		for e := order.Front(); e != nil; e = e.Next() {
			name := e.Value.(string)
			one := r.byName[name]
			out = append(out, &ReaderRecord{Name: name, State: one.State, TTLms: one.TTLms, AtMs: one.AtMs, Reads: one.Reads})
		}
	}
	return out
}

// Reader is a copy of what is known of a reader.
func (d *Journal) Reader(name string) (out Reader, known bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	one := d.Ledger.Readers.byName[name]
	if one == nil {
		return Reader{State: d.Ledger.Readers.stateOf(name)}, false
	}
	out = *one
	out.Reads, out.at = slices.Clone(one.Reads), nil
	return out, true
}

// Given is what a reader was given of a scope.
func (d *Journal) Given(name string, scope sequencer.Scope) (Delivered, bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if one := d.Ledger.Readers.byName[name]; one != nil {
		if i := one.read(scope); i >= 0 {
			return one.Reads[i], true
		}
	}
	return Delivered{}, false
}

// EachReader shows all readers that are live, as long as f says so. f keeps nothing of them.
func (d *Journal) EachReader(f func(name string, one *Reader) bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	live := &d.Ledger.Readers.live
	for e := live.Front(); e != nil; e = e.Next() {
		if name := e.Value.(string); !f(name, d.Ledger.Readers.byName[name]) {
			return
		}
	}
}

// CountReaders counts the readers that are live, and what all of them were given.
func (d *Journal) CountReaders() (readers, reads int) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.Ledger.Readers.live.Len(), d.Ledger.Readers.reads
}

// Retire ends readers: those whose time is up, least recently used first, then the oldest beyond the bounds. It looks
// at a few at a time, and says whether there may be more.
func (d *Journal) Retire(nowMs int64, ttl func(*Reader) int64, readers, reads int) (more bool, err error) {
	const atOnce = 8
	for range atOnce {
		rec := d.retired(nowMs, ttl, readers, reads)
		if rec == nil {
			return false, nil
		}
		if err := d.Rest(recordReader, rec); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (d *Journal) retired(nowMs int64, ttl func(*Reader) int64, readers, reads int) *ReaderRecord {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	r := &d.Ledger.Readers
	oldest := r.live.Front()
	if oldest != nil {
		name := oldest.Value.(string)
		one := r.byName[name]
		rec := &ReaderRecord{Name: name, State: ReaderOwed, TTLms: one.TTLms, AtMs: one.AtMs}
		switch {
		case len(one.Reads) == 0 && one.AtMs+ttl(one) <= nowMs:
			rec.State = readerGone
			return rec
		case one.AtMs+ttl(one) <= nowMs, r.reads > reads:
			return rec
		}
	}
	if len(r.byName) <= readers {
		return nil
	}
	if first := r.idle.Front(); first != nil {
		oldest = first
	}
	return &ReaderRecord{Name: oldest.Value.(string), State: ReaderForgotten}
}

// blurred is a set of names that takes a fixed space. What was added is in it; what was not may seem to be.
type blurred []byte

const (
	blurredBytes  = 128 << 10 // with 100,000 names, one in a hundred others seems to be there
	blurredProbes = 4
)

func probes(name string) (at [blurredProbes]uint32) {
	sum := sha256.Sum256([]byte(name))
	for i := range at {
		at[i] = binary.BigEndian.Uint32(sum[4*i:]) % (8 * blurredBytes)
	}
	return at
}

func (b *blurred) add(name string) {
	if *b == nil {
		*b = make([]byte, blurredBytes)
	}
	for _, at := range probes(name) {
		(*b)[at/8] |= 1 << (at % 8)
	}
}

func (b *blurred) has(name string) bool {
	if *b == nil {
		return false
	}
	for _, at := range probes(name) {
		if (*b)[at/8]&(1<<(at%8)) == 0 {
			return false
		}
	}
	return true
}

func (b *blurred) apply(body []byte) error {
	var all []byte
	if err := json.Unmarshal(body, &all); err != nil {
		return err
	}
	if len(all) != blurredBytes {
		return fmt.Errorf("the names that are forgotten take %d bytes, want %d", len(all), blurredBytes)
	}
	*b = all
	return nil
}

// Add gives a reader more; it is in the file when Add returns.
func (d *Journal) Add(reader string, nowMs int64, given ...Delivered) error {
	return d.Record(recordReader, &ReaderRecord{Name: reader, Add: true, AtMs: nowMs, Reads: given})
}

// RestAdd is Add of what nothing follows from yet, as Rest is Record.
func (d *Journal) RestAdd(reader string, nowMs int64, given ...Delivered) error {
	return d.Rest(recordReader, &ReaderRecord{Name: reader, Add: true, AtMs: nowMs, Reads: given})
}

// SetReader makes a reader what it is from now on.
func (d *Journal) SetReader(reader string, now Reader) error {
	return d.Record(recordReader, &ReaderRecord{Name: reader, State: now.State, TTLms: now.TTLms, AtMs: now.AtMs,
		Reads: now.Reads})
}

// EmptyReaders ends the logs of all readers that were given anything, in one record. Nothing follows from it before
// their next commit.
func (d *Journal) EmptyReaders() error { return d.Rest(recordEmptied, struct{}{}) }
