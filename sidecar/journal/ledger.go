package journal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// The kinds of journal records.
const (
	RecordJoined    = 'J' // a session began
	RecordBegun     = 'B' // a transaction was opened for the agent
	recordEvent     = 'E' // an answered read, a write, or content: what goes to the events topic
	RecordSealed    = 'S' // a seal is about to be appended; it carries the loose reads so far
	RecordReopened  = 'R' // that seal was refused: the transaction is open and the loose reads are loose again
	RecordDecided   = 'D' // the view showed the decision
	recordPublished = 'P' // the events of a session up to an index are in the events topic
	RecordOwn       = 'O' // an agent may act on scopes by itself, or said what it did
	RecordLoose     = 'L' // all loose reads of the default conversation at this point of a rewritten journal
	RecordTalk      = 'C' // all those of another conversation; none: it has ended
	recordEffect    = 'F' // a tool call, whole: before it runs or is held; in a rewritten journal with its marks
	recordMark      = 'M' // what became of one
	RecordSettled   = 'T' // the view showed that the transaction is settled
	recordShared    = 'A' // its settlement had another owner
	RecordOf        = 'H' // the first record: whose journal it is
	RecordJoining   = 'I' // a join is about to be asked for
	RecordWaits     = 'W' // what has to pass before what only the log knows is settled
	recordReader    = 'N' // a reader beside the conversations, or what it was given
	recordFormer    = 'X' // the names of readers that are forgotten
	recordEmptied   = 'Z' // what readers were given was taken away: their logs have ended
	RecordNotice    = 'G' // a 410 is owed: what the agent read before is lost; or conversations have had it
)

// keptDecided is how many decided transactions a ledger remembers, so that a restarted sidecar can answer for them.
const keptDecided = 1024

// JoinedRecord is a session.
type JoinedRecord struct {
	Agent       string
	Workspace   string
	Incarnation sequencer.Seq
	Boot        string `json:",omitempty"` // of the machine then
	// Since is the session after which other processes of this agent may have been in its place, unknown to this
	// journal, up to this session; zero: none were.
	Since sequencer.Seq `json:",omitempty"`
	// Nowhere are transactions of earlier sessions of which the log was found to have nothing when this one began.
	Nowhere []sequencer.TxID `json:",omitempty"`
}

// TxRecord is what a transaction's journal entries come to.
type TxRecord struct {
	Tx          sequencer.TxID
	Incarnation sequencer.Seq
	Base        sequencer.Seq
	Begin       sequencer.Begin
	Attempt     int
	Refusals    int
	Decided     *DecidedRecord    `json:",omitempty"`
	Sealed      bool              `json:",omitempty"`
	Reads       []sequencer.Read  `json:",omitempty"`
	Loose       []sequencer.Read  `json:",omitempty"` // taken over by its seal
	Own         []sequencer.Scope `json:",omitempty"` // handed to the agent to act on by itself
	Told        *sequencer.Settle `json:",omitempty"` // what it said that it did
	Foreign     bool              `json:",omitempty"` // another agent's, or of a journal that is lost: only settled here
	Shared      bool              `json:",omitempty"` // its settlement had another owner: the log knows more
	Boot        string            `json:",omitempty"` // of the machine while it was begun
	Plan        []string          `json:",omitempty"` // ids of planned calls, by index; empty: no plan names it
	Nowhere     bool              `json:",omitempty"` // the log was read up to a later session, and has nothing of it
	Untold      []uint32          `json:",omitempty"` // calls whose answer is in no event; an older release names none

	effects []*gate.Progress // by index; nil once settled
}

// Vain says that the log has nothing to tell of a transaction of an earlier session: it was looked through for it, and
// nothing of it comes any more, or the transaction left no seal, no call, and no act of the agent's own.
func (t *TxRecord) Vain(joined sequencer.Seq) bool {
	return t.Nowhere || t.Incarnation < joined && !t.Sealed && t.Decided == nil && len(t.effects) == 0 &&
		len(t.Own) == 0 && t.Told == nil && !t.Foreign
}

// DecidedRecord is what a decision, a seal or a settlement made of a transaction; the record's kind says which.
type DecidedRecord struct {
	Tx     sequencer.TxID
	State  string
	Code   sequencer.Code
	Seq    sequencer.Seq
	Scope  sequencer.Scope
	Moved  sequencer.Writer
	Detail string
	Final  bool
	Clean  bool `json:",omitempty"` // of a settlement: the release left no residue
	Calls  int  `json:",omitempty"` // of a seal: how many indexes of tool calls it carries

	Absent []uint32 `json:",omitempty"` // of a seal: those of them that no call has

	By         string        `json:",omitempty"`
	Tool       string        `json:",omitempty"`
	MovedAgent string        `json:",omitempty"`
	Floor      sequencer.Seq `json:",omitempty"`
}

// json is the record as json.Marshal says it, without reflection: each commit has two of them.
func (d *DecidedRecord) json() []byte {
	b := make([]byte, 0, 320)
	text := func(name, value string, always bool) {
		if always || value != "" {
			b = appendText(append(append(append(b, ',', '"'), name...), '"', ':'), value)
		}
	}
	number := func(name string, value uint64, always bool) {
		if always || value != 0 {
			b = strconv.AppendUint(append(append(append(b, ',', '"'), name...), '"', ':'), value, 10)
		}
	}
	b = appendText(append(b, `{"Tx":`...), string(d.Tx))
	text("State", d.State, true)
	text("Code", string(d.Code), true)
	number("Seq", uint64(d.Seq), true)
	text("Scope", string(d.Scope), true)
	b = strconv.AppendUint(append(b, `,"Moved":{"Seq":`...), uint64(d.Moved.Seq), 10)
	text("Tx", string(d.Moved.Tx), true)
	b = append(strconv.AppendBool(append(b, `,"Residue":`...), d.Moved.Residue), '}')
	text("Detail", d.Detail, true)
	b = strconv.AppendBool(append(b, `,"Final":`...), d.Final)
	if d.Clean {
		b = append(b, `,"Clean":true`...)
	}
	if d.Calls != 0 {
		b = strconv.AppendInt(append(b, `,"Calls":`...), int64(d.Calls), 10)
	}
	if len(d.Absent) > 0 {
		b = append(b, `,"Absent":[`...)
		for _, index := range d.Absent {
			b = append(strconv.AppendUint(b, uint64(index), 10), ',')
		}
		b[len(b)-1] = ']'
	}
	text("By", d.By, false)
	text("Tool", d.Tool, false)
	text("MovedAgent", d.MovedAgent, false)
	number("Floor", uint64(d.Floor), false)
	return append(b, '}')
}

type publishedRecord struct {
	Incarnation sequencer.Seq
	Index       uint64
}

// Ledger is the state that a journal's records come to: what a restarted sidecar must know of its predecessor.
type Ledger struct {
	Of      Of // zero: the journal is older than its header
	Joined  JoinedRecord
	Joining []string // asked for since then, or since Joined.Since
	Waits   *WaitsRecord
	Notice  Notice
	Mixed   error // what it holds cannot be of one log and one agent
	Txs     map[sequencer.TxID]*TxRecord
	Decided []sequencer.TxID // oldest first
	Loose   Talks            // answered outside transactions since the last seals
	Readers Readers
	Pending []*topology.Event
	keys    keyring
}

// newLedger is what an empty journal comes to.
func newLedger() *Ledger { return &Ledger{Txs: map[sequencer.TxID]*TxRecord{}, Loose: Talks{}} }

// take adds a record of this process: what each transaction has several of is not read back from what was written.
func (l *Ledger) take(kind byte, body []byte, v any) error {
	switch v := v.(type) {
	case *TxRecord:
		t := *v // its lists grow here, and the caller's beside it
		t.Reads, t.Loose, t.Own = slices.Clone(t.Reads), slices.Clone(t.Loose), slices.Clone(t.Own)
		t.Begin.May, t.Plan = slices.Clone(t.Begin.May), slices.Clone(t.Plan)
		l.begin(&t)
		return nil
	case *DecidedRecord:
		d := *v
		return l.move(kind, &d)
	case *ReaderRecord:
		l.Readers.take(v)
		return nil
	}
	return l.apply(append([]byte{kind}, body...))
}

// apply adds one record, its kind first.
func (l *Ledger) apply(record []byte) error {
	if len(record) == 0 {
		return fmt.Errorf("an empty record")
	}
	kind, body := record[0], record[1:]
	switch kind {
	case RecordOf:
		return json.Unmarshal(body, &l.Of)
	case RecordJoining, RecordWaits, RecordNotice:
		return l.learned(kind, body)
	case RecordJoined:
		var j JoinedRecord
		if err := json.Unmarshal(body, &j); err != nil {
			return err
		}
		l.join(j)
		return nil
	case RecordBegun:
		t := &TxRecord{}
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
	case RecordLoose, RecordTalk:
		return l.applyLoose(kind, body)
	case recordReader:
		return l.Readers.apply(body)
	case recordFormer:
		return l.Readers.former.apply(body)
	case recordEmptied:
		l.Readers.empty()
		return nil
	case RecordOwn:
		var r OwnRecord
		if err := json.Unmarshal(body, &r); err != nil {
			return err
		}
		l.applyOwn(&r)
		return nil
	case recordEffect, recordMark:
		return l.applyEffect(kind, body)
	case RecordKey:
		return l.keys.apply(body)
	case RecordSealed, RecordReopened, RecordDecided, RecordSettled, recordShared:
		var d DecidedRecord
		if err := json.Unmarshal(body, &d); err != nil {
			return err
		}
		return l.move(kind, &d)
	}
	return fmt.Errorf("a record of unknown kind %q", kind)
}

func (l *Ledger) event(ev *topology.Event) {
	l.Pending = append(l.Pending, ev)
	t := l.Txs[ev.Tx]
	if t != nil && ev.Plan != nil {
		t.plan(ev.Plan)
	}
	if x := ev.Effect; t != nil && ev.Kind == topology.EventAnswer && x != nil && gate.Step(x.Step) == gate.StepAnswered {
		if _, byHand := x.Hand(); !byHand { // what came of a try by hand is another answer
			t.tell(x.Index)
		}
	}
	if ev.Kind != topology.EventRead {
		return
	}
	read := sequencer.Read{Scope: ev.Scope, View: ev.View, Version: ev.Version, Writer: ev.Writer}
	if ev.Tx == "" {
		l.Loose.Add(ev.Session, read)
	} else if t != nil {
		t.Reads = AddRead(t.Reads, read)
	}
}

// tell notes that the events have the answer of a call.
func (t *TxRecord) tell(index uint32) {
	t.Untold = slices.DeleteFunc(t.Untold, func(i uint32) bool { return i == index })
	if t.Decided != nil && t.Decided.Final {
		t.strip()
	}
}

// untell notes that a call has an answer which is in no event yet.
func (t *TxRecord) untell(index uint32) {
	if !slices.Contains(t.Untold, index) {
		t.Untold = append(t.Untold, index)
	}
}

// untold reports whether a call has an answer that only this journal has.
func (t *TxRecord) untold(p *gate.Progress) bool {
	return p.Answer != nil && slices.Contains(t.Untold, p.Index)
}

// move applies a record that changes where a transaction stands. It fails where the transaction never began: then the
// journal is damaged.
func (l *Ledger) move(kind byte, d *DecidedRecord) error {
	t := l.Txs[d.Tx]
	if t == nil && (kind == RecordDecided || kind == RecordSettled || kind == recordShared) {
		return nil // decided before, and dropped since
	}
	if t == nil {
		return fmt.Errorf("a record of transaction %q, which never began", d.Tx)
	}
	switch kind {
	case RecordSealed:
		t.Sealed, t.Loose = true, l.Loose.Take(t.Begin.Session)
		t.effects = slices.DeleteFunc(t.effects, func(p *gate.Progress) bool { // journalled and then refused: not its own
			return int(p.Index) >= d.Calls || slices.Contains(d.Absent, p.Index)
		})
	case RecordReopened:
		l.Loose.Give(t.Begin.Session, t.Loose)
		t.Sealed, t.Loose = false, nil
	case RecordSettled:
		l.settle(t, d.Clean)
	case recordShared:
		t.Shared = true
	default:
		l.decide(t, d)
	}
	return nil
}

// decide notes a decision; a second one of the same transaction replaces the first. Beyond the bound the oldest go.
func (l *Ledger) decide(t *TxRecord, d *DecidedRecord) {
	again := t.Decided != nil
	if t.Decided = d; d.Seq != 0 { // what the view alone refused is in no log: its request may come again, and needs them
		t.Loose = nil
	}
	if d.Final {
		t.strip()
	}
	if again {
		return
	}
	l.Decided = append(l.Decided, t.Tx)
	if len(l.Decided) > keptDecided {
		l.forget()
	}
}

// forget drops the oldest decided transaction that nothing is left to do, or to tell, for.
func (l *Ledger) forget() {
	for i, id := range l.Decided {
		t := l.Txs[id]
		if t != nil && slices.ContainsFunc(t.effects, t.untold) {
			continue // a retraction may need the answer, and it is nowhere else
		}
		if t == nil || t.Decided == nil || t.Decided.Final || len(t.effects) == 0 && len(t.Own) == 0 && t.Told == nil {
			delete(l.Txs, id)
			l.Decided = slices.Delete(l.Decided, i, i+1)
			return
		}
	}
}

func (l *Ledger) published(p publishedRecord) {
	l.Pending = slices.DeleteFunc(l.Pending, func(ev *topology.Event) bool {
		return ev.Incarnation == p.Incarnation && ev.Index <= p.Index
	})
}

// awaits reports whether events of a session are not known to be published.
func (l *Ledger) awaits(incarnation sequencer.Seq) bool {
	return slices.ContainsFunc(l.Pending, func(ev *topology.Event) bool { return ev.Incarnation == incarnation })
}

// Records are the shortest journal that comes to the same ledger.
func (l *Ledger) Records() ([]Entry, error) {
	var out []Entry
	add := func(kind byte, v any) error {
		body, err := json.Marshal(v)
		out = append(out, Entry{kind, body})
		return err
	}
	if err := errors.Join(add(RecordOf, l.Of), add(RecordJoined, l.Joined), l.addLearned(add)); err != nil {
		return nil, err
	}
	for _, id := range l.Order() {
		if err := add(RecordBegun, l.Txs[id]); err != nil {
			return nil, err
		}
		for _, p := range l.Txs[id].effects {
			if err := add(recordEffect, p); err != nil {
				return nil, err
			}
		}
	}
	for _, ev := range l.Pending {
		body, err := topology.EncodeEvent(ev)
		if err != nil {
			return nil, err
		}
		out = append(out, Entry{recordEvent, body})
	}
	// After the events: those of loose reads that a seal has taken would count as loose again.
	if err := add(RecordLoose, l.Loose[""]); err != nil {
		return nil, err
	}
	for _, talk := range slices.Sorted(maps.Keys(l.Loose)) {
		if talk == "" {
			continue
		}
		if err := add(RecordTalk, TalkRecord{talk, l.Loose[talk]}); err != nil {
			return nil, err
		}
	}
	for _, rec := range l.Readers.records() {
		kind := byte(recordReader)
		if _, former := rec.(blurred); former {
			kind = recordFormer
		}
		if err := add(kind, rec); err != nil {
			return nil, err
		}
	}
	keys, err := l.keys.Records()
	return append(out, keys...), err
}

// Order lists undecided transactions by name, then decided ones oldest first.
func (l *Ledger) Order() []sequencer.TxID {
	var open []sequencer.TxID
	for id, t := range l.Txs {
		if t.Decided == nil {
			open = append(open, id)
		}
	}
	slices.Sort(open)
	return append(open, l.Decided...)
}

// AddRead adds a read to a footprint. The same scope at the same version is one read: if nothing moved in between
// both are right or both are wrong, and the older view is the stricter one.
func AddRead(reads []sequencer.Read, r sequencer.Read) []sequencer.Read {
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

// Together replaces any reads by one of everything.
func Together(reads []sequencer.Read) []sequencer.Read {
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

// MaxLoose is how many scopes a session's loose reads name one by one.
const MaxLoose = 192

// coarse replaces too many loose reads by one of everything at the oldest view: it refuses more, never less.
func coarse(reads []sequencer.Read) []sequencer.Read {
	if len(reads) <= MaxLoose {
		return reads
	}
	return Together(reads)
}

// applyEffect adds a tool call, or a mark on one. A transaction that the journal does not know is a Foreign one that
// is settled here.
func (l *Ledger) applyEffect(kind byte, body []byte) error {
	if kind == recordEffect {
		p := &gate.Progress{}
		if err := json.Unmarshal(body, p); err != nil {
			return err
		}
		p.Args = present(p.Args)
		tidy(p.Answer)
		tidy(p.UndoDone)
		t := l.Txs[p.Tx]
		if t == nil {
			t = &TxRecord{Tx: p.Tx, Incarnation: p.Incarnation, Foreign: true}
			l.Txs[p.Tx] = t
		}
		if t.effect(p.Index) < 0 && p.Answer != nil && Large(p.Answer) {
			t.untell(p.Index) // an older release's journal does not say it: such a one is told again
		}
		t.put(p)
		return nil
	}
	var m gate.Mark
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	tidy(m.Answer)
	t := l.Txs[m.Tx]
	if t == nil {
		return nil // settled since
	}
	at := t.effect(m.Index)
	switch {
	case at < 0 && len(t.effects) == 0:
		return nil // settled since
	case at < 0:
		return fmt.Errorf("a mark on call %d of %q, which was never made", m.Index, m.Tx)
	case t.withdraws(at, m):
		t.effects = slices.Delete(t.effects, at, at+1) // its touch was refused: another call may take its place
	default:
		if t.effects[at].Apply(m); m.Step == gate.StepAnswered {
			t.untell(m.Index)
		}
	}
	return nil
}

// present is a value as it was before it was written down: none is written as null, and read as four bytes.
func present(v json.RawMessage) json.RawMessage {
	if string(v) == "null" {
		return nil
	}
	return v
}

// tidy does that to an answer.
func tidy(a *gate.Answer) {
	if a != nil {
		a.Result, a.Saved = present(a.Result), present(a.Saved)
	}
}

// withdraws reports whether a mark takes an eager call back whose touch was refused: another may have its index. It is
// the last one, or later ones of its plan have come before it.
func (t *TxRecord) withdraws(at int, m gate.Mark) bool {
	p := t.effects[at]
	return m.Step == gate.StepDropped && p.Tool.Class.Eager() && !p.Started
}

// put adds a call at its index: those of a plan come in any order, and are settled in this one. One that never ran is
// replaced by the next with its index.
func (t *TxRecord) put(p *gate.Progress) {
	if p.Answer == nil { // of the one that it replaces nothing is left to tell
		t.Untold = slices.DeleteFunc(t.Untold, func(i uint32) bool { return i == p.Index })
	}
	at, found := slices.BinarySearchFunc(t.effects, p.Index, func(o *gate.Progress, index uint32) int {
		return cmp.Compare(o.Index, index)
	})
	if found {
		t.effects[at] = p
		return
	}
	t.effects = slices.Insert(t.effects, at, p)
}

// plan notes the ids of planned calls. Its event may be read twice: of a rewritten journal and beside it.
func (t *TxRecord) plan(p *topology.Plan) {
	for len(t.Plan) < int(p.First)+len(p.Calls) {
		t.Plan = append(t.Plan, "")
	}
	copy(t.Plan[p.First:], p.Calls)
}

func (t *TxRecord) effect(index uint32) int {
	for i, p := range t.effects {
		if p.Index == index {
			return i
		}
	}
	return -1
}

// settle: nothing is left to do for the transaction.
func (l *Ledger) settle(t *TxRecord, clean bool) {
	t.strip()
	switch {
	case t.Foreign:
		delete(l.Txs, t.Tx)
	case t.Decided != nil:
		t.Decided.Final, t.Decided.Clean = true, t.Decided.Clean || clean
	}
}

// strip keeps of the calls of a settled transaction what a list of them shows. A retraction finds the rest in the log:
// an answer only once its event is on its way, which of a large one is after its content is there.
func (t *TxRecord) strip() {
	for i, p := range t.effects {
		light := *p
		light.Args = nil
		if p.Answer != nil && !t.untold(p) {
			answer := *p.Answer
			if answer.Saved = nil; len(answer.Result) > InlineArgs {
				answer.Result = nil
			}
			light.Answer = &answer
		}
		t.effects[i] = &light
	}
}

// Large says that an answer travels by reference: its event follows its content.
func Large(a *gate.Answer) bool {
	if len(a.Result)+len(a.Saved)+len(a.Detail) < InlineArgs/2 {
		return false
	}
	body, err := json.Marshal(a)
	return err == nil && len(body) > InlineArgs
}

// effects are a transaction's tool calls with what is known of them, in issuance order; known is false when the
// ledger has nothing of the transaction.
func (l *Ledger) effectsOf(id sequencer.TxID) (out []gate.Progress, known bool) {
	t := l.Txs[id]
	if t == nil {
		return nil, false
	}
	for _, p := range t.effects {
		out = append(out, *p)
	}
	return out, true
}

// CallsIn folds a transaction's events into what is known of its calls; effect makes a call of its event, and what
// skip holds for is not about a call's first life. Of two calls with one index the last counts: the former never ran.
// What others say of them comes after what their issuer says, also where they joined before it.
func CallsIn(id sequencer.TxID, events []*topology.Event, effect func(*topology.Event) gate.Effect,
	skip func(*topology.Event) bool) ([]gate.Progress, error) {
	t := &TxRecord{}
	_, issuer, _, _ := api.OwnerOf(id)
	var own, others []*topology.Event
	for _, ev := range events {
		if ev.Incarnation == issuer {
			own = append(own, ev)
		} else {
			others = append(others, ev)
		}
	}
	made := map[uint32]bool{} // by others, to find out: that the issuer gave such a call up counts no longer
	for _, ev := range others {
		if ev.Kind == topology.EventAnswer && ev.Effect != nil && gate.Step(ev.Effect.Step) == gate.StepAnswered {
			made[ev.Effect.Index] = true
		}
	}
	for i, ev := range append(own, others...) {
		if ev.Effect == nil || ev.Tx != id || skip(ev) {
			continue
		}
		if i < len(own) && gate.Step(ev.Effect.Step) == gate.StepDropped && ev.Kind == topology.EventAnswer &&
			made[ev.Effect.Index] {
			continue
		}
		if ev.Kind == topology.EventEffect {
			t.put(&gate.Progress{Effect: effect(ev)})
			continue
		}
		if err := t.marked(ev); err != nil {
			return nil, err
		}
	}
	out := make([]gate.Progress, 0, len(t.effects))
	for _, p := range t.effects {
		out = append(out, *p)
	}
	return out, nil
}

// marked takes over what an event says of a call.
func (t *TxRecord) marked(ev *topology.Event) error {
	x := ev.Effect
	at := t.effect(x.Index)
	if at < 0 {
		return nil
	}
	m := gate.Mark{Tx: ev.Tx, Index: x.Index, Step: gate.Step(x.Step), Detail: x.Detail}
	if len(x.Answer) > 0 {
		m.Answer = &gate.Answer{}
		if err := json.Unmarshal(x.Answer, m.Answer); err != nil {
			return fmt.Errorf("read an answer of %s, call %d: %w", ev.Tx, x.Index, err)
		}
	}
	if t.withdraws(at, m) {
		t.effects = slices.Delete(t.effects, at, at+1)
		return nil
	}
	t.effects[at].Apply(m)
	return nil
}
