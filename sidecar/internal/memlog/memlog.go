// Package memlog is a log in memory for the tests of a sidecar: the real fold, delivered at once, with doors through
// which a test can hold back, lose and delay what one sidecar sends and receives.
package memlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// ErrLost is returned by a door's calls when the test has told it to fail them.
var ErrLost = errors.New("memlog: the connection was lost")

// Log is one workspace's log and everything derived from it.
type Log struct {
	id        string // another for each
	workspace string

	mu       sync.Mutex
	replica  *sequencer.Replica
	offset   int64
	intents  []*sequencer.Intent
	records  [][]byte // outcomes as they travel, by seq-1
	outcomes []*sequencer.Outcome
	times    []time.Time    // of the outcomes
	lost     map[int64]bool // offsets that give nothing
	events   []*topology.Event
	byRecord [][]*topology.Event // the same, by record
	residue  rows
	changed  chan struct{}
	told     bool // by Say: nothing is decided any more
	each     func(in *sequencer.Intent)
}

// New returns an empty log.
func New(workspace string) *Log {
	return &Log{id: rand.Text(), workspace: workspace, replica: sequencer.NewReplica(workspace),
		changed: make(chan struct{})}
}

// NewOver is New over a replica that has applied nothing yet. each is told of every record before what it decides is
// delivered, one after another; it must not call the log.
func NewOver(workspace string, replica *sequencer.Replica, each func(in *sequencer.Intent)) *Log {
	l := New(workspace)
	l.replica, l.each = replica, each
	return l
}

// Add appends an intent as any process may.
func (l *Log) Add(in *sequencer.Intent) (int64, error) {
	body, err := topology.EncodeIntent(in)
	if err != nil {
		return 0, err
	}
	if in, err = topology.DecodeIntent(body); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.offset
	l.offset++
	l.intents = append(l.intents, in)
	if l.told {
		l.tell()
		return at, nil
	}
	if l.each != nil {
		l.each(in)
	}
	applied, err := l.replica.Apply(at, in)
	if err != nil {
		return 0, err
	}
	for i := range applied.Outcomes {
		o := &applied.Outcomes[i]
		if int(o.Seq) <= len(l.records) {
			continue
		}
		record, err := topology.EncodeOutcome(o)
		if err != nil {
			return 0, err
		}
		l.records = append(l.records, record)
		l.outcomes, l.times = append(l.outcomes, o), append(l.times, time.Now())
		l.replica.Acknowledged(o.Seq)
	}
	l.tell()
	return at, nil
}

// Unreadable appends a record that cannot be read.
func (l *Log) Unreadable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.offset
	l.offset++
	l.intents = append(l.intents, nil)
	if l.each != nil {
		l.each(nil)
	}
	_, err := l.replica.Apply(at, nil)
	return err
}

// tell wakes those that wait for a change; mu is held.
func (l *Log) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Tick appends so many ticks.
func (l *Log) Tick(n int) error {
	for range n {
		l.mu.Lock()
		tick, ok := l.replica.NextTick()
		l.mu.Unlock()
		if !ok {
			return nil
		}
		if _, err := l.Add(&sequencer.Intent{Kind: sequencer.IntentTick, Tick: &tick}); err != nil {
			return err
		}
	}
	return nil
}

// Weighs is how many ticks the next one stands for; zero: none is due.
func (l *Log) Weighs() sequencer.Tick {
	l.mu.Lock()
	defer l.mu.Unlock()
	tick, ok := l.replica.NextTick()
	if !ok {
		return 0
	}
	return tick.Weight
}

// Seq is the last decision's.
func (l *Log) Seq() sequencer.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sequencer.Seq(len(l.outcomes))
}

// Outcomes are all decisions so far.
func (l *Log) Outcomes() []*sequencer.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.outcomes)
}

// Intents are all records so far.
func (l *Log) Intents() []*sequencer.Intent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.intents)
}

// Events are all events so far, in the order of their arrival.
func (l *Log) Events() []*topology.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// EventRecords are all events so far by the records that they came in.
func (l *Log) EventRecords() [][]*topology.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.byRecord)
}

// Until waits until cond holds of the log; it is asked again after each record, event and residue.
func (l *Log) Until(ctx context.Context, cond func() bool) error {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if cond() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Corrupt gives the decision at a seq, and all that are delivered later, another content than its chain hash covers.
func (l *Log) Corrupt(seq sequencer.Seq) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := *l.outcomes[seq-1]
	o.Detail += " (changed)"
	record, err := topology.EncodeOutcome(&o)
	l.records[seq-1] = record
	return err
}

// maxEventBytes is the largest event that the topic takes.
const maxEventBytes = 512 << 10

// publish keeps events as they come out of the topic. Each has a place of its own here; that of their record is the
// first one's.
func (l *Log) publish(events []*topology.Event) (sequencer.Place, error) {
	record, err := topology.EncodeEvents(events)
	if err != nil {
		return sequencer.Place{}, err
	}
	if len(record) > maxEventBytes {
		return sequencer.Place{}, fmt.Errorf("memlog: %w: %d bytes", streams.ErrTooLarge, len(record))
	}
	if events, err = topology.DecodeEvents(record); err != nil {
		return sequencer.Place{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := sequencer.Place{Offset: int64(len(l.events))}
	l.events = append(l.events, events...)
	l.byRecord = append(l.byRecord, events)
	l.tell()
	return at, nil
}

func (l *Log) record(seq sequencer.Seq) ([]byte, time.Time, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(seq) <= len(l.records) {
		return l.records[seq-1], l.times[seq-1], nil
	}
	return nil, time.Time{}, l.changed
}

// snapshot is the shards at the head; it claims to be complete up to lag seqs before it.
func (l *Log) snapshot(lag int) *topology.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := max(0, len(l.outcomes)-lag)
	s := &topology.Snapshot{Workspace: l.workspace, Seq: sequencer.Seq(n), Through: sequencer.Seq(len(l.outcomes))}
	if n > 0 {
		o := l.outcomes[n-1]
		s.Chain, s.Time, s.Floor = o.Chain, o.Time, o.Floor
	}
	rows := map[sequencer.Scope]*topology.ShardRow{}
	counts := map[sequencer.Scope]*topology.WriteCount{}
	for _, o := range l.outcomes {
		for _, w := range o.Writes {
			s.Types = append(s.Types, w.Scope.Type())
		}
		for _, h := range o.Added {
			s.Types = append(s.Types, h.Scope.Type())
		}
		for i := range o.Shards {
			l.write(rows, counts, o, &o.Shards[i])
		}
	}
	for scope, row := range rows {
		if row != nil {
			row.Count = counts[scope].Clone()
			s.Shards = append(s.Shards, *row)
		}
	}
	slices.SortStableFunc(s.Shards, func(a, b topology.ShardRow) int {
		if a.Scope < b.Scope {
			return -1
		}
		return 1
	})
	return s
}

// write brings the rows of a snapshot to a write, as the table of scopes does.
func (l *Log) write(rows map[sequencer.Scope]*topology.ShardRow, counts map[sequencer.Scope]*topology.WriteCount,
	o *sequencer.Outcome, w *sequencer.ShardWrite) {
	if w.Absent && o.Kind == sequencer.OutcomeCommitted {
		for scope := range rows {
			if w.Scope.Covers(scope) {
				rows[scope] = nil
				counts[scope].Add(o.Seq, o.Seq-1, true)
			}
		}
		return
	}
	switch row := rows[w.Scope]; {
	case row.Merges(w):
		row = row.Merge(o.Seq, w, nil, func(r *sequencer.Ref) ([]byte, error) { return l.events[r.Offset].Content, nil })
		if rows[w.Scope] = row; row != nil {
			row.Writer = writerIn(o, w.Scope)
		}
	case w.Absent:
		rows[w.Scope] = nil
	default:
		rows[w.Scope] = &topology.ShardRow{Scope: w.Scope, Version: o.Seq, Type: w.Type, Content: w.Content, Ref: w.Ref,
			Writer: writerIn(o, w.Scope), Restored: w.Restored}
	}
	if counts[w.Scope] == nil {
		counts[w.Scope] = &topology.WriteCount{}
	}
	counts[w.Scope].Add(o.Seq, o.Seq-1, rows[w.Scope] == nil)
}

// writerIn is who counts as the writer of a shard from an outcome on: one that restores content names whose it is.
func writerIn(o *sequencer.Outcome, scope sequencer.Scope) sequencer.Writer {
	for _, w := range o.Writes {
		if w.Scope == scope {
			return w.Writer
		}
	}
	return sequencer.Writer{Seq: o.Seq, Tx: o.Tx}
}

// event is what lies at an offset, if anything still does.
func (l *Log) event(at int64) (ev *topology.Event, there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at < 0 || at >= int64(len(l.events)) || l.lost[at] {
		return nil, false
	}
	return l.events[at], true
}

// Lose takes the event at an offset away from those who read contents, as retention or a broken disk does.
func (l *Log) Lose(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = map[int64]bool{}
	}
	l.lost[at] = true
}

// Spoil changes the event at an offset.
func (l *Log) Spoil(at int64, how func(*topology.Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ev := *l.events[at]
	how(&ev)
	l.events[at] = &ev
}

func (l *Log) content(ref sequencer.Ref) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ref.Offset < 0 || int(ref.Offset) >= len(l.events) {
		return nil, fmt.Errorf("memlog: no event at %d", ref.Offset)
	}
	return l.events[ref.Offset].Content, nil
}

// way is how the log delivers.
const way = streams.WayNATS

// Say adds a decision of a test's own behind all that there are, as one of a fold that decides otherwise. What is
// appended later is kept and not decided any more: this fold does not know of that decision.
func (l *Log) Say(o sequencer.Outcome) (sequencer.Seq, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = true
	var before sequencer.Hash
	if n := len(l.outcomes); n > 0 {
		last := l.outcomes[n-1]
		before, o.Time, o.Floor = last.Chain, last.Time, last.Floor
	}
	o.Workspace, o.Seq, o.Offset = l.workspace, sequencer.Seq(len(l.outcomes)+1), l.offset
	o.Chain = o.ChainAfter(before)
	record, err := topology.EncodeOutcome(&o)
	if err != nil {
		return 0, err
	}
	l.records, l.outcomes = append(l.records, record), append(l.outcomes, &o)
	l.times = append(l.times, time.Now())
	l.tell()
	return o.Seq, nil
}
