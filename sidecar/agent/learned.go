package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
)

// What a start has learned of the time before it, and what rests on that, is in the journal first: the next start has
// the former session in its journal and would see nothing strange in the log.

// leaseNow is how long a lease lasts under the rules of now; zero: they are not known. s.mu is held.
func (s *Agent) leaseNow() time.Duration {
	if !s.view.Settings().Known {
		return 0
	}
	return s.leaseTime()
}

// strangersUntil is when no former process that may be alive has a lease any more, by the steady clock. It had its
// lease under the rules of then; later ones can only make that longer. s.mu is held.
func (s *Agent) strangersUntil() time.Time {
	if s.strangersSince.IsZero() {
		return time.Time{}
	}
	s.strangersLease = max(s.strangersLease, s.leaseNow())
	if s.strangersLease == 0 {
		return s.clock.Steady().Add(view.PauseMost) // asked again until the rules are known
	}
	return s.strangersSince.Add(s.strangersLease)
}

// observeRules: rules that a former process may have its lease under are in force, or were until now. s.mu is held.
func (s *Agent) observeRules(o *sequencer.Outcome) {
	if o.Rules == nil || s.strangersSince.IsZero() || time.Duration(o.Rules.LeaseTicks)*tickLength <= s.strangersLease {
		return
	}
	s.strangersLease = time.Duration(o.Rules.LeaseTicks) * tickLength
	if s.incarnation != 0 { // else the journal gets it with the session
		if err := s.recordWaits(); err != nil {
			s.log.Error("that a former process may have a longer lease is not in the journal", "cause", err)
		}
	}
}

// keepLearned puts what a start has learned into the journal, before the session that it rests on.
func (s *Agent) keepLearned() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unnoted {
		if err := s.delivery.Record(journal.RecordUntold, journal.UntoldRecord{Owed: true}); err != nil {
			return err
		}
		s.unnoted = false
	}
	if s.strangersSince.IsZero() {
		return nil
	}
	if until := s.strangersUntil(); !until.After(s.clock.Steady()) {
		s.strangersSince, s.strangersLease = time.Time{}, 0
	}
	return s.recordWaits()
}

// recordWaits journals how long a former process may have its lease; s.mu is held.
func (s *Agent) recordWaits() error {
	w := journal.WaitsRecord{Boot: s.delivery.Boot, Lease: s.strangersLease}
	if !s.strangersSince.IsZero() {
		w.Since = s.strangersSince.UnixNano()
	}
	return s.delivery.Record(journal.RecordWaits, w)
}

// waitsOf goes on with what the former start had to wait for. Under another boot, or an unknown one, its clock says
// nothing: the whole lease passes again. s.mu is held.
func (s *Agent) waitsOf(w *journal.WaitsRecord) {
	if w == nil || w.Since == 0 {
		return
	}
	s.strangersSince, s.strangersLease = s.clock.Steady(), w.Lease
	if since := time.Unix(0, w.Since); w.Boot != "" && w.Boot == s.delivery.Boot && since.Before(s.strangersSince) {
		s.strangersSince = since
	}
}

// isOthers reports whether a decision lets another process of this agent in that came after this journal's last
// session: what was made or undone then this journal does not know. s.mu is held.
func (s *Agent) isOthers(o *sequencer.Outcome) bool {
	between := o.Seq > s.former && (s.first == 0 || o.Seq < s.first)
	return o.Kind == sequencer.OutcomeJoined && o.Agent == s.agent && between && !slices.Contains(s.joins, o.Intent)
}

// hadOthers reports whether there was such a process. A copy of a journal, or one from before a sidecar's last move,
// is whole and locked, and yet not the predecessor's.
func (s *Agent) hadOthers(ctx context.Context) (bool, error) {
	s.mu.Lock()
	known, from, to := s.others, s.former, s.first
	s.mu.Unlock()
	if known != nil || from == 0 {
		return known != nil && *known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTry)
	defer cancel()
	found := false
	err := s.events.Follow(ctx, s.workspace, from, func(o *sequencer.Outcome, _ streams.Way) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if found = found || s.isOthers(o); found || o.Seq >= to {
			return errResolved
		}
		return nil
	})
	if !errors.Is(err, errResolved) && !errors.Is(err, streams.ErrGone) {
		return false, fmt.Errorf("find out which sidecars the agent has had: %w", err)
	}
	found = found || errors.Is(err, streams.ErrGone)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = &found
	return found, nil
}

// share: somebody else has adopted a transaction, and may have made calls that this journal does not know; s.mu is
// held.
func (s *Agent) share(id sequencer.TxID, d *debt) {
	if d != nil {
		d.theirs, d.heard, d.waited, d.tries = true, false, false, 0
	}
	if err := s.delivery.Share(id); err != nil {
		s.log.Error("that a settlement had another owner is not in the journal", "tx", string(id), "cause", err)
	}
}
