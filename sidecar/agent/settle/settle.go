package settle

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
)

// maxSettling bounds the settlements that are under way at once; the others wait.
const maxSettling = 32

// How long one try of something may take before it is tried again: to write to the log, and to look it through.
const (
	logTry  = 5 * time.Second
	lookTry = 30 * time.Second
)

// settleTry is how long one try of a settlement waits for its decision before it is appended again.
const settleTry = 5 * time.Second

// unsettled is a decided transaction whose settlement this sidecar owes. Its fields change wherever a flow gives way.
type unsettled struct {
	tx        sequencer.TxID
	seq       sequencer.Seq // from which on it is owed: of the decision, the join or the adoption
	committed bool
	known     bool              // committed says how the transaction was decided
	turn      bool              // it was committed, is in a retraction's cone, and its turn to be undone has come
	stranger  bool              // what ran is known from the log only
	granted   []sequencer.Scope // for writing, by the decisions up to grantsTo; see readGrants
	grantsTo  sequencer.Seq
	heard     bool          // the log was read when no former owner could begin a call any more
	theirs    bool          // another owner has adopted it
	freed     time.Time     // by the steady clock, may be ahead: then no former owner begins a call; zero: unknown
	waited    bool          // notBefore is set
	tries     int           // of the settlement
	notBefore time.Time     // until then a call of its former owner may be under way; by the steady clock
	running   bool          // a task works on it
	parked    sequencer.Seq // the incarnation whose settlement was refused: it is not tried again under that one
	n         uint32        // of its last settle intent
	refused   *sequencer.Outcome
	foreign   bool              // the log refused it for scopes that are not the transaction's
	doubtful  []sequencer.Scope // where the log did not believe that it was clean

	idle       bool      // the events say that nothing releases its calls here
	agentAsked bool      // agentUntil is set
	agentUntil time.Time // until then the agent may say what it did by itself
}

// owe notes that a transaction is this sidecar's to settle.
func (s *Settler) owe(id sequencer.TxID, seq sequencer.Seq, committed, known bool) *unsettled {
	d := s.unsettled[id]
	if d == nil {
		d = &unsettled{tx: id}
		s.unsettled[id] = d
		s.metrics.Pending.Set(float64(len(s.unsettled)))
	}
	if d.seq, d.theirs = max(d.seq, seq), false; known {
		d.committed, d.known = committed, true
	}
	s.session.Hurry()
	return d
}

// paid: the view shows that a transaction is final.
func (s *Settler) paid(o *sequencer.Outcome) {
	if s.unsettled[o.Tx] != nil {
		s.done(o.Tx, view.ReleasedAll(o))
	}
}

// done ends what is owed of a transaction, also in the journal.
func (s *Settler) done(id sequencer.TxID, clean bool) {
	delete(s.unsettled, id)
	s.metrics.Pending.Set(float64(len(s.unsettled)))
	if err := s.delivery.Record(journal.RecordSettled, &journal.DecidedRecord{Tx: id, Clean: clean}); err != nil {
		s.log.Error("a settlement is not in the journal: after a restart the log is asked", "tx", string(id), "cause", err)
	}
	s.session.Hurry()
}

// Owe notes that a transaction of this session was decided, and is to be settled.
func (s *Settler) Owe(id sequencer.TxID, seq sequencer.Seq, committed bool) {
	s.owe(id, seq, committed, true)
}

// Owes reports whether a transaction is still to be settled, by whom ever.
func (s *Settler) Owes(id sequencer.TxID) bool { return s.unsettled[id] != nil }

// Idle reports whether nothing is to be settled that this sidecar knows of.
func (s *Settler) Idle() bool { return len(s.unsettled) == 0 }

// Owing counts what is this session's to settle.
func (s *Settler) Owing() (n int) {
	for _, d := range s.unsettled {
		if !d.theirs && d.parked != s.session.Incarnation() {
			n++
		}
	}
	return n
}

// now is the incarnation of the live session; zero: there is none.
func (s *Settler) now() sequencer.Seq {
	if !s.session.Live() {
		return 0
	}
	return s.session.Incarnation()
}

// WhyNot says why this sidecar does not release what a committed transaction holds; empty: it does.
func (s *Settler) WhyNot(id sequencer.TxID) string {
	switch d := s.unsettled[id]; {
	case s.engine == nil:
		return "this sidecar was started without a policy file"
	case !s.session.Live():
		return "this sidecar has no session"
	case d == nil || d.theirs || d.parked == s.session.Incarnation():
		return "this sidecar does not settle the transaction now"
	}
	return ""
}

// Lost draws what follows from the session's end. The next one owns what its agent left, and nothing that this one had
// adopted.
func (s *Settler) Lost() {
	for _, d := range s.unsettled {
		if agent, _, _, _ := api.OwnerOf(d.tx); agent != s.agent {
			d.disowned()
		}
	}
}

// disowned marks a transaction as that of another owner, which may make calls that this journal does not know.
func (d *unsettled) disowned() { d.theirs, d.heard, d.waited, d.tries = true, false, false, 0 }

// Share notes that another owner has worked on a transaction and may have made calls that this journal does not know.
func (s *Settler) Share(id sequencer.TxID) { s.share(id, s.unsettled[id]) }

func (s *Settler) share(id sequencer.TxID, d *unsettled) {
	if d != nil {
		d.disowned()
	}
	if err := s.delivery.Share(id); err != nil {
		s.log.Error("that a settlement had another owner is not in the journal", "tx", string(id), "cause", err)
	}
}

// Observe draws what follows from a decision, once the agent has drawn what follows for its own transactions.
func (s *Settler) Observe(o *sequencer.Outcome) {
	if o.Tx != "" {
		s.ObserveSettlement(o)
	}
	switch {
	case o.Final:
		delete(s.resting, o.Tx)
	case o.Kind == sequencer.OutcomeSettled:
		s.resting[o.Tx] = o.Seq
	}
	s.observeOrphans(o)
	s.observeTurn(o)
}

// ObserveSettlement draws what a decision says of a settlement.
func (s *Settler) ObserveSettlement(o *sequencer.Outcome) {
	d := s.unsettled[o.Tx]
	if o.Kind == sequencer.OutcomeAdopted && o.Agent != s.agent {
		s.share(o.Tx, d)
	}
	if d != nil && o.Kind == sequencer.OutcomeSettled && o.Incarnation == s.session.Incarnation() {
		for _, w := range o.Writes {
			if w.Writer.Residue && w.Writer.Tx == o.Tx && w.Writer.Seq == o.Seq {
				d.doubtful = append(d.doubtful, w.Scope)
			}
		}
	}
	switch {
	case d == nil:
	case o.Final, o.Kind == sequencer.OutcomeSettled: // one that a retraction's cone has is owed again in its turn
		s.paid(o)
	case o.Kind == sequencer.OutcomeRefused && d.n > 0 && o.Intent == d.intent(s).ID() &&
		o.Incarnation == s.session.Incarnation(): // each process and each owner counts for itself
		d.refused = o
	}
}

func (d *unsettled) intent(s *Settler) *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentSettle, Tx: d.tx, N: d.n, Agent: s.agent,
		Incarnation: s.session.Incarnation()}
}

// Start starts the settlements that can start now, those owed for longest first.
func (s *Settler) Start() {
	if !s.session.Live() || len(s.unsettled) == 0 {
		return
	}
	now, steady := s.clock.Now(), s.clock.Steady()
	var ready []*unsettled
	for _, d := range s.unsettled {
		if !d.running && !d.theirs && d.parked != s.session.Incarnation() && !steady.Before(d.notBefore) &&
			!now.Before(d.agentUntil) {
			ready = append(ready, d)
		}
	}
	slices.SortFunc(ready, func(a, b *unsettled) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.tx, b.tx))
	})
	for _, d := range ready {
		if s.settling >= maxSettling || !s.Loop.Go(func(ctx context.Context) { s.settle(ctx, d) }) {
			return
		}
		d.running = true
		s.settling++
	}
}

// settle works on one settlement until it is done, or has to be begun again later.
func (s *Settler) settle(ctx context.Context, d *unsettled) {
	inc := s.session.Incarnation()
	err := s.settleOnce(s.own.Traced(s.lease.Under(ctx, inc), d.tx), d, inc)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("a settlement is not done: tried again", "tx", string(d.tx), "cause", err)
		// Others have its place meanwhile: as many as there are places may fail for long.
		if again := s.clock.Steady().Add(view.PauseMost); d.notBefore.Before(again) {
			d.notBefore = again
		}
	}
	d.running = false
	s.settling--
	s.session.Hurry()
}

func (s *Settler) settleOnce(ctx context.Context, d *unsettled, inc sequencer.Seq) error {
	if err := s.own.Rest(ctx, d.tx); err != nil { // a call that is under way ends first; none begins any more
		return err
	}
	from, foreign := d.seq, d.foreign
	if err := s.session.Reach(ctx, from); err != nil {
		return err
	}
	if foreign { // what is known of its calls is not what the log knows: a settlement always ends
		return s.settleUnknown(ctx, d, inc, errForeignScopes)
	}
	if gone, err := s.learn(ctx, d); gone || err != nil {
		return err
	}
	effects, claim, err := s.owed(ctx, d, inc)
	var late map[uint32]string
	if err == nil {
		late, err = s.madeSince(ctx, d, effects)
	}
	lost := lostForGood(err)
	if (claim == gate.ClaimStranger || lost) && !s.view.Settings().Known {
		s.lease.LearnRules(ctx) // how long a former owner may have its lease depends on them, and nothing else may ask
	}
	if lost {
		if s.mustWaitUnknown(d, claim) {
			return nil
		}
		return s.settleUnknown(ctx, d, inc, err)
	}
	if err != nil {
		return err
	}
	if s.mustWait(d, effects, claim) {
		return nil
	}
	own, wait, err := s.ownSettled(ctx, d, effects, claim)
	if wait || err != nil {
		return err
	}
	made, err := s.settlement(ctx, d, effects, claim)
	if err != nil {
		return err
	}
	sayLate(made.Residue, late)
	made = withOwn(made, own)
	if err := s.publishResidue(ctx, d, made, inc); err != nil {
		return err
	}
	if err := s.closeResidue(ctx, d, made, claim); err != nil {
		return err
	}
	if err := s.appendSettlement(ctx, d, made, inc); err != nil {
		return err
	}
	return s.publishDoubts(ctx, d, made, inc)
}

// errForeignScopes is why the next try says that nothing is known: the log refused what the first one named.
var errForeignScopes = errors.New("its settlement named scopes that are not its own")

// severalCalls is what a settlement asks of its lease beyond the time that one call may take.
const severalCalls = time.Second

// settlement makes or undoes the calls of a decided transaction, as far as that is left to do.
func (s *Settler) settlement(ctx context.Context, d *unsettled, effects []gate.Progress,
	claim gate.Claim) (gate.Settlement, error) {
	var takes time.Duration
	did := false
	committed, turn := d.committed, d.turn
	for i, p := range effects {
		effects[i].Committed = committed
		effects[i].Tool.MaxTime = min(p.Tool.MaxTime, s.lease.Longest()) // a settlement ends also when leases got shorter
		takes = max(takes, p.Tool.MaxTime)
		did = did || p.Started || claim == gate.ClaimStranger || committed && p.Tool.Class.Gated()
	}
	engine := s.engine
	if agent, _, _, _ := api.OwnerOf(d.tx); engine == nil && agent != s.agent {
		engine = s.bare
	}
	if !did || engine == nil {
		if did && committed {
			s.sayIdle(d, effects)
		}
		return gate.Settlement{NoneElse: claim != gate.ClaimStranger}, s.cannot(effects, did)
	}
	// One call after the other is made under it: a lease that is just long enough for the first stops at the second.
	if err := s.lease.Stretch(ctx, min(takes+severalCalls, s.lease.Longest())); err != nil {
		return gate.Settlement{}, err
	}
	return loop.Do(s.Loop, func() (gate.Settlement, error) { // sinks answer
		if committed && !turn {
			return engine.Release(ctx, effects, claim)
		}
		return engine.Undo(ctx, effects, claim)
	})
}

// sayIdle lets those who watch know, once, that held calls are not being released although they have an owner.
func (s *Settler) sayIdle(d *unsettled, effects []gate.Progress) {
	said := d.idle
	d.idle = true
	for i := range effects {
		if p := &effects[i]; !said && p.Tool.Class.Gated() && p.Answer == nil && !p.GivenUp {
			s.marks.publish(gate.Mark{Tx: p.Tx, Index: p.Index, Step: gate.StepIssued,
				Detail: "it waits: its sidecar was started without a policy file"})
		}
	}
}

// appendSettlement tells the log what became of a transaction's effects, until the view shows that it is final.
func (s *Settler) appendSettlement(ctx context.Context, d *unsettled, made gate.Settlement, inc sequencer.Seq) error {
	if s.unsettled[d.tx] != d {
		return nil // it is settled: a second one would count as that of a later turn
	}
	s.settles++ // of one transaction and incarnation the log takes greater numbers only, also for its later turn
	d.n = s.settles
	d.refused = nil
	in := d.intent(s)
	if in.Incarnation != inc {
		return nil // the session has ended meanwhile: the next one starts over
	}
	in.Settle = &sequencer.Settle{Effects: made.Effects, NoneElse: made.NoneElse}
	for {
		err := s.appendOnce(ctx, d, in)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil || errors.Is(err, api.ErrStopped):
			return err
		case errors.Is(err, streams.ErrTooLarge):
			// It was not appended, and never will be. Without names it says as little as the list can show.
			s.log.Error("a settlement names more than a record takes: it is unresolved", "tx", string(d.tx), "cause", err)
			in.Settle = &sequencer.Settle{Effects: []sequencer.Settled{{Result: sequencer.ResultUnresolved}}}
		}
	}
}

// appendOnce appends a settle intent and waits a while for what it leads to. One whose append failed is unknown, and
// appended again soon.
func (s *Settler) appendOnce(ctx context.Context, d *unsettled, in *sequencer.Intent) error {
	try, cancel := s.clock.Within(ctx, settleTry)
	defer cancel()
	failpoint.Hit(failpoint.SettleBefore)
	_, err := s.session.Append(try, in)
	failpoint.Hit(failpoint.SettleAfter)
	if errors.Is(err, streams.ErrTooLarge) {
		return err
	}
	if err != nil {
		s.metrics.AppendErrors.Inc()
		again, end := s.clock.Within(ctx, view.PauseMost)
		defer end()
		try = again
	}
	over := func() bool {
		return d.refused != nil || s.unsettled[d.tx] != d || s.session.Incarnation() != in.Incarnation
	}
	if err := s.Loop.Until(try, over); err != nil {
		return err
	}
	if d.refused != nil {
		s.log.Warn("a settlement was refused", "tx", string(d.tx), "code", string(d.refused.Code),
			"detail", d.refused.Detail)
		if d.foreign = d.refused.Code == sequencer.CodeWrongScopes && !d.foreign; !d.foreign {
			d.parked = in.Incarnation
		}
	}
	return nil
}
