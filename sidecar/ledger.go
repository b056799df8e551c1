package sidecar

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// The kinds of journal records.
const (
	recordJoined    = 'J' // a session began
	recordBegun     = 'B' // a transaction was opened for the agent
	recordEvent     = 'E' // an answered read, a write, or content: what goes to the events topic
	recordSealed    = 'S' // a seal is about to be appended; it carries the loose reads so far
	recordReopened  = 'R' // that seal was refused: the transaction is open and the loose reads are loose again
	recordDecided   = 'D' // the view showed the decision
	recordPublished = 'P' // the events of a session up to an index are in the events topic
	recordOwn       = 'O' // an agent may act on scopes by itself, or said what it did
	recordLoose     = 'L' // all loose reads of the default conversation at this point of a rewritten journal
	recordTalk      = 'C' // all those of another conversation; none: it has ended
	recordEffect    = 'F' // a tool call, whole: before it runs or is held; in a rewritten journal with its marks
	recordMark      = 'M' // what became of one
	recordSettled   = 'T' // the view showed that the transaction is settled
	recordShared    = 'A' // somebody else has owned its settlement
	recordOf        = 'H' // the first record: whose journal it is
	recordJoining   = 'I' // a join is about to be asked for
	recordWaits     = 'W' // what has to pass before what only the log knows is settled
	recordUntold    = 'G' // a 410 is owed: what the agent read before is lost; or conversations have had it
)

// keptDecided is how many decided transactions a ledger remembers, so that a restarted sidecar can answer for them.
const keptDecided = 1024

// joinedRecord is a session.
type joinedRecord struct {
	Agent       string
	Workspace   string
	Incarnation sequencer.Seq
	Boot        string `json:",omitempty"` // of the machine then
}

// txRecord is what a transaction's journal entries come to.
type txRecord struct {
	Tx          sequencer.TxID
	Incarnation sequencer.Seq
	Base        sequencer.Seq
	Begin       sequencer.Begin
	Attempt     int
	Refusals    int
	Decided     *decidedRecord    `json:",omitempty"`
	Sealed      bool              `json:",omitempty"`
	Reads       []sequencer.Read  `json:",omitempty"`
	Loose       []sequencer.Read  `json:",omitempty"` // taken over by its seal
	Own         []sequencer.Scope `json:",omitempty"` // handed to the agent to act on by itself
	Told        *sequencer.Settle `json:",omitempty"` // what it said that it did
	Foreign     bool              `json:",omitempty"` // another agent's, or of a journal that is lost: only settled here
	Shared      bool              `json:",omitempty"` // somebody else has owned its settlement: the log knows more
	Boot        string            `json:",omitempty"` // of the machine while it was begun

	effects []*gate.Progress // by index; nil once settled
}

// vain says that an earlier session began the transaction and left nothing of it: no seal, no call, no act of the
// agent's own. However the log ended it, there is nothing to find out.
func (t *txRecord) vain(joined sequencer.Seq) bool {
	return t.Incarnation < joined && !t.Sealed && t.Decided == nil && len(t.effects) == 0 && len(t.Own) == 0 &&
		t.Told == nil && !t.Foreign
}

type decidedRecord struct {
	Tx     sequencer.TxID
	State  string
	Code   sequencer.Code
	Seq    sequencer.Seq
	Scope  sequencer.Scope
	Moved  sequencer.Writer
	Detail string
	Final  bool
	Clean  bool `json:",omitempty"` // of a settlement: the release left no residue
	Calls  int  `json:",omitempty"` // of a seal: how many tool calls it carries

	By         string        `json:",omitempty"`
	Tool       string        `json:",omitempty"`
	MovedAgent string        `json:",omitempty"`
	Floor      sequencer.Seq `json:",omitempty"`
}

type publishedRecord struct {
	Incarnation sequencer.Seq
	Index       uint64
}

// ledger is the state that a journal's records come to: what a restarted sidecar must know of its predecessor.
type ledger struct {
	of      journalOf // zero: the journal is older than its header
	joined  joinedRecord
	joining []string // asked for since then
	waits   *waitsRecord
	notice  notice
	mixed   error // what it holds cannot be of one log and one agent
	txs     map[sequencer.TxID]*txRecord
	decided []sequencer.TxID // oldest first
	loose   talks            // answered outside transactions since the last seals
	pending []*topology.Event
	keys    keyring
}

func newLedger() *ledger { return &ledger{txs: map[sequencer.TxID]*txRecord{}, loose: talks{}} }

// apply adds one record, its kind first.
func (l *ledger) apply(record []byte) error {
	if len(record) == 0 {
		return fmt.Errorf("an empty record")
	}
	kind, body := record[0], record[1:]
	switch kind {
	case recordOf:
		return json.Unmarshal(body, &l.of)
	case recordJoining, recordWaits, recordUntold:
		return l.learned(kind, body)
	case recordJoined:
		var j joinedRecord
		if err := json.Unmarshal(body, &j); err != nil {
			return err
		}
		l.join(j)
		return nil
	case recordBegun:
		t := &txRecord{}
		if err := json.Unmarshal(body, t); err != nil {
			return err
		}
		l.begin(t)
		return nil
	case recordEvent:
		ev, err := topology.DecodeEvent(slices.Clone(body))
		if err != nil {
			return err
		}
		l.event(ev)
		return nil
	case recordPublished:
		var p publishedRecord
		if err := json.Unmarshal(body, &p); err != nil {
			return err
		}
		l.published(p)
		return nil
	case recordLoose, recordTalk:
		return l.applyLoose(kind, body)
	case recordOwn:
		var r ownRecord
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		l.applyOwn(&r)
		return nil
	case recordEffect, recordMark:
		return l.applyEffect(kind, body)
	case recordKey:
		return l.keys.apply(body)
	case recordSealed, recordReopened, recordDecided, recordSettled, recordShared:
		var d decidedRecord
		if err := json.Unmarshal(body, &d); err != nil {
			return err
		}
		return l.move(kind, &d)
	}
	return fmt.Errorf("a record of unknown kind %q", kind)
}

func (l *ledger) event(ev *topology.Event) {
	l.pending = append(l.pending, ev)
	if ev.Kind != topology.EventRead {
		return
	}
	read := sequencer.Read{Scope: ev.Scope, View: ev.View, Version: ev.Version, Writer: ev.Writer}
	if ev.Tx == "" {
		l.loose.add(ev.Session, read)
	} else if t := l.txs[ev.Tx]; t != nil {
		t.Reads = addRead(t.Reads, read)
	}
}

func (l *ledger) move(kind byte, d *decidedRecord) error {
	t := l.txs[d.Tx]
	if t == nil && (kind == recordDecided || kind == recordSettled || kind == recordShared) {
		return nil // decided before, and dropped since
	}
	if t == nil {
		return fmt.Errorf("a record of transaction %q, which never began", d.Tx)
	}
	switch kind {
	case recordSealed:
		t.Sealed, t.Loose = true, l.loose.take(t.Begin.Session)
		t.effects = t.effects[:min(len(t.effects), d.Calls)] // one that was journalled and then refused is not its own
	case recordReopened:
		l.loose.give(t.Begin.Session, t.Loose)
		t.Sealed, t.Loose = false, nil
	case recordSettled:
		l.settle(t, d.Clean)
	case recordShared:
		t.Shared = true
	default:
		l.decide(t, d)
	}
	return nil
}

func (l *ledger) decide(t *txRecord, d *decidedRecord) {
	again := t.Decided != nil
	t.Decided, t.Loose = d, nil
	if d.Final {
		t.strip()
	}
	if again {
		return
	}
	l.decided = append(l.decided, t.Tx)
	if len(l.decided) > keptDecided {
		l.forget()
	}
}

// forget drops the oldest decided transaction that nothing is left to do for.
func (l *ledger) forget() {
	for i, id := range l.decided {
		t := l.txs[id]
		if t == nil || t.Decided == nil || t.Decided.Final || len(t.effects) == 0 && len(t.Own) == 0 && t.Told == nil {
			delete(l.txs, id)
			l.decided = slices.Delete(l.decided, i, i+1)
			return
		}
	}
}

func (l *ledger) published(p publishedRecord) {
	l.pending = slices.DeleteFunc(l.pending, func(ev *topology.Event) bool {
		return ev.Incarnation == p.Incarnation && ev.Index <= p.Index
	})
}

// awaits reports whether events of a session are not known to be published.
func (l *ledger) awaits(incarnation sequencer.Seq) bool {
	return slices.ContainsFunc(l.pending, func(ev *topology.Event) bool { return ev.Incarnation == incarnation })
}

// records are the shortest journal that comes to the same ledger.
func (l *ledger) records() ([]journalRecord, error) {
	var out []journalRecord
	add := func(kind byte, v any) error {
		body, err := json.Marshal(v)
		out = append(out, journalRecord{kind, body})
		return err
	}
	if err := errors.Join(add(recordOf, l.of), add(recordJoined, l.joined), l.addLearned(add)); err != nil {
		return nil, err
	}
	for _, id := range l.order() {
		if err := add(recordBegun, l.txs[id]); err != nil {
			return nil, err
		}
		for _, p := range l.txs[id].effects {
			if err := add(recordEffect, p); err != nil {
				return nil, err
			}
		}
	}
	for _, ev := range l.pending {
		body, err := topology.EncodeEvent(ev)
		if err != nil {
			return nil, err
		}
		out = append(out, journalRecord{recordEvent, body})
	}
	// After the events: those of loose reads that a seal has taken would count as loose again.
	if err := add(recordLoose, l.loose[""]); err != nil {
		return nil, err
	}
	for _, talk := range slices.Sorted(maps.Keys(l.loose)) {
		if talk == "" {
			continue
		}
		if err := add(recordTalk, talkRecord{talk, l.loose[talk]}); err != nil {
			return nil, err
		}
	}
	keys, err := l.keys.records()
	return append(out, keys...), err
}

// order lists undecided transactions by name, then decided ones oldest first.
func (l *ledger) order() []sequencer.TxID {
	var open []sequencer.TxID
	for id, t := range l.txs {
		if t.Decided == nil {
			open = append(open, id)
		}
	}
	slices.Sort(open)
	return append(open, l.decided...)
}

// addRead adds a read to a footprint. The same scope at the same version is one read: if nothing moved in between
// both are right or both are wrong, and the older view is the stricter one.
func addRead(reads []sequencer.Read, r sequencer.Read) []sequencer.Read {
	for _, old := range reads {
		if old.Scope == r.Scope && old.Version == r.Version {
			return reads
		}
	}
	return append(reads, r)
}

// addLoose adds a read outside a transaction; reading a scope again replaces what was read of it before.
func addLoose(reads []sequencer.Read, r sequencer.Read) []sequencer.Read {
	for i, old := range reads {
		if old.Scope == r.Scope {
			reads[i] = r
			return reads
		}
	}
	return coarse(append(reads, r))
}

// mergeLoose gives back loose reads that were taken; those made since are newer.
func mergeLoose(taken, since []sequencer.Read) []sequencer.Read {
	out := slices.Clone(taken)
	for _, r := range since {
		out = addLoose(out, r)
	}
	return out
}

// together replaces any reads by one of everything.
func together(reads []sequencer.Read) []sequencer.Read {
	if len(reads) == 0 {
		return nil
	}
	all := sequencer.Read{Scope: api.EveryShard, View: reads[0].View}
	for _, r := range reads {
		all.View = min(all.View, r.View)
		if r.Version > all.Version {
			all.Version, all.Writer = r.Version, r.Writer
		}
	}
	all.Version = min(all.Version, all.View)
	return []sequencer.Read{all}
}

// maxLoose is how many scopes a session's loose reads name one by one.
const maxLoose = 192

// coarse replaces too many loose reads by one of everything at the oldest view: it refuses more, never less.
func coarse(reads []sequencer.Read) []sequencer.Read {
	if len(reads) <= maxLoose {
		return reads
	}
	return together(reads)
}
