package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// seal freezes a transaction's footprint and waits for its decision as long as ctx lasts; then the state is still
// sealed. Sealing again gives the same answer.
func (s *Agent) seal(ctx context.Context, t *tx) (*api.Decision, error) {
	if err := s.enter(ctx, t); err != nil { // another request adds to it
		return nil, err
	}
	sent, err := s.sendSeal(ctx, t)
	s.leave(t)
	if sent != nil { // the decision says more than how the append failed
		if s.through(ctx, t, func() bool { return sent.over }) == nil {
			err = sent.err
		}
	}
	if err != nil && (sent == nil || !errors.Is(err, api.ErrStopped)) {
		return nil, err
	}
	return s.settledAnswer(ctx, t)
}

// sent is what has become of an append that a task makes.
type sent struct {
	over bool
	err  error
}

// sendSeal freezes a transaction and sends its seal. nil: there is nothing to send, it was sent before, or the answer
// is known.
func (s *Agent) sendSeal(ctx context.Context, t *tx) (*sent, error) {
	if t.decided() || t.phase != phaseOpen {
		return nil, nil
	}
	s.traces(ctx, t)
	if err := s.prepare(ctx, t); err != nil {
		return nil, err
	}
	if err := s.flush(ctx, t); err != nil {
		return nil, err
	}
	var in *sequencer.Intent
	s.standInLine(ctx, t, s.conditions(t), scopesOf(t.writes, shardWritten),
		func() bool { return t.phase != phaseOpen || t.decided() || s.early(t) != nil })
	defer func() {
		if in == nil { // nothing is sent: those behind it need not wait
			s.leaveLine(t.id)
		}
	}()
	// From here on nothing gives way until the seal is made, or it is known that there is none.
	if t.phase != phaseOpen || t.decided() {
		return nil, nil
	}
	if !t.begun && t.base < s.view.Settings().Floor {
		s.tooOld(t)
		return nil, nil
	}
	out := &sent{}
	started := s.loop.Go(func(ctx context.Context) { // what is frozen is sent, even if its caller has stopped waiting
		if in == nil {
			return
		}
		again, err := s.sealInLog(ctx, t, in)
		out.over, out.err = true, err
		s.loop.Moved(&t.changed)
		if again && err == nil {
			s.passSeal(ctx, t, in)
		}
	})
	if !started { // nothing is frozen that would not be sent
		return nil, api.Problemf(api.CodeBusy, "%s is still open: the sidecar is stopping, or has too many appends under "+
			"way", t.id)
	}
	err := s.delivery.Record(journal.RecordSealed, &journal.DecidedRecord{Tx: t.id, Calls: t.next(), Absent: t.absent()})
	if err != nil {
		return nil, err
	}
	t.loose = s.loose.Take(t.begin.Session)
	if o := s.early(t); o != nil {
		s.refuseEarly(t, o, api.SignerOf(ctx))
		return nil, nil
	}
	delete(s.moved, t.begin.Session)
	in = s.footprint(t, api.SignerOf(ctx))
	return out, nil
}

// footprint is the seal's intent. Nothing is added to the transaction from here on.
func (s *Agent) footprint(t *tx, signer string) *sequencer.Intent {
	seal := &sequencer.Seal{Reads: t.allReads(), Shards: s.withFormer(t.writes), Touches: slices.Clone(t.touches),
		Effects: append(t.sealed(), t.ownEffects()...), Pins: slices.Clone(t.pinned)}
	if limit := int(s.view.Settings().Rules.MaxScopes); t.size()+len(t.loose) > limit {
		seal.Reads = append(append([]sequencer.Read(nil), t.reads...), journal.Together(t.loose)...)
	}
	in := t.intent(sequencer.IntentSeal, s.agent, signer)
	in.Seal = seal
	s.aged(t.begin.Session, seal.Reads)
	s.askHook(t, in)
	s.loop.Moved(&t.changed)
	t.seal, t.phase, t.sentAt, t.ackedAt = in, phaseSealed, s.clock.Now(), time.Time{}
	if s.sending == nil {
		s.sending = map[sequencer.TxID]*sending{}
	}
	s.sending[t.id] = &sending{intent: in}
	s.announce(t, seal)
	return in
}

// announce publishes the footprint's text, without contents.
func (s *Agent) announce(t *tx, seal *sequencer.Seal) {
	text := *seal
	text.Shards = append([]sequencer.ShardWrite(nil), seal.Shards...)
	for i := range text.Shards {
		text.Shards[i].Content = nil
	}
	err := s.delivery.RestEvent(&topology.Event{ // until the seal leaves
		Kind: topology.EventSeal, Workspace: s.workspace, Tx: t.id, Agent: s.agent, Incarnation: s.incarnation,
		AtMs: s.clock.Now().UnixMilli(), Seal: &text,
	})
	if err != nil {
		s.log.Warn("a footprint's text is not published; its decision names it by hash", "tx", string(t.id), "cause", err)
	}
}

// early is the answer that the view can already give: the log would give the same one, whatever comes in between,
// because a prefix that is stale stays stale. nil: the log has to be asked.
func (s *Agent) early(t *tx) *sequencer.Outcome {
	now := s.view.Settings()
	if t.begin.Observe || !now.Known || now.Rules.Observe {
		return nil
	}
	o := s.monotone(t, now)
	if o != nil && !answerable(o.Code) {
		panic("sidecar: " + string(t.id) + " would be answered " + string(o.Code) + " without the log")
	}
	return o
}

// answerable: a refusal with this code holds in every log that extends the view. The others may turn out differently.
func answerable(c sequencer.Code) bool {
	switch c {
	case sequencer.CodeStaleRead, sequencer.CodeVersionMismatch, sequencer.CodeCascade, sequencer.CodeLostBranch,
		sequencer.CodeTooOld:
		return true
	}
	return false
}

// monotone finds what makes a commit impossible in every log that extends the view.
func (s *Agent) monotone(t *tx, now view.Settings) *sequencer.Outcome {
	no := func(code sequencer.Code, scope sequencer.Scope, moved sequencer.Writer, detail string) *sequencer.Outcome {
		return &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: t.id, Code: code, Scope: scope, Moved: moved,
			Detail: cmp.Or(detail, "answered from the view at once"), Retryable: code.Retryable(), Mode: t.begin.Mode,
			By: sequencer.BySidecar, Floor: now.Floor}
	}
	if was, chosen := s.view.Choice(t.begin.Group); chosen && t.begin.Group != "" && was.Tx != t.id {
		return lostTo(t, was)
	}
	levels := t.levels(now)
	if levels&sequencer.A1 != 0 {
		if at := cmp.Or(t.overtaken, s.moved[t.begin.Session].first); at != nil {
			return no(sequencer.CodeStaleRead, sequencer.Scope(at.Written),
				sequencer.Writer{Seq: sequencer.Seq(at.Seq), Tx: sequencer.TxID(at.Writer)}, "")
		}
		for r := range t.everyRead {
			if r.View < now.Floor {
				return no(sequencer.CodeTooOld, r.Scope, sequencer.Writer{}, "the read is older than what the workspace remembers")
			}
		}
	}
	for _, w := range t.writes {
		if w.Expect == nil {
			continue
		}
		if rev, _ := s.view.Read(w.Scope); rev.At > w.Expect.View {
			return no(sequencer.CodeVersionMismatch, w.Scope, sequencer.Writer{Seq: rev.At, Tx: rev.By}, "")
		}
	}
	if levels&sequencer.A3 != 0 {
		for r := range t.everyRead {
			by, _ := s.view.Transaction(r.Writer)
			if by.Decision != nil && by.Decision.Kind == sequencer.OutcomeAborted {
				return no(sequencer.CodeCascade, r.Scope, sequencer.Writer{Seq: by.Decision.Seq, Tx: by.Tx}, "")
			}
		}
	}
	return nil
}

// refuseEarly answers from the view; the abort still goes into the log.
func (s *Agent) refuseEarly(t *tx, o *sequencer.Outcome, signer string) {
	loose := s.moved[t.begin.Session]
	t.moved = append(t.moved, loose.scopes...)
	if t.overtaken == nil {
		t.overtaken = loose.first
	}
	delete(s.moved, t.begin.Session)
	s.metrics.Early.Inc()
	s.giveUp(t, o)
	s.abortInLog(t, o, signer)
}

// settledAnswer waits for a sealed transaction's decision.
func (s *Agent) settledAnswer(ctx context.Context, t *tx) (*api.Decision, error) {
	mine := t.seal
	err := s.untilTx(ctx, t, func() bool {
		return t.decided() || t.phase != phaseSealed || t.seal != mine
	})
	switch {
	case t.gone():
		return nil, s.lost(t)
	case t.decided():
		return s.decision(t), nil
	case t.refused != nil && (err == nil || t.phase == phaseOpen): // known also where the sidecar stops by now
		return nil, s.refusedIntent(t)
	case err != nil && ctx.Err() == nil && !errors.Is(err, api.ErrStopped):
		return nil, err
	}
	return s.decision(t), nil // where the sidecar stops, the seal has left or may leave: a refusal would cause a retry
}

// abortTx ends a transaction at the agent's wish. The log decides: a seal that came first stands.
func (s *Agent) abortTx(ctx context.Context, t *tx, reason string) (*api.Decision, error) {
	if err := s.enter(ctx, t); err != nil {
		return nil, err
	}
	defer s.leave(t)
	var in *sequencer.Intent
	if !t.begun && t.base < s.view.Settings().Floor {
		s.tooOld(t)
	}
	if !t.decided() && t.phase != phaseLost {
		in = t.intent(sequencer.IntentAbort, s.agent, api.SignerOf(ctx))
		in.Abort = &sequencer.Abort{Code: sequencer.CodeAbortedByAgent, Detail: reason}
	}
	if in != nil {
		if err := s.send(ctx, t, in); err != nil {
			return nil, err
		}
	}
	err := s.untilTx(ctx, t, func() bool {
		return t.decided() || t.phase == phaseLost
	})
	switch {
	case t.gone():
		return nil, s.lost(t)
	case t.decided():
		return s.decision(t), nil
	}
	return nil, err
}

// status is a transaction's state; it waits, as long as ctx lasts, until there is something new to say.
func (s *Agent) status(ctx context.Context, t *tx) (*api.Decision, error) {
	err := s.untilTx(ctx, t, func() bool {
		return t.decided() || t.phase == phaseLost || t.phase == phaseOpen && t.overtaken != nil
	})
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if t.gone() {
		return nil, s.lost(t)
	}
	return s.decision(t), nil
}

// sealInLog appends a seal, again and again until an append is acknowledged or the view shows what it has led to.
// again: the log may have several copies.
func (s *Agent) sealInLog(ctx context.Context, t *tx, in *sequencer.Intent) (again bool, err error) {
	ctx = under(ctx, s.traceOf(t.id))
	err = s.loop.Retry(ctx, func() error {
		w := s.sending[t.id]
		if w == nil || w.intent != in {
			return nil
		}
		try, cancel := s.clock.Within(ctx, appendTry)
		defer cancel()
		at, err := s.append(try, in)
		if err == nil {
			s.sealAcked(t, w, at)
		}
		return err
	}, func(err error) {
		again = true
		s.metrics.AppendErrors.Inc()
		s.log.Warn("an append failed: it is unknown, and repeated", "intent", in.ID(), "cause", err)
	})
	return again, err
}

// passSeal opens a transaction whose seal was refused once the view is past the last of several copies. Of one that
// the log knows it answers a copy of what was refused with nothing new, and the view may not show that it knows it.
func (s *Agent) passSeal(ctx context.Context, t *tx, in *sequencer.Intent) {
	look := func() (w *sending) {
		if w = s.sending[t.id]; w != nil && w.intent != in {
			return nil
		}
		return w
	}
	over := func() bool { return look() == nil }
	err := s.untilTx(ctx, t, func() bool {
		w := look()
		return w == nil || w.refused != nil
	})
	if err != nil || over() {
		return
	}
	ask := s.probe()
	if o, err := s.ask(ctx, ask, over); o == nil || err != nil {
		return
	}
	if look() != nil && !t.shown {
		s.reopen(t)
	}
}

// sealAcked: the log has the last copy of a seal. The view may show its refusal already.
func (s *Agent) sealAcked(t *tx, w *sending, at int64) {
	t.ackedAt = s.clock.Now()
	w.acked, w.last = true, at
	if s.sending[t.id] == w && w.refused != nil && w.refused.Offset >= at {
		s.reopen(t)
	}
}

// sealRefused: a copy of a transaction's seal was refused. One that the log knows, or will not take for
// another reason than want of room, it refuses for good: a later copy is a duplicate.
func (s *Agent) sealRefused(t *tx, o *sequencer.Outcome) {
	w := s.sending[t.id]
	w.refused = o
	if t.shown || o.Code != sequencer.CodeLimit || w.acked && o.Offset >= w.last {
		s.reopen(t)
	}
}

// reopen: a transaction's seal was refused, and the log has no copy of it to come.
func (s *Agent) reopen(t *tx) {
	s.loop.Moved(&t.changed)
	t.refused = s.sending[t.id].refused
	delete(s.sending, t.id)
	t.phase, t.seal = phaseOpen, nil
	s.loose.Give(t.begin.Session, t.loose)
	t.loose = nil
	if err := s.delivery.Record(journal.RecordReopened, &journal.DecidedRecord{Tx: t.id}); err != nil {
		s.log.Error("a refused seal is not in the journal", "tx", string(t.id), "cause", err)
	}
}

// breakOff ends the transaction of a request that was refused before its seal was taken: no request names it again.
// With calls it is aborted in the log, once they have ended, and what ran is undone.
func (s *Agent) breakOff(t *tx) {
	open, called := t.phase == phaseOpen && !t.decided(), len(t.effects) > 0
	const why = "its only request was refused"
	switch {
	case !open:
	case !called:
		s.drop(t, why)
	default:
		s.abortLater(t, why)
	}
}

// abortLater aborts a transaction, even if its caller has stopped waiting.
func (s *Agent) abortLater(t *tx, why string) {
	started := s.loop.Go(func(ctx context.Context) {
		if _, err := s.abortTx(ctx, t, why); err != nil {
			s.log.Warn("the transaction of a refused request is not aborted yet", "tx", string(t.id), "cause", err)
		}
	})
	if !started {
		s.log.Warn("an abort was not sent; the end of the lease aborts the transaction", "tx", string(t.id))
	}
}

// startBare opens a transaction of a conversation that reads nothing: no 410 is due, and no loose reads are taken.
func (s *Agent) startBare(ctx context.Context) (*tx, error) {
	begin := sequencer.Begin{Mode: sequencer.Optimistic, Observe: s.observes, Session: talkOf("")}
	return s.startFor(ctx, begin, nil, func() error { return nil }, true)
}

// writeAlone seals a transaction of one write.
func (s *Agent) writeAlone(ctx context.Context, t *tx, w writing) (*api.Decision, error) {
	w.rests = true
	if _, err := s.write(ctx, t, w); err != nil {
		s.drop(t, "its only request was refused")
		return nil, err
	}
	return s.sealInTime(ctx, t)
}

// sealInTime seals, and gives up what is not decided while its client waits: it waits for holds or calls of others,
// and later it would write what its client no longer expects.
func (s *Agent) sealInTime(ctx context.Context, t *tx) (*api.Decision, error) {
	d, err := s.sealOnly(ctx, t, nil)
	if err == nil && d.State != api.StateCommitted && d.State != api.StateAborted {
		s.abortLater(t, "it was not decided in time")
	}
	return d, err
}

// aged measures how old the oldest read is that a seal carries. What a reader was given has a time of its own, and
// stays given.
func (s *Agent) aged(talk string, reads []sequencer.Read) {
	if strings.HasPrefix(talk, readerTalk) {
		return
	}
	scopes := make([]string, len(reads))
	for i, r := range reads {
		scopes[i] = string(r.Scope)
	}
	if age, known := s.covered.Seal(talk, scopes, s.clock.Now()); known {
		s.metrics.ReadAge(age)
	}
}

// sealOnly seals a transaction that only one request names. Where the log refuses the seal, or it was not sent, and
// the same request does not come back for it, the transaction is broken off: it would stay open for good.
func (s *Agent) sealOnly(ctx context.Context, t *tx, slot *once.Slot) (*api.Decision, error) {
	d, err := s.seal(ctx, t)
	if err != nil && (slot == nil || !api.AsProblem(err).SafeSameKey) {
		s.breakOff(t)
	}
	return d, err
}

// withFormer is a transaction's writes for its seal. Those of shards that were last written so long ago that the fold
// may have forgotten what stood there say it, so that a retraction can put it back.
func (s *Agent) withFormer(writes []sequencer.ShardWrite) []sequencer.ShardWrite {
	out := slices.Clone(writes)
	now := s.view.Settings()
	if !now.Exact || now.Rules.Logic < retracts {
		return out
	}
	if now.Rules.Logic >= refersToLog {
		for i := range out {
			if out[i].Absent { // of many shards, and nothing of them is put back
				continue
			}
			rev, at := s.view.Read(out[i].Scope)
			out[i].Former = &sequencer.Former{Version: rev.Version, View: at, Restored: rev.From}
		}
		return out
	}
	inline := 0
	for i := range out {
		inline += len(out[i].Content)
	}
	for i := range out {
		rev, at := s.view.Read(out[i].Scope)
		recent := rev.Version != 0 && at-rev.Version < now.Rules.HorizonSeqs/2
		if inline += len(rev.Content); recent || inline > int(now.Rules.MaxInlineTotal) {
			inline -= len(rev.Content)
			continue
		}
		out[i].Former = &sequencer.Former{Version: rev.Version, View: at, Type: rev.Media, Content: rev.Content,
			Ref: rev.Ref}
	}
	return out
}

// lineWait is how long a seal waits for one before it that is not judged: the log is away then, or it was not sent.
const lineWait = time.Second

// standInLine gives a transaction that is about to be sealed its place among the seals of this process that are on
// their way. First it waits, as long as ctx lasts, until none of them writes one of its reads: the log would judge
// that one first, and where it commits, the view refuses this one without a seal. Nothing else depends on the order:
// without the wait the log would refuse it. stale says that the view does so by now: others may take their places
// without end.
func (s *Agent) standInLine(ctx context.Context, t *tx, reads, writes []sequencer.Scope, stale func() bool) {
	if t.begun || !s.mayWait(&t.begin) { // others may wait for it in the log: it does not wait here
		reads = nil
	}
	for by := s.view.Enter(t.id, reads, writes); by != ""; by = s.view.Enter(t.id, reads, writes) {
		if stale() || s.judged(ctx, by) != nil {
			reads = nil
		}
	}
}

// letPass waits, as long as ctx lasts, until no seal of this process is on its way that writes one of the scopes. What
// is to be begun with them as its reads may be refused then before it has a name; stale says that it is.
func (s *Agent) letPass(ctx context.Context, begin *sequencer.Begin, reads []sequencer.Scope, stale func() bool) {
	if !s.mayWait(begin) {
		return
	}
	for by := s.view.Ahead(reads); by != ""; by = s.view.Ahead(reads) {
		if stale() || s.judged(ctx, by) != nil {
			return
		}
	}
}

// mayWait reports whether a write over its reads ends a transaction: else it would wait for nothing. One of the other
// modes is in the log from its begin on.
func (s *Agent) mayWait(begin *sequencer.Begin) bool {
	now := s.view.Settings()
	return begin.Mode == sequencer.Optimistic && !begin.Observe && !now.Rules.Observe &&
		levelsUnder(begin, now)&sequencer.A1 != 0
}

// judged waits until a seal that was in the line just now is decided, waits in the log, or has left the line. One of
// which nothing is heard leaves it. An error says that ctx ended, or the agent stops.
func (s *Agent) judged(ctx context.Context, id sequencer.TxID) error {
	a := s.ahead[id]
	if a == nil {
		a = &ahead{}
		s.ahead[id] = a
	}
	short, cancel := s.clock.Within(ctx, lineWait)
	defer cancel()
	err := s.loop.UntilOn(short, &a.changed, func() bool { return a.over })
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		s.leaveLine(id)
		return nil
	}
	return err
}

// leaveLine gives up a transaction's place: nothing of it is on its way. What waits for it here goes on at once, what
// does at other agents of the process with the next decision.
func (s *Agent) leaveLine(id sequencer.TxID) {
	s.view.Leave(id)
	s.passed("")
}

// passed lets go on what waits for seals that are not in the line any more; a decision names the transaction of one.
func (s *Agent) passed(named sequencer.TxID) {
	for id, a := range s.ahead {
		if id != named && s.view.InLine(id) {
			continue
		}
		a.over = true
		s.loop.Moved(&a.changed)
		delete(s.ahead, id)
	}
}

// conditions are the scopes of which another's write ends a transaction, with the loose reads that its seal carries.
func (s *Agent) conditions(t *tx) (out []sequencer.Scope) {
	out = scopesOf(t.reads, func(r sequencer.Read) sequencer.Scope { return r.Scope })
	for _, r := range s.loose[t.begin.Session] {
		out = append(out, r.Scope)
	}
	for _, w := range t.writes {
		if w.Expect != nil {
			out = append(out, w.Scope)
		}
	}
	return out
}

// scopesOf are the scopes of reads or writes.
func scopesOf[T any](list []T, scope func(T) sequencer.Scope) []sequencer.Scope {
	out := make([]sequencer.Scope, len(list))
	for i, one := range list {
		out[i] = scope(one)
	}
	return out
}

func shardWritten(w sequencer.ShardWrite) sequencer.Scope { return w.Scope }

func toWrite(w writing) sequencer.Scope { return w.scope }
