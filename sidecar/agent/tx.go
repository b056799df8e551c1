package agent

import (
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

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

	waitingSince time.Time // zero: it waits for nobody
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

// slim drops contents that nobody can ask for any more. What is on its way to the log has its own copy.
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

// find is the transaction that a route names.
func (s *Agent) find(id sequencer.TxID) (*tx, error) {
	agent, inc, _, ok := api.OwnerOf(id)
	if !ok {
		return nil, api.Problemf(api.CodeUnknownTx, "%.100q is not the id of a transaction", string(id))
	}
	if agent != s.agent {
		return nil, api.Problemf(api.CodeOtherAgent, "%s is a transaction of agent %s, and the request is of agent %s: "+
			"send it with the token of %s", id, agent, s.agent, agent)
	}
	t := s.txs[id]
	switch {
	case t != nil && t.fate == fateUnread:
		return nil, api.Problemf(api.CodeNotReady, "how %s ended is not known yet: the sidecar was started again and "+
			"has not read the log so far; ask again", id)
	case t != nil && t.fate == fateGone:
		return nil, api.Problemf(api.CodeForgotten, "%s was sealed, and how it ended is no longer in the log: look "+
			"at what it would have written, or GET /v1/tx/%s/closure, before its work is begun anew", id, id)
	case t != nil:
		return t, nil
	case inc == s.incarnation && s.knew(id):
		return nil, api.Problemf(api.CodeForgotten, "%s is over and no longer remembered", id)
	case inc < s.incarnation, s.incarnation == 0:
		return nil, api.Problemf(api.CodeSessionLost, "the session of %s has ended and nothing is known of it here "+
			"any more. If it was sealed, GET /v1/tx/%s/closure says how it ended; else begin a new transaction and "+
			"read again", id, id)
	}
	return nil, api.Problemf(api.CodeUnknownTx, "there is no transaction %s", id)
}

// knew: the id was given out in this session.
func (s *Agent) knew(id sequencer.TxID) bool {
	_, _, n, ok := api.OwnerOf(id)
	return ok && n >= 1 && n <= s.count
}
