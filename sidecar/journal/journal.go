// Package journal is the delivery log of one agent: what the agent is told is recorded here first, and published to
// the events topic afterwards. After a start, Ledger is what the records of the former process come to.
//
// Guarantees: a record is in the file when Record, Event, Issue or Stamp returns without an error, so the crash of
// the process loses nothing; what Rest and RestEvent take is there before any later record, before an event of it is
// published, and once Flush returns; the start of a call without a key, that of a compensation, and scopes handed to
// the agent are synced, too. A record that failed is cut off again, before any other is written. An event is
// published under its index until the topic has it. One process has a journal open at a time. What is damaged, or
// another log's, is moved aside and never read as this agent's.
//
// It decides nothing: what a record means for a transaction is the agent's to say. The format is stable, and journals
// of older releases are read.
package journal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// ErrNotOpen is what is wrong with a journal before the log has said which one it is.
var ErrNotOpen = errors.New("it is opened once the log has said its id")

// ErrSessionGone says that what the agent was told before can no longer be shown from the journal.
var ErrSessionGone = errors.New("the journal of the former session is damaged or gone")

// Journal is the delivery log: whatever an agent is told is first here, in memory and in the journal, and is then
// published. It outlives sessions.
type Journal struct {
	log     *slog.Logger
	events  publisher
	max     int   // events that may wait
	rewrite int64 // size at which the journal is rewritten
	Boot    string

	Mu      sync.Mutex
	lock    *os.File
	file    *File // nil: memory only; broken until open
	Ledger  *Ledger
	index   uint64 // of the session's last event
	refused error  // why it did not take the last record
	out     outbox
	done    map[sequencer.Seq]*progress
	Shortly int64 // do not rewrite below this size
}

// progress is how far the events of one session are published.
type progress struct {
	through  uint64 // all up to it
	recorded uint64 // in the journal
	beyond   map[uint64]bool
}

// New is a delivery log that takes nothing until it is opened.
func New(events publisher, pending int, rewrite int64, log *slog.Logger) *Journal {
	return &Journal{
		log: log, events: events, max: pending, rewrite: rewrite, Ledger: newLedger(),
		file: &File{broken: ErrNotOpen},
		done: map[sequencer.Seq]*progress{},
		out:  outbox{open: map[sequencer.TxID]*bundle{}, kick: make(chan struct{}, 1)},
	}
}

// Record journals one record and keeps what it comes to.
func (d *Journal) Record(kind byte, v any) error { return d.record(kind, v, false) }

// Rest is Record of what nothing outside of the process follows from yet, and what need not survive the process until
// then. The file has it with the next record, so that what one request records is one write.
func (d *Journal) Rest(kind byte, v any) error { return d.record(kind, v, true) }

func (d *Journal) record(kind byte, v any, rests bool) error {
	var body []byte
	var err error
	if one, ok := v.(*DecidedRecord); ok {
		body = one.json()
	} else if body, err = json.Marshal(v); err != nil {
		return fmt.Errorf("encode a journal record: %w", err)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.write(kind, body, v, rests)
}

// write journals a record and lets the ledger have it; v is what it was made of, nil where the ledger reads it back.
func (d *Journal) write(kind byte, body []byte, v any, rests bool) error {
	if err := d.keep(kind, body, rests); err != nil {
		return err
	}
	err := d.Ledger.take(kind, body, v)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("a record %q cannot be read back: %w", kind, err)
	d.log.Error("a journal record was taken back: what it says cannot be", "cause", err)
	if d.file == nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return d.file.takeBack(err) // the next start would have to give the whole journal up for it
}

// maxResting bounds the bytes of records that rest.
const maxResting = 64 << 10

func (d *Journal) keep(kind byte, body []byte, rests bool) error {
	switch {
	case d.file == nil:
		return nil
	case rests && len(d.file.resting)+len(body) < maxResting:
		d.refused = d.file.rest(kind, body)
	default:
		d.refused = d.file.append(kind, body)
	}
	return d.refused
}

// Flush returns once the file has every record. What the agent sends to the log waits for it.
func (d *Journal) Flush() error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.flushed()
}

// flushed is Flush while d.Mu is held.
func (d *Journal) flushed() error {
	if d.file == nil {
		return nil
	}
	rested := len(d.file.resting) > 0
	err := d.file.flush()
	if rested {
		d.refused = err
	}
	return err
}

// Refused is why the journal did not take what it was given last, or cannot write what rests; nil: it did.
func (d *Journal) Refused() error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.refused
}

// Session begins the numbering of a new incarnation's events. That it has begun is on the disk when it returns: a
// start after a loss of power must find that there was a session, to tell its agent to read again.
func (d *Journal) Session(j JoinedRecord) error {
	body, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("encode a journal record: %w", err)
	}
	d.Mu.Lock() // the gate's marks are events, too: none may have the new session and the former numbers
	defer d.Mu.Unlock()
	if err := d.write(RecordJoined, body, j, false); err != nil {
		return err
	}
	d.index = 0
	return d.sync()
}

// PublishAll returns once the topic has all of some events, or with the cause of ctx's end.
func (d *Journal) PublishAll(ctx context.Context, events []*topology.Event) error {
	done := make(chan struct{}, len(events))
	if err := d.takeAll(events, func(sequencer.Place) { done <- struct{}{} }); err != nil {
		return err
	}
	for range events {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// takeAll takes events in, with nothing between them: those of one transaction travel together.
func (d *Journal) takeAll(events []*topology.Event, done func(sequencer.Place)) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for _, ev := range events {
		if err := d.takeIn(ev, done, false); err != nil {
			return err
		}
	}
	return nil
}

// Event numbers an event, journals it and sends it on its way. When it fails nothing may be answered from it. done is
// called once the topic has it, which is then told at once; nil: no caller waits, and it may wait for others of its
// transaction to travel with.
func (d *Journal) Event(ev *topology.Event, done func(sequencer.Place)) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.takeIn(ev, done, false)
}

// RestEvent is Event of what rests: it is not published before the file has it.
func (d *Journal) RestEvent(ev *topology.Event) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.takeIn(ev, nil, true)
}

// takeIn is Event while d.Mu is held.
func (d *Journal) takeIn(ev *topology.Event, done func(sequencer.Place), rests bool) error {
	// What became of a call is taken in any case: it cannot be refused any more, and there are no more than calls.
	if d.out.size() >= d.max && ev.Kind != topology.EventAnswer {
		return api.ErrBacklog
	}
	ev.Index = d.index + 1
	if ev.Incarnation == 0 {
		ev.Incarnation = d.Ledger.Joined.Incarnation
	}
	body, err := topology.EncodeEvent(ev)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if err := d.keep(recordEvent, body, rests); err != nil {
		return err
	}
	d.Ledger.event(ev)
	d.index++
	d.push(&outgoing{ev: ev, size: len(body), done: done})
	return nil
}

// Mark journals how far the events are published and what rests, and rewrites a journal that has grown.
func (d *Journal) Mark() error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.flushed(); err != nil {
		return err
	}
	for inc, p := range d.done {
		if p.through == p.recorded {
			continue
		}
		body, err := json.Marshal(publishedRecord{inc, p.through})
		if err != nil {
			return fmt.Errorf("encode a journal record: %w", err)
		}
		if err := d.write(recordPublished, body, nil, false); err != nil {
			return err
		}
		p.recorded = p.through
		if inc != d.Ledger.Joined.Incarnation && !d.Ledger.awaits(inc) {
			delete(d.done, inc)
		}
	}
	return d.compact()
}

func (d *Journal) compact() error {
	if d.file == nil || d.file.file == nil || d.file.size < max(d.rewrite, d.Shortly) {
		return nil
	}
	records, err := d.Ledger.Records()
	if err != nil {
		return fmt.Errorf("rewrite the journal: %w", err)
	}
	before := d.file.size
	if err := d.file.rewrite(records); err != nil {
		d.Shortly = before + before/4 // not again at each mark: it writes as much as there is
		return err
	}
	d.Shortly = 2 * d.file.size
	d.log.Info("the journal was rewritten", "before_bytes", before, "after_bytes", d.file.size)
	return nil
}

// Place is where the journal is.
func (d *Journal) Place() string {
	if d.file == nil {
		return "in memory"
	}
	return d.file.path
}

// Health says whether the journal takes records.
func (d *Journal) Health() error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.file != nil && d.file.broken != nil {
		return d.file.broken
	}
	if d.out.size() >= d.max {
		return api.ErrBacklog
	}
	return nil
}

// Close leaves the journal whole and gives its lock back.
func (d *Journal) Close() error {
	err := d.Mark()
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.file == nil {
		return err
	}
	err = errors.Join(err, d.file.Close())
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

// maxMark bounds a mark with its answer: one that is larger is not kept, and its call is then unknown.
const maxMark = maxRecord / 4

// Issue journals a tool call before it runs or is held.
func (d *Journal) Issue(p *gate.Progress) error { return d.Record(recordEffect, p) }

// Stamp journals a mark. That a call which can be made only once is about to be made is on the disk when it returns:
// not even the crash of the machine may let it be made again. So is that a call is about to be undone: what undoes it
// may take no key.
func (d *Journal) Stamp(m gate.Mark) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a journal record: %w", err)
	}
	if len(body) > maxMark {
		return fmt.Errorf("%w: the answer has %d bytes, at most %d are kept", ErrJournal, len(body), maxMark)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.write(recordMark, body, nil, false); err != nil {
		return err
	}
	switch m.Step {
	case gate.StepUndoing:
		return d.sync()
	case gate.StepStarted:
		if p := d.Ledger.progress(m.Tx, m.Index); p != nil && p.Key == "" {
			return d.sync()
		}
	}
	return nil
}

// sync returns once what was journalled is on the disk; d.mu is held.
func (d *Journal) sync() error {
	if d.file == nil {
		return nil
	}
	return d.file.sync()
}

// progress is what is known of one call; nil: nothing.
func (l *Ledger) progress(id sequencer.TxID, index uint32) *gate.Progress {
	t := l.Txs[id]
	if t == nil {
		return nil
	}
	if at := t.effect(index); at >= 0 {
		return t.effects[at]
	}
	return nil
}

// Call is what is known of one tool call.
func (d *Journal) Call(id sequencer.TxID, index uint32) (gate.Progress, bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if p := d.Ledger.progress(id, index); p != nil {
		return *p, true
	}
	return gate.Progress{}, false
}

// Effects are a transaction's tool calls as the journal has them; known is false when it has nothing of it.
func (d *Journal) Effects(id sequencer.TxID) (out []gate.Progress, known bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.Ledger.effectsOf(id)
}

// Calls are a transaction's tool calls, as effects has them; shared: others have settled it, so the log may know more
// of them.
func (d *Journal) Calls(id sequencer.TxID) (out []gate.Progress, known, shared bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	out, known = d.Ledger.effectsOf(id)
	return out, known, known && d.Ledger.Txs[id].Shared
}

// ContentEvent is an event that keeps a content, and the reference to it, whose place is known once it is published.
func ContentEvent(body []byte) (*topology.Event, *sequencer.Ref) {
	sum, size := sequencer.Hash(sha256.Sum256(body)), int64(len(body))
	return &topology.Event{Kind: topology.EventContent, Content: body, Size: size,
		SHA256: sum}, &sequencer.Ref{Size: size, SHA256: sum}
}
