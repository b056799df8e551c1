package agent

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
)

// again opens the successor of a transaction that was refused, or lost with its session. Asked twice it names the same
// one. carried are reads that it rests on from its beginning.
func (s *Agent) again(ctx context.Context, t *tx, carried []sequencer.Read) (*tx, bool, error) {
	if err := s.enter(ctx, t); err != nil {
		return nil, false, err
	}
	defer s.leave(t)
	next, err := s.mayRetry(t)
	begin, first := s.successor(t)
	if err != nil {
		return nil, false, err
	}
	fresh := next == nil
	if fresh {
		next, err = s.start(ctx, begin, func(n *tx) {
			n.attempt, n.refusals, n.first, n.reads = t.attempt+1, t.refusals+1, first, carried
			t.successor = n.id
		})
	} else {
		next, err = s.beginInLog(ctx, next)
	}
	if next == nil {
		t.successor = ""
	}
	return next, fresh, err
}

// mayRetry is the successor that is there already, or why there may be none.
func (s *Agent) mayRetry(t *tx) (*tx, error) {
	if next := s.txs[t.successor]; next != nil {
		return next, nil
	}
	if t.gone() {
		return nil, nil
	}
	if !t.decided() {
		return nil, api.Problemf(api.CodeNotAborted, "%s is %s: only an aborted transaction is tried again",
			t.id, s.decision(t).State)
	}
	d := s.decision(t)
	if d.State == api.StateCommitted {
		p := api.Problemf(api.CodeAlreadyCommitted, "%s is committed: begin a new transaction", t.id)
		p.Decision = d
		return nil, p
	}
	if d.Code == string(sequencer.CodeLostBranch) {
		p := api.Problemf(d.Code, "%s lost against %s: begin outside the group", t.id, d.MovedBy)
		p.Decision = d
		return nil, p
	}
	if was, known := s.view.Choice(t.begin.Group); known && was.Tx != t.id {
		p := api.Problemf(string(sequencer.CodeLostBranch), "%s was chosen in the group of %s: begin outside the group",
			was.Tx,
			t.id)
		p.Decision, p.MovedSeq, p.MovedBy = d, uint64(was.Seq), string(was.Tx)
		return nil, p
	}
	if t.attempt >= s.limits.Attempts {
		p := api.Problemf(api.CodeGaveUp, "%d attempts were refused: give the work back, or begin a new transaction",
			t.attempt)
		p.Decision = d
		return nil, p
	}
	return nil, nil
}

// successor is how the next attempt begins: it names its predecessor, so that a wounded one's age is kept; after a
// conflict it asks for the whole footprint at first; after some refusals it is locked.
func (s *Agent) successor(t *tx) (sequencer.Begin, []sequencer.Want) {
	begin := t.begin
	begin.Predecessor = t.id
	if winner, known := s.view.Winner(t.begin.Group); known && winner == t.id {
		begin.Group = "" // the choice stands: another branch would be lost
	}
	if t.refusals+1 >= s.limits.LockedAfter {
		begin.Mode, begin.May = sequencer.Locked, nil // which takes no claims: it waits for what it reads
	}
	if o := t.ending(); o != nil && o.Code == sequencer.CodeConflict {
		return begin, t.footprint()
	}
	return begin, nil
}

// keyedTries is how often a keyed request is begun again where the log refused it for a reason that is not the
// reader's: what it rests on is compared again each time.
const keyedTries = 16

// hasMoved reports whether a refusal is of something that was compared before: comparing it again says what of it.
func hasMoved(err error) bool {
	switch api.AsProblem(err).Code {
	case string(sequencer.CodeStaleRead), string(sequencer.CodeVersionMismatch):
		return true
	}
	return false
}

func notInTime(scope sequencer.Scope) error {
	return api.Problemf(api.CodeLog, "the write of %s waits for transactions that hold it, and is given up: read it, "+
		"and ask again", scope)
}

// keyedRefusal is what the log's refusal means; again: comparing again says it, or it may pass then.
func keyedRefusal(d *api.Decision) (again bool, err error) {
	p := words.Refusal(d)
	return hasMoved(p) || d.Retryable, p
}
