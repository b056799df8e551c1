package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"math/big"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/sidecar/words"
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

// decision describes a transaction as it stands.
func (s *Agent) decision(t *tx) *api.Decision {
	switch o := t.ending(); {
	case o != nil:
		d := s.describe(t, o)
		d.State = view.StateOf(o)
		s.advise(t, d)
		return d
	case t.phase == phaseSealed && t.waiting != nil:
		d := s.describe(t, t.waiting)
		d.Seq, d.State = 0, api.StateSealed
		return d
	}
	d := s.describe(t, &sequencer.Outcome{})
	d.State = api.StateOpen
	if t.phase == phaseSealed {
		d.State = api.StateSealed
	}
	if t.waiting != nil {
		d.BlockedBy = words.Blockers(t.waiting)
	}
	return d
}

// describe takes over what an outcome says of a transaction.
func (s *Agent) describe(t *tx, o *sequencer.Outcome) *api.Decision {
	d := words.Decision(o)
	d.Tx, d.Workspace, d.Mode = string(t.id), s.workspace, t.begin.Mode.String()
	d.Base, d.Attempt, d.Final = uint64(t.base), t.attempt, t.final
	d.Overtaken, d.Session = t.overtaken, t.begin.Session
	if t.residue {
		d.Residue = append(d.Residue, string(t.id))
	}
	t.retraction.Tell(d)
	d.WaitedMs, d.AttemptsLeft = t.waited(s.clock.Now()), max(0, s.limits.Attempts-t.attempt)
	d.OwesSettlement = len(t.own) > 0 && o.Kind == sequencer.OutcomeAborted && !t.final
	if o.Code != "" && o.Kind == sequencer.OutcomeAborted {
		d.ReRead = s.reRead(t, o)
	}
	return d
}

// advise says how a further attempt should be made.
func (s *Agent) advise(t *tx, d *api.Decision) {
	if d.State != api.StateAborted || !d.Retryable {
		return
	}
	if t.attempt >= s.limits.Attempts {
		d.GiveUp, d.Retryable = true, false
		return
	}
	d.BackoffMs = int(backoff(t.attempt).Milliseconds()) + 1
}

// reRead names what to read again: what is known to have moved, else everything that was read.
func (s *Agent) reRead(t *tx, o *sequencer.Outcome) []string {
	var out []string
	for _, scope := range t.moved {
		out = append(out, string(scope))
	}
	if len(out) == 0 {
		for r := range t.everyRead {
			if o.Scope == "" || r.Scope.Overlaps(o.Scope) {
				out = append(out, string(r.Scope))
			}
		}
	}
	if len(out) == 0 && o.Scope != "" {
		out = append(out, string(o.Scope))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lost is the problem of a transaction whose session has ended.
func (s *Agent) lost(t *tx) error {
	p := api.Problemf(api.CodeSessionLost, "the session of %s has ended and the transaction with it: retry it, or "+
		"begin anew, and read again what it had read", t.id)
	for r := range t.everyRead {
		p.ReRead = append(p.ReRead, string(r.Scope))
	}
	slices.Sort(p.ReRead)
	p.ReRead = slices.Compact(p.ReRead)
	return p
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

// close takes a transaction out of the open ones. It stays known until Limits.Decided newer ones are over.
func (s *Agent) close(t *tx, to phase) {
	s.loop.Moved(&t.changed)
	if t.phase == phaseOpen || t.phase == phaseSealed {
		t.slim()
		s.open--
		s.order = append(s.order, t.id)
		s.trim()
	}
	if t.phase != phaseLost {
		t.phase = to
	}
	if !t.pins() {
		delete(s.active, t.id)
	}
	delete(s.sending, t.id)
	s.view.Leave(t.id)
}

// trim forgets transactions that are over, oldest first, beyond the limit.
func (s *Agent) trim() {
	for len(s.order) > s.limits.Decided {
		id := s.order[0]
		s.order = s.order[1:]
		if t := s.txs[id]; t != nil && !s.settle.Owes(id) {
			delete(s.txs, id)
		}
	}
}

// oldest is what the watermark may promise: nothing open is older.
func (s *Agent) oldest(at sequencer.Seq) sequencer.Seq {
	for _, t := range s.active {
		at = min(at, t.base)
		for _, r := range t.loose {
			at = min(at, r.View)
		}
	}
	for _, m := range s.asked { // an answer may make a read of that view
		at = min(at, m.view)
	}
	return s.loose.Oldest(at)
}

func decisionRecord(id sequencer.TxID, o *sequencer.Outcome) *journal.DecidedRecord {
	return &journal.DecidedRecord{Tx: id, State: view.StateOf(o), Code: o.Code, Seq: o.Seq, Scope: o.Scope,
		Moved:  o.Moved,
		Detail: o.Detail, Final: o.Final, By: o.By, Tool: o.Tool, MovedAgent: o.MovedAgent, Floor: o.Floor}
}

// traceOf is the span that a transaction's work belongs to.
func (s *Agent) traceOf(id sequencer.TxID) trace.SpanContext {
	if t := s.txs[id]; t != nil {
		return t.trace
	}
	return trace.SpanContext{}
}

// traces notes the span that a transaction's work belongs to from now on.
func (s *Agent) traces(ctx context.Context, t *tx) {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		t.trace = sc
	}
}

// Span is the span that a transaction's work belongs to; not valid: none, or the agent does not know it.
func Span(s *Agent, tx string) (span trace.SpanContext) {
	s.loop.Run(func() { span = s.traceOf(sequencer.TxID(tx)) })
	return span
}

// backoff is how long to wait before the next attempt: it grows with the attempts, and half of it is by chance, so
// that agents that were refused together do not come back together.
func backoff(attempt int) time.Duration {
	most := 2 * time.Millisecond << min(attempt, 7)
	n, err := rand.Int(rand.Reader, big.NewInt(int64(most/2)))
	if err != nil {
		return most
	}
	return most/2 + time.Duration(n.Int64())
}

// giveUp ends a transaction with an answer that the log has not given.
func (s *Agent) giveUp(t *tx, o *sequencer.Outcome) {
	t.early = o
	s.charge(t.begin.Session, false)
	s.close(t, phaseOver)
	if err := s.delivery.Record(journal.RecordDecided, decisionRecord(t.id, o)); err != nil {
		s.log.Error("an abort is not in the journal", "tx", string(t.id), "cause", err)
	}
}

// abortInLog sends the abort that an answer has anticipated, with what the answer says, and does not wait for it.
func (s *Agent) abortInLog(t *tx, o *sequencer.Outcome, signer string) {
	in := t.intent(sequencer.IntentAbort, s.agent, signer)
	in.Abort = &sequencer.Abort{Code: o.Code, Detail: o.Detail, Scope: o.Scope, Seq: o.Moved.Seq, Writer: o.Moved.Tx}
	s.active[t.id] = t // until the view shows the abort
	started := s.loop.Go(func(ctx context.Context) { s.repeat(ctx, t, in) })
	if !started {
		s.log.Warn("an abort was not sent; the end of the lease aborts the transaction", "tx", string(t.id))
	}
}

// drop ends a transaction that was never sealed and that nobody can come back to.
func (s *Agent) drop(t *tx, why string) {
	if t.decided() || t.phase != phaseOpen {
		return
	}
	o := &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Code: sequencer.CodeAbortedByAgent, Detail: why}
	s.giveUp(t, o)
	if t.begun {
		s.abortInLog(t, o, "")
	}
}

// lostTo ends a branch because its group has chosen another one. The log finds that by itself, whoever tells it.
func lostTo(t *tx, was sequencer.Writer) *sequencer.Outcome {
	return &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: t.id, Mode: t.begin.Mode, Moved: was,
		Code: sequencer.CodeLostBranch, Detail: "another branch of the group " + t.begin.Group + " was chosen"}
}

// tooOld ends a transaction that the log will not record any more: its base is below the floor.
func (s *Agent) tooOld(t *tx) {
	if t.decided() || t.phase == phaseLost {
		return
	}
	t.begun = false
	s.giveUp(t, &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: t.id, Code: sequencer.CodeTooOld, Retryable: true,
		Floor:  s.view.Settings().Floor,
		Detail: "it was open for so long that the workspace has forgotten where it began", Mode: t.begin.Mode})
}

// charge counts what models' answers have cost a conversation until a decision. A reader's commit is several of these.
func (s *Agent) charge(talk string, committed bool) {
	if !strings.HasPrefix(talk, readerTalk) {
		s.chargeReader(talk, committed)
	}
}

func (s *Agent) chargeReader(talk string, committed bool) {
	state := api.StateAborted
	if committed {
		state = api.StateCommitted
	}
	s.metrics.Tokens(string(state), s.covered.Decide(talk))
}
