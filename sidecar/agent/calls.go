package agent

import (
	"context"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/words"
)

// start opens a transaction of the agent. In ordered and locked mode it returns once the log has begun it. A
// transaction beside an error may still be begun, and like has noted it for a later try; without like it is dropped.
func (s *Agent) start(ctx context.Context, begin sequencer.Begin, like func(*tx)) (*tx, error) {
	return s.startFor(ctx, begin, like, func() error { return s.tellReadsLost(begin.Session) }, false)
}

// startWhole opens a transaction that one request begins, fills and seals: unless the log begins it, nothing of it
// leaves before its seal, so what the journal has of it rests until then.
func (s *Agent) startWhole(ctx context.Context, begin sequencer.Begin) (*tx, error) {
	return s.startFor(ctx, begin, nil, func() error { return s.tellReadsLost(begin.Session) },
		begin.Mode == sequencer.Optimistic)
}

// startOwn opens a transaction of the sidecar itself. A 410 that the agent is owed stays owed: an operator's request
// is not the agent's.
func (s *Agent) startOwn(ctx context.Context) (*tx, error) {
	begin := sequencer.Begin{Mode: sequencer.Optimistic}
	return s.startFor(ctx, begin, nil, func() error { return nil }, false)
}

func (s *Agent) startFor(ctx context.Context, begin sequencer.Begin, like func(*tx),
	first func() error, rests bool) (*tx, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	t, err := s.admit(begin, like, first, rests)
	if err != nil {
		return nil, err
	}
	s.traces(ctx, t)
	if t, err = s.beginInLog(ctx, t); err != nil && t != nil && like == nil {
		s.drop(t, "its begin was not answered in time")
		return nil, err
	}
	return t, err
}

func (s *Agent) admit(begin sequencer.Begin, like func(*tx), first func() error, rests bool) (*tx, error) {
	inc, err := s.current()
	if err != nil {
		return nil, err
	}
	if err := first(); err != nil {
		return nil, err
	}
	if s.open >= s.limits.Open {
		return nil, api.Problemf(api.CodeLimit, "this sidecar has %d open transactions: seal or abort one", s.open)
	}
	t := newTx(api.TxName(s.agent, inc, s.count+1), inc, s.view.At(), begin, s.clock.Now())
	if like != nil {
		like(t)
	}
	record := s.delivery.Record
	if rests {
		record = s.delivery.Rest
	}
	err = record(journal.RecordBegun, &journal.TxRecord{Tx: t.id, Incarnation: inc, Base: t.base, Begin: t.begin,
		Boot: s.delivery.Boot, Attempt: t.attempt, Refusals: t.refusals, Reads: t.reads})
	if err != nil {
		return nil, err
	}
	s.count++
	s.open++
	s.txs[t.id], s.active[t.id] = t, t
	return t, nil
}

// beginInLog gives an ordered or locked transaction its age, unless a decision shows that it has it. One whose begin
// was not answered in time comes back beside the error and may be asked for again; one that is over does not.
func (s *Agent) beginInLog(ctx context.Context, t *tx) (*tx, error) {
	if t.begin.Mode == sequencer.Optimistic || t.phase != phaseOpen || t.shown {
		return t, nil
	}
	in := t.intent(sequencer.IntentBegin, s.agent, api.SignerOf(ctx))
	if err := s.send(ctx, t, in); err != nil {
		return t, err
	}
	err := s.untilTx(ctx, t, func() bool {
		return t.shown || t.phase != phaseOpen || t.refusedFor(in)
	})
	switch {
	case t.refusedFor(in):
		err = s.refusedIntent(t)
		s.close(t, phaseLost)
		return nil, err
	case t.gone():
		return nil, s.lost(t)
	}
	return t, err
}

// enter takes the transaction for one call; leave gives it back.
func (s *Agent) enter(ctx context.Context, t *tx) error {
	if err := s.through(ctx, t, func() bool { return !t.busy }); err != nil {
		return err
	}
	t.busy = true
	return nil
}

func (s *Agent) leave(t *tx) {
	t.busy = false
	s.loop.Moved(&t.changed)
}

// usable says why no read or write can be added to a transaction.
func (s *Agent) usable(t *tx) error {
	switch {
	case t.gone():
		return s.lost(t)
	case t.decided():
		d := s.decision(t)
		if d.State == api.StateCommitted {
			p := api.Problemf(string(sequencer.CodeLateEffect), "%s is committed: begin a new transaction", t.id)
			p.Decision = d
			return p
		}
		return words.Refusal(d)
	case t.phase == phaseSealed:
		return api.Problemf(string(sequencer.CodeLateEffect), "%s is sealed: its footprint cannot change any more", t.id)
	}
	return nil
}

// prepare takes what a transaction must hold before it reads: the whole footprint of a predecessor that was refused
// for a conflict, and in locked mode the scopes. Once it returns the view has reached the grant's seq.
func (s *Agent) prepare(ctx context.Context, t *tx, scopes ...sequencer.Scope) error {
	return s.prepareAs(ctx, t, sequencer.ReadAccess, scopes...)
}

// prepareAs is prepare for scopes that are asked for, for writing, in any mode. The agent does not act on them by
// itself: an abort settles them without its word.
func (s *Agent) prepareAs(ctx context.Context, t *tx, as sequencer.Access, scopes ...sequencer.Scope) error {
	err := s.usable(t)
	wants := t.first
	t.first = nil
	if err != nil {
		return err
	}
	if len(wants) > 0 {
		if err := s.touch(ctx, t, wants); err != nil {
			t.first = wants
			return err
		}
	}
	var need []sequencer.Want
	for _, scope := range scopes {
		want := sequencer.Want{Scope: scope, Access: as}
		if (t.begin.Mode == sequencer.Locked || as == sequencer.WriteAccess) && !t.holds(want) {
			need = append(need, want)
		}
	}
	if len(need) == 0 {
		return nil
	}
	return s.touch(ctx, t, need)
}

// touch asks for scopes and waits until the view shows that they are granted. A touch that an earlier call gave up
// waiting for is waited for first: the log takes one at a time.
func (s *Agent) touch(ctx context.Context, t *tx, wants []sequencer.Want) error {
	for {
		in, fresh := t.asking, t.asking == nil
		if fresh {
			in = t.intent(sequencer.IntentTouch, s.agent, api.SignerOf(ctx))
			in.Touch = &sequencer.Touch{Wants: wants}
			t.asking = in
		}
		if err := s.sendTouch(ctx, t, in, fresh); err != nil {
			return err
		}
		done, err := s.touched(t, in, wants)
		if done || err != nil {
			return err
		}
	}
}

func (s *Agent) sendTouch(ctx context.Context, t *tx, in *sequencer.Intent, fresh bool) error {
	if fresh {
		if err := s.send(ctx, t, in); err != nil {
			if ctx.Err() == nil { // it was not sent
				t.asking = nil
				s.loop.Moved(&t.changed)
			}
			return err
		}
	}
	return s.untilTx(ctx, t, func() bool {
		return t.asking != in || t.phase != phaseOpen
	})
}

// touched says what became of a touch: everything wanted is held, or why not. Neither: another touch was waited for.
func (s *Agent) touched(t *tx, in *sequencer.Intent, wants []sequencer.Want) (bool, error) {
	if err := s.usable(t); err != nil {
		return false, err
	}
	for _, w := range wants {
		if !t.holds(w) {
			if t.refusedFor(in) {
				return false, s.refusedIntent(t)
			}
			return false, nil
		}
	}
	return true, nil
}

// refusedIntent is the problem of an intent that was refused while its transaction lives on.
func (s *Agent) refusedIntent(t *tx) error {
	d := s.describe(t, t.refused)
	d.State, d.Seq = api.StateOpen, 0
	return words.Refusal(d)
}

// beginsAnew says whether a request may make another transaction in place of its former one: that was certainly never
// sealed, no call of it began, and the request was never answered.
func (s *Agent) beginsAnew(t *tx, slot *once.Slot) bool {
	gone, shown := t.gone(), t.outcome != nil
	if !gone || !slot.MayBeginAnew() {
		return false
	}
	effects, kept := s.delivery.Owed(t.id)
	if (!kept.Known || kept.Short) && !shown { // a journal that lacks its newest records may lack the seal
		return false
	}
	return !slices.ContainsFunc(effects, func(p gate.Progress) bool {
		return p.Started || kept.Short && p.Tool.Class.Eager()
	})
}

// letGo frees a request of its former transaction: it makes another one in its place. The loose reads that went with a
// seal which is in no log are their conversation's again, and so are those that a put had carried from one try to the
// next: nothing may commit on what it does not carry.
func (s *Agent) letGo(t *tx, slot *once.Slot, carried []sequencer.Read) error {
	talk := t.begin.Session
	if len(t.loose)+len(carried) > 0 {
		s.loose.Give(talk, t.loose)
		s.loose.Give(talk, carried) // they are older
		err := s.delivery.Record(journal.RecordTalk, journal.TalkRecord{Session: talk, Reads: s.loose[talk]})
		if err != nil { // the slot still names who had them: the next try gives them back again
			return err
		}
	}
	slot.Set("")
	return nil
}
