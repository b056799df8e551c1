package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// observeTurn: a member of a retraction's cone that is this sidecar's to settle is to be undone now.
func (s *Settler) observeTurn(o *sequencer.Outcome) {
	if o.Kind != sequencer.OutcomeTurn || o.Incarnation != s.session.Incarnation() {
		return
	}
	d := s.owe(o.Tx, o.Seq, true, true)
	d.turn, d.waited, d.tries = true, false, 0
}

// learn finds out what is owed of a transaction that was adopted. gone: nothing is, or nothing yet.
func (s *Settler) learn(ctx context.Context, d *unsettled) (gone bool, err error) {
	known := d.known
	if known {
		return false, nil
	}
	agent, _, _, _ := api.OwnerOf(d.tx)
	rows, through, err := s.Unsettled(ctx, agent)
	if err != nil && !errors.Is(err, streams.ErrTruncated) {
		return false, fmt.Errorf("find out how %s was decided: %w", d.tx, err)
	}
	if through < d.seq {
		return false, fmt.Errorf("find out how %s was decided: the answer is older than the adoption", d.tx)
	}
	for _, r := range rows {
		if r.Tx == d.tx {
			return !s.take(d, r), nil
		}
	}
	if err == nil {
		s.done(d.tx, false) // it is final; how clean, the log says
	}
	return true, err
}

// take notes what is owed of a transaction. A member of a cone whose turn has not come is owed nothing yet: the view
// shows when it comes.
func (s *Settler) take(d *unsettled, r topology.Unsettled) bool {
	if !d.known { // a task may be at work with what was known before
		d.committed, d.known = r.Phase != sequencer.PhaseAborted, true
	}
	if r.Phase != sequencer.PhaseRetracting {
		return true
	}
	if d.turn = d.turn || r.Turn != 0; !d.turn {
		delete(s.unsettled, d.tx)
	}
	return d.turn
}

// owed is what is known of a transaction's calls, and the ground on which they are settled here: as the live
// incarnation that made them, as the successor of a dead process with its whole journal, or from the log alone.
func (s *Settler) owed(ctx context.Context, d *unsettled, inc sequencer.Seq) ([]gate.Progress, gate.Claim, error) {
	turn := d.turn
	effects, kept := s.delivery.Owed(d.tx)
	if _, issuer, _, _ := api.OwnerOf(d.tx); kept.Known && issuer < s.formers.First() {
		others, err := s.formers.HadOthers(ctx)
		if err != nil {
			return nil, gate.ClaimSuccessor, err
		}
		if kept.Shared = kept.Shared || others; others {
			s.share(d.tx, nil)
		}
	}
	if kept.Known && !kept.Foreign && !kept.Shared && (len(effects) > 0 || !turn) {
		_, issuer, _, ok := api.OwnerOf(d.tx)
		switch {
		case ok && issuer == inc && kept.Stripped:
			return s.refill(ctx, d.tx, effects, gate.ClaimOwn)
		case ok && issuer == inc:
			return effects, gate.ClaimOwn, nil
		case kept.Short:
			return s.complete(ctx, d, effects)
		case kept.Stripped:
			return s.refill(ctx, d.tx, effects, gate.ClaimSuccessor)
		}
		return effects, gate.ClaimSuccessor, nil
	}
	d.stranger = true
	if d.heard {
		return effects, gate.ClaimStranger, nil
	}
	quiet := !s.silentFrom(d).After(s.clock.Steady())
	logged, err := s.logged(ctx, d.tx)
	if err != nil {
		return nil, gate.ClaimStranger, err
	}
	if effects = merge(effects, logged); !quiet {
		return effects, gate.ClaimStranger, nil // more may come: nothing is settled before
	}
	if effects, err = s.withGrants(ctx, d, effects); err != nil {
		return nil, gate.ClaimStranger, err
	}
	if err := s.keep(effects); err != nil {
		return nil, gate.ClaimStranger, err
	}
	failpoint.Hit(failpoint.StartHeard)
	d.heard = true
	return effects, gate.ClaimStranger, nil
}

// merge adds what the log says of a transaction's calls to what a journal has of them: others may have made some, or
// undone them.
func merge(kept, logged []gate.Progress) []gate.Progress {
	for _, l := range logged {
		at := slices.IndexFunc(kept, func(p gate.Progress) bool { return p.Index == l.Index })
		if at < 0 {
			kept = append(kept, l)
			continue
		}
		p := &kept[at]
		if l.At.After(p.At) && !p.Started && p.Answer == nil {
			// What never ran gave its index back, and the journal ends before the call that has it now.
			kept[at] = l
			continue
		}
		if p.Answer == nil || p.Args == nil && l.Answer != nil {
			p.Answer = l.Answer
		}
		if p.Args == nil {
			p.Args = l.Args
		}
		switch {
		case p.UndoDone != nil:
		case l.UndoDone != nil: // what the sink said counts more than that it was not heard here
			p.UndoDone, p.UndoLost = l.UndoDone, l.UndoLost
		default:
			p.UndoLost = p.UndoLost || l.UndoLost
		}
		p.GivenUp = p.Answer == nil && (p.GivenUp || l.GivenUp)
		// The log hears of no start: what is begun here has perhaps left since it was said not to have.
		if p.Unsent = cmp.Or(p.Unsent, l.Unsent); p.Answer != nil || p.GivenUp || p.Started || l.Started {
			p.Unsent = ""
		}
	}
	slices.SortStableFunc(kept, func(a, b gate.Progress) int { return cmp.Compare(a.Index, b.Index) })
	return kept
}

// logged are a transaction's calls as the log has them.
func (s *Settler) logged(ctx context.Context, id sequencer.TxID) ([]gate.Progress, error) {
	events, err := s.Effects(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read what %s did from the log: %w", id, err)
	}
	return s.FromLog(id, events)
}

// keep puts calls into the journal, so that marks can be made on them.
func (s *Settler) keep(effects []gate.Progress) error {
	for i := range effects {
		if err := s.delivery.Issue(&effects[i]); err != nil {
			return err
		}
	}
	return nil
}

// refill gives the calls of a settled transaction, which is to be undone after all, their arguments and answers back.
// What was marked on them is still in the journal.
func (s *Settler) refill(ctx context.Context, id sequencer.TxID, kept []gate.Progress,
	claim gate.Claim) ([]gate.Progress, gate.Claim, error) {
	logged, err := s.logged(ctx, id)
	if err != nil {
		return nil, claim, err
	}
	for i := range kept {
		p := &kept[i]
		at := slices.IndexFunc(logged, func(l gate.Progress) bool { return l.Index == p.Index })
		if at < 0 {
			return nil, claim, fmt.Errorf("the log has no call %d of %s any more", p.Index, id)
		}
		p.Args = logged[at].Args
		if p.Answer != nil && logged[at].Answer != nil {
			p.Answer = logged[at].Answer
		}
	}
	return kept, claim, s.keep(kept)
}

// complete adds what a crash of the machine may have taken from the journal: its last records, but none before a call
// that can be made only once, which are on the disk before it begins. So what the journal lacks of a call is asked of
// the log, and one that its sink knows by a key may have begun whatever the marks say.
func (s *Settler) complete(ctx context.Context, d *unsettled, kept []gate.Progress,
) ([]gate.Progress, gate.Claim, error) {
	logged, err := s.logged(ctx, d.tx)
	if err != nil {
		return nil, gate.ClaimSuccessor, err
	}
	committed := d.committed
	inLog := func(p gate.Progress) bool {
		return !p.Started && slices.ContainsFunc(logged, func(l gate.Progress) bool { return l.Index == p.Index })
	}
	all := merge(slices.DeleteFunc(kept, inLog), logged) // one that was withdrawn may have left its index to another
	if all, err = s.withGrants(ctx, d, all); err != nil {
		return nil, gate.ClaimSuccessor, err
	}
	for i := range all {
		p := &all[i]
		if p.Args == nil {
			return nil, gate.ClaimSuccessor, fmt.Errorf("the log has no call %d of %s any more", p.Index, d.tx)
		}
		if p.Key != "" && (committed || p.Tool.Class.Eager()) {
			p.Started = true
		}
	}
	return all, gate.ClaimSuccessor, s.keep(all)
}

// withGrants leaves out eager calls that the log never granted: they cannot have left. Who knows no more of one would
// else repeat it under its key to find out, and move what another transaction holds.
func (s *Settler) withGrants(ctx context.Context, d *unsettled, effects []gate.Progress) ([]gate.Progress, error) {
	unheard := func(p gate.Progress) bool {
		return p.Tool.Class.Eager() && !p.Started && p.Answer == nil && !p.GivenUp
	}
	if !slices.ContainsFunc(effects, unheard) {
		return effects, nil
	}
	switch err := s.readGrants(ctx, d); {
	case errors.Is(err, streams.ErrGone): // what was granted before is not known
		return effects, nil
	case err != nil:
		return nil, fmt.Errorf("find out what was granted to %s: %w", d.tx, err)
	}
	return slices.DeleteFunc(effects, func(p gate.Progress) bool {
		return unheard(p) && !allWithin(p.Tool.Scopes, d.granted)
	}), nil
}

// readGrants reads in the log what was granted to a decided transaction for writing: from where it began, or, where
// that is not known, from its session's join. A try goes on where the one before it ended: so a long log ends, too.
func (s *Settler) readGrants(ctx context.Context, d *unsettled) error {
	if d.grantsTo == 0 {
		_, d.grantsTo, _, _ = api.OwnerOf(d.tx)
		if base, known := s.own.Base(d.tx); known {
			d.grantsTo = base
		}
	}
	if d.grantsTo >= d.seq { // of its decision, or later
		return nil
	}
	ctx, cancel := s.clock.Within(ctx, lookTry)
	defer cancel()
	concern := func(o *sequencer.Outcome) bool { return o.Tx == d.tx || o.Seq >= d.seq }
	to, _, err := s.Through(ctx, d.grantsTo, concern, func(o *sequencer.Outcome) bool {
		for _, h := range o.Added {
			if o.Tx == d.tx && h.Kind == sequencer.Granted && h.Access == sequencer.WriteAccess {
				d.granted = append(d.granted, h.Scope)
			}
		}
		return o.Seq >= d.seq
	})
	d.grantsTo = to
	return err
}

// allWithin says that each of some scopes may have been granted.
func allWithin(scopes, granted []sequencer.Scope) bool {
	return !slices.ContainsFunc(scopes, func(x sequencer.Scope) bool {
		return !slices.ContainsFunc(granted, x.Overlaps)
	})
}

// lostForGood: what a transaction did cannot be read from the log any more, however often that is tried.
func lostForGood(err error) bool {
	return errors.Is(err, streams.ErrGone) || errors.Is(err, streams.ErrTooLarge) || errors.Is(err, streams.ErrContent)
}

// settleUnknown settles a transaction when what it did is unknown: a settlement always ends.
func (s *Settler) settleUnknown(ctx context.Context, d *unsettled, inc sequencer.Seq, why error) error {
	s.log.Error("what a transaction did is lost: it is settled as unresolved", "tx", string(d.tx), "cause", why)
	unknown := gate.Tool{Name: "unknown", Class: sequencer.ClassIrreversible}
	made := gate.Settlement{
		Effects: []sequencer.Settled{{Result: sequencer.ResultUnresolved}},
		Residue: []gate.Residue{{Effect: gate.Effect{Tx: d.tx, Tool: unknown}, Result: sequencer.ResultUnresolved,
			Detail: fmt.Sprintf("the log no longer says what it called (%v): ask its agent", why)}},
	}
	if err := s.publishResidue(ctx, d, made, inc); err != nil {
		return err
	}
	return s.appendSettlement(ctx, d, made, inc)
}

// FromLog folds a transaction's events into what is known of its calls.
func (p *policy) FromLog(id sequencer.TxID, events []*topology.Event) ([]gate.Progress, error) {
	return journal.CallsIn(id, events, p.effectFrom, isMade)
}

// mustWait holds a settlement back as long as a call that its former owner made may still land. The first try that it
// lets go on has waited: the gate need not. At later ones the gate waits for what our own earlier try may have left.
func (s *Settler) mustWait(d *unsettled, effects []gate.Progress, claim gate.Claim) bool {
	now := s.clock.Steady()
	if claim == gate.ClaimStranger && !d.heard { // until then one may begin, and say so in the log
		d.notBefore = s.silentFrom(d)
		return true
	}
	if claim != gate.ClaimOwn && !d.waited {
		d.waited = true
		d.notBefore = s.since(d, now, claim).Add(s.mayTake(effects, claim))
	}
	if d.notBefore.After(now) {
		return true
	}
	for i := range effects {
		// A call of this process that was broken off may be under way, too.
		own := claim != gate.ClaimStranger && effects[i].InFlight() && !s.formers.is(effects[i].Incarnation)
		effects[i].Waited = d.tries == 0 && !own
	}
	d.tries++
	return false
}

// mustWaitUnknown is mustWait where the calls are not known: any may begin until the last former owner is silent, and
// then take as long as a lease allows.
func (s *Settler) mustWaitUnknown(d *unsettled, claim gate.Claim) bool {
	now := s.clock.Steady()
	if claim != gate.ClaimOwn && !d.waited {
		from := s.silentFrom(d)
		if from.Before(now) {
			from = now
		}
		most := s.lease.Longest()
		if d.waited = most > 0; !d.waited { // the rules are not known: asked for again
			most = view.PauseMost
		}
		d.notBefore = from.Add(most)
	}
	return d.notBefore.After(now)
}

// silentFrom is when the last process that may still begin a call of a transaction loses its lease: a former one of
// this agent or, of what was adopted, a former owner. What the log says before that time is not complete.
func (s *Settler) silentFrom(d *unsettled) time.Time {
	until := s.formers.strangersUntil()
	if d.freed.After(until) {
		return d.freed
	}
	return until
}

// mayTake is how long calls of a former owner may take that are perhaps under way.
func (s *Settler) mayTake(effects []gate.Progress, claim gate.Claim) (longest time.Duration) {
	for _, p := range effects {
		if claim != gate.ClaimStranger && (!p.InFlight() || !s.formers.is(p.Incarnation)) {
			continue
		}
		longest = max(longest, p.Tool.MaxTime, s.undoTakes(&p, s.lease.Longest()))
	}
	return longest
}
