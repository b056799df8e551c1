package agent

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/view"
)

// sending is a seal on its way to the log, guarded by Agent.mu. An append whose answer was lost is repeated, so the
// log may have several copies. Of a transaction that it does not know it may refuse one for want of room and take a
// later one: there only the last copy's refusal leaves the transaction open.
type sending struct {
	intent  *sequencer.Intent
	acked   bool
	last    int64              // where the log has the last copy, once acked
	refused *sequencer.Outcome // the last refusal of a copy
}

// sealInLog appends a seal, again and again until an append is acknowledged or the view shows what it has led to.
// again: the log may have several copies.
func (s *Agent) sealInLog(ctx context.Context, t *tx, in *sequencer.Intent) (again bool, err error) {
	ctx = under(ctx, s.traceOf(t.id))
	err = view.Retry(ctx, func() error {
		s.mu.Lock()
		w := s.sending[t.id]
		s.mu.Unlock()
		if w == nil || w.intent != in {
			return nil
		}
		try, cancel := context.WithTimeout(ctx, appendTry)
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
	over := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return look() == nil
	}
	err := s.view.Waits.Until(ctx, view.WaitTx(t.id), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		w := look()
		return w == nil || w.refused != nil
	})
	if err != nil || over() {
		return
	}
	s.mu.Lock()
	ask := s.probe()
	s.mu.Unlock()
	if o, err := s.ask(ctx, ask, over); o == nil || err != nil {
		return
	}
	s.mu.Lock()
	opens := look() != nil && !t.shown
	if opens {
		s.reopen(t)
	}
	s.mu.Unlock()
	if opens {
		s.view.Waits.Wake(view.WaitTx(t.id))
	}
}

// sealAcked: the log has the last copy of a seal. The view may show its refusal already.
func (s *Agent) sealAcked(t *tx, w *sending, at int64) {
	s.mu.Lock()
	t.ackedAt = s.clock.Now()
	w.acked, w.last = true, at
	over := s.sending[t.id] == w && w.refused != nil && w.refused.Offset >= at
	if over {
		s.reopen(t)
	}
	s.mu.Unlock()
	if over {
		s.view.Waits.Wake(view.WaitTx(t.id))
	}
}

// sealRefused: a copy of a transaction's seal was refused; s.mu is held. One that the log knows, or will not take for
// another reason than want of room, it refuses for good: a later copy is a duplicate.
func (s *Agent) sealRefused(t *tx, o *sequencer.Outcome) {
	w := s.sending[t.id]
	w.refused = o
	if t.shown || o.Code != sequencer.CodeLimit || w.acked && o.Offset >= w.last {
		s.reopen(t)
	}
}

// reopen: a transaction's seal was refused, and the log has no copy of it to come; s.mu is held.
func (s *Agent) reopen(t *tx) {
	t.refused = s.sending[t.id].refused
	delete(s.sending, t.id)
	t.phase, t.seal = phaseOpen, nil
	s.loose.Give(t.begin.Session, t.loose)
	t.loose = nil
	if err := s.delivery.Record(journal.RecordReopened, &journal.DecidedRecord{Tx: t.id}); err != nil {
		s.log.Error("a refused seal is not in the journal", "tx", string(t.id), "cause", err)
	}
}
