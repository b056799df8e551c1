package agent

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/view"
)

// phase is where a transaction of this sidecar stands, as far as the sidecar itself decides it.
type phase uint8

const (
	phaseOpen   phase = iota
	phaseSealed       // its seal is on its way to the log, or there
	phaseOver         // answered from the view, aborted by the agent, or decided
	phaseLost         // its session ended first
)

// fate is what is known of a transaction of the process before this one.
type fate uint8

const (
	fateKnown  fate = iota // its decision, or that there is none: its seal never reached the log
	fateUnread             // the log has not been read yet
	fateGone               // it was sealed, and the log cannot be read that far back
)

// tx is a transaction of this sidecar's agent.
type tx struct {
	changed loop.Watched // by what turns a condition true that untilTx waits for
	busy    bool         // Invariant: while it is set one flow alone adds to the transaction

	id          sequencer.TxID
	incarnation sequencer.Seq
	base        sequencer.Seq
	begin       sequencer.Begin
	attempt     int              // 1-based
	refusals    int              // of its predecessors
	first       []sequencer.Want // what its first touch asks for; nil: nothing
	created     time.Time
	sentAt      time.Time         // of the seal, to the log
	ackedAt     time.Time         // of the seal, by the log
	trace       trace.SpanContext // that its work belongs to; not valid: none

	phase     phase
	begun     bool // a record in the log may carry its begin: one that was sent, or is on its way
	shown     bool // a decision shows that the log has begun it
	n         map[sequencer.IntentKind]uint32
	reads     []sequencer.Read
	loose     []sequencer.Read // of its session, taken over by its seal
	writes    []sequencer.ShardWrite
	touches   []sequencer.TouchReport
	granted   []sequencer.Want
	effects   []*issued // tool calls that run or are held, by index
	callAtMs  int64     // of the last call; no two have one time, since a start tells by it which came later
	places    []*place  // by index, up to the last planned one; Invariant: effects has what is made at each of them
	plans     int       // that the events topic has not acknowledged
	pinned    []sequencer.Pin
	own       []sequencer.Scope // handed to the agent to act on by itself
	asking    *sequencer.Intent // a touch that is not answered yet
	overtaken *api.Overtaken
	moved     []sequencer.Scope // all reads that were overtaken
	seal      *sequencer.Intent
	early     *sequencer.Outcome // an answer that the log has not given yet; it has no seq

	outcome    *sequencer.Outcome // committed or aborted, from the view
	final      bool
	retraction view.Retracting
	waiting    *sequencer.Outcome // the last of its kind
	refused    *sequencer.Outcome

	waitingSince time.Time // zero: it does not wait
	waitedFor    time.Duration

	residue   bool // its settlement left some
	clean     bool // the settlement of its release left none
	successor sequencer.TxID

	sealedBefore bool // by the process before this one
	fate         fate
}

func newTx(id sequencer.TxID, inc, base sequencer.Seq, begin sequencer.Begin, now time.Time) *tx {
	return &tx{
		id: id, incarnation: inc, base: base, begin: begin, attempt: 1, created: now,
		n: map[sequencer.IntentKind]uint32{},
	}
}

// pins reports whether the watermark may not pass the transaction's base: its decision is not in the view.
func (t *tx) pins() bool {
	return t.outcome == nil && t.phase != phaseLost && (t.phase != phaseOver || t.begun)
}

// gone reports whether the transaction went with its session: it was not sealed, or its seal never reached the log.
func (t *tx) gone() bool {
	expired := t.outcome != nil && t.outcome.Code == sequencer.CodeLeaseExpired && t.seal == nil && !t.sealedBefore
	return t.phase == phaseLost && t.fate == fateKnown && t.early == nil && (t.outcome == nil || expired)
}

// decided reports whether the agent has been, or can be, told how the transaction ended.
func (t *tx) decided() bool { return t.outcome != nil || t.early != nil }

// intent makes the next intent of a kind. Each carries the begin until a decision shows the transaction: what went
// before may have been refused, or never arrive. The log takes the begin of the first and passes over the others.
// signer is the key that has signed the request behind it, see api.SignerOf.
func (t *tx) intent(kind sequencer.IntentKind, agent, signer string) *sequencer.Intent {
	t.n[kind]++
	in := &sequencer.Intent{
		Kind: kind, Tx: t.id, N: t.n[kind], Agent: agent, Incarnation: t.incarnation, Base: t.base,
		Signer: signer,
	}
	if !t.shown && kind != sequencer.IntentSettle {
		begin := t.begin
		in.Begin, t.begun = &begin, true
	}
	return in
}

// write is the transaction's own write of a shard, if there is one.
func (t *tx) write(scope sequencer.Scope) *sequencer.ShardWrite {
	for i := range t.writes {
		if t.writes[i].Scope == scope {
			return &t.writes[i]
		}
	}
	return nil
}

// holds reports whether a grant covers what is wanted.
func (t *tx) holds(w sequencer.Want) bool {
	for _, g := range t.granted {
		if g.Scope.Covers(w.Scope) && g.Access >= w.Access {
			return true
		}
	}
	return false
}

// take adds what the log granted.
func (t *tx) take(o *sequencer.Outcome) {
	t.waiting = nil
	if t.asking == nil || o.Intent != t.asking.ID() {
		return
	}
	t.granted = append(t.granted, t.asking.Touch.Wants...)
	t.touches = append(t.touches, sequencer.TouchReport{N: t.asking.N, Known: true})
	t.asking = nil
}

// footprint is what a successor asks for at first when the transaction was refused for a conflict.
func (t *tx) footprint() []sequencer.Want {
	var out []sequencer.Want
	for _, w := range t.writes {
		out = append(out, sequencer.Want{Scope: w.Scope, Access: sequencer.WriteAccess})
	}
	for _, i := range t.effects {
		for _, scope := range i.effect.Tool.Scopes {
			out = append(out, sequencer.Want{Scope: scope, Access: sequencer.WriteAccess})
		}
	}
	for _, scope := range t.own {
		out = append(out, sequencer.Want{Scope: scope, Access: sequencer.WriteAccess})
	}
	for r := range t.everyRead {
		out = append(out, sequencer.Want{Scope: r.Scope, Access: sequencer.ReadAccess})
	}
	return out
}

// allReads are the transaction's own reads and the loose ones that its seal carries.
func (t *tx) allReads() []sequencer.Read { return slices.Concat(t.reads, t.loose) }

// everyRead goes over them without making a list.
func (t *tx) everyRead(yield func(sequencer.Read) bool) {
	for _, list := range [...][]sequencer.Read{t.reads, t.loose} {
		for _, r := range list {
			if !yield(r) {
				return
			}
		}
	}
}

// overtake notes which reads a decision has written over. It reports whether one was.
func (t *tx) overtake(o *sequencer.Outcome) bool {
	found := false
	for _, r := range t.reads {
		at := writtenOver(o, r.Scope)
		if r.View >= o.Seq || at == "" {
			continue
		}
		found = true
		t.moved = api.AddScope(t.moved, r.Scope)
		if t.overtaken == nil {
			t.overtaken = overtakenBy(o, r.Scope, at)
		}
	}
	return found
}

// slim drops contents that no request can ask for any more. What is on its way to the log has its own copy.
func (t *tx) slim() {
	writes := make([]sequencer.ShardWrite, len(t.writes))
	for i, w := range t.writes {
		writes[i] = sequencer.ShardWrite{Scope: w.Scope}
	}
	t.writes = writes
	if t.seal != nil {
		t.seal = &sequencer.Intent{Kind: t.seal.Kind, Tx: t.seal.Tx, N: t.seal.N}
	}
}

// writtenOver is the first that a decision moved of what a scope names; empty: nothing.
func writtenOver(o *sequencer.Outcome, scope sequencer.Scope) sequencer.Scope {
	for i := range o.Writes {
		if o.Writes[i].Scope.Overlaps(scope) {
			return o.Writes[i].Scope
		}
	}
	for i := range o.Shards {
		if o.Shards[i].Scope.Overlaps(scope) {
			return o.Shards[i].Scope
		}
	}
	return ""
}

func overtakenBy(o *sequencer.Outcome, read, written sequencer.Scope) *api.Overtaken {
	return &api.Overtaken{Scope: string(read), Written: string(written), Seq: uint64(o.Seq), Writer: string(o.Tx)}
}

// levels are the checks that the transaction would be judged under now.
func (t *tx) levels(s view.Settings) sequencer.Levels { return levelsUnder(&t.begin, s) }

func levelsUnder(begin *sequencer.Begin, s view.Settings) sequencer.Levels {
	if begin.Levels != nil {
		return *begin.Levels
	}
	return s.Rules.Levels
}

// sortByBegin brings transactions of one agent into the order of their begin.
func sortByBegin(list []*tx) {
	number := func(t *tx) uint64 {
		_, _, n, _ := api.OwnerOf(t.id)
		return n
	}
	slices.SortFunc(list, func(a, b *tx) int {
		return cmp.Or(cmp.Compare(a.incarnation, b.incarnation), cmp.Compare(number(a), number(b)))
	})
}

// issued is a tool call of a transaction that is in the delivery log.
type issued struct {
	effect gate.Effect
	acked  bool // the events topic has it
}

// place is an index of a transaction's calls, up to the last one that is planned.
type place struct {
	call   string // its id in the plan; empty: the index was given before, to a call that no plan names
	state  placeState
	sum    [sha256.Size]byte // of what comes or came under the id
	claims int               // requests that have worked on it
	moves  []sequencer.Scope // of a call that comes and runs before the commit
	made   *issued           // nil: none has the index, or what came was a read or a write
	answer *api.Receipt      // of a write: a repetition is not another one
}

type placeState uint8

const (
	placeMissing placeState = iota // a later call may wait for it
	placeComing                    // a request works on it
	placeCome
	placePassed // a later call has waited for it in vain: it cannot come any more
)

// pin adds a tool that the transaction's plan relies on.
func (t *tx) pin(p sequencer.Pin) {
	if !slices.Contains(t.pinned, p) {
		t.pinned = append(t.pinned, p)
	}
}

// size is how many scopes the transaction names.
func (t *tx) size() int {
	n := len(t.reads) + len(t.writes) + len(t.pinned) + len(t.own) + min(1, len(t.own)) + t.next() - len(t.effects)
	for _, i := range t.effects {
		n += 1 + len(i.effect.Tool.Scopes)
	}
	return n
}

// next is the index of a call that no plan names.
func (t *tx) next() int {
	n := len(t.places)
	if last := len(t.effects) - 1; last >= 0 {
		n = max(n, int(t.effects[last].effect.Index)+1)
	}
	return n
}

// put adds a call at its index.
func (t *tx) put(i *issued) {
	at, _ := slices.BinarySearchFunc(t.effects, i.effect.Index, func(o *issued, index uint32) int {
		return cmp.Compare(o.effect.Index, index)
	})
	t.effects = slices.Insert(t.effects, at, i)
	if p := t.placeAt(i.effect.Index); p != nil {
		p.state, p.made, p.moves = placeCome, i, nil
	}
}

// remove takes a call away that never ran; a planned one may come again. It reports whether the transaction had it.
func (t *tx) remove(i *issued) bool {
	at := slices.Index(t.effects, i)
	if at < 0 {
		return false
	}
	t.effects = slices.Delete(t.effects, at, at+1)
	if p := t.placeAt(i.effect.Index); p != nil {
		p.state, p.made = placeMissing, nil
	}
	return true
}

// placeAt is the place of a planned call; nil: no plan names the index.
func (t *tx) placeAt(index uint32) *place {
	if int(index) < len(t.places) && t.places[index].call != "" {
		return t.places[index]
	}
	return nil
}

// indexOf is the place of a planned call; negative: no plan names it.
func (t *tx) indexOf(call string) int {
	return slices.IndexFunc(t.places, func(p *place) bool { return p.call == call && call != "" })
}

// callAt is the id under which an index was planned; empty: it was not.
func (t *tx) callAt(index uint32) string {
	if p := t.placeAt(index); p != nil {
		return p.call
	}
	return ""
}

// ending is the decision, or the answer that was given before it where the log ended the transaction for another
// reason, or does not say why.
func (t *tx) ending() *sequencer.Outcome {
	switch {
	case t.early == nil || t.outcome == nil:
		return cmp.Or(t.outcome, t.early)
	case t.outcome.Code == t.early.Code && t.outcome.Scope == t.early.Scope && t.outcome.Moved == t.early.Moved:
		return t.outcome
	}
	told := *t.early
	told.Seq = t.outcome.Seq
	return &told
}

// waited is how long a transaction has waited for others, in milliseconds.
func (t *tx) waited(now time.Time) int64 {
	d := t.waitedFor
	if !t.waitingSince.IsZero() {
		d += now.Sub(t.waitingSince)
	}
	return d.Milliseconds()
}

// noteWait keeps how long a transaction has waited for others.
func (t *tx) noteWait(o *sequencer.Outcome, now time.Time) {
	switch o.Kind {
	case sequencer.OutcomeWaiting:
		if t.waitingSince.IsZero() {
			t.waitingSince = now
		}
	case sequencer.OutcomeGranted, sequencer.OutcomeCommitted, sequencer.OutcomeAborted, sequencer.OutcomeRefused:
		if !t.waitingSince.IsZero() {
			t.waitedFor += now.Sub(t.waitingSince)
			t.waitingSince = time.Time{}
		}
	}
}

func (t *tx) refusedFor(in *sequencer.Intent) bool {
	return t.refused != nil && t.refused.Intent == in.ID()
}
