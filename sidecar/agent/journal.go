package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/journal"
	"github.com/hence-dev/hence/sidecar/loop"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
)

// openJournal opens the journal once the log has said which one it is: what is in that of another log is true of
// nothing here. Until then no request is taken.
func (s *Agent) openJournal(ctx context.Context) error {
	var err error
	wait := s.loop.Retry(ctx, func() error {
		err = s.tryJournal(ctx)
		s.unopened = err
		if s.patient || errors.Is(err, journal.ErrNotKnown) {
			return err
		}
		return nil
	}, view.Complain(s.log, "the journal is not open yet: asked again"))
	if err = errors.Join(err, wait); err != nil {
		return err
	}
	s.adopt(s.delivery.Ledger)
	s.keys.Open(s.delivery)
	return nil
}

// idTry is how long the log may take to say its id before that is said.
const idTry = 5 * time.Second

func (s *Agent) tryJournal(ctx context.Context) error {
	try, cancel := s.clock.Within(ctx, idTry)
	defer cancel()
	id, err := loop.Do(s.loop, func() (string, error) { return s.events.ID(try) })
	if err != nil {
		return fmt.Errorf("the log's id is %w: %w", journal.ErrNotKnown, err)
	}
	s.origin = gate.Origin(id, s.workspace)
	of := journal.Of{Log: id, Workspace: s.workspace, Agent: s.agent}
	s.loop.Do(func() { // the disk, and perhaps the log
		err = s.delivery.Open(s.dataDir, of, s.openFile, func(l *journal.Ledger, written time.Time) (bool, error) {
			return s.ofThisLog(ctx, l, written)
		})
	})
	return err
}

// dated is a log that knows when its decisions were made, as far as clocks agree.
type dated interface {
	// SeqBefore is the last decision before a time; zero: none.
	SeqBefore(ctx context.Context, workspace string, t time.Time) (sequencer.Seq, error)
}

// ofThisLog, outside of the loop, holds a journal that names no log against the log: its last session, and each in
// which something is left to do, is a join of this agent that is not newer than the journal, and the log's decisions
// are those that it has.
func (s *Agent) ofThisLog(ctx context.Context, l *journal.Ledger, written time.Time) (bool, error) {
	when, ok := s.events.(dated)
	if !ok || l.Joined.Incarnation == 0 || l.Mixed != nil {
		return false, nil
	}
	ctx, cancel := s.clock.Within(ctx, resolveTry)
	defer cancel()
	last, err := when.SeqBefore(ctx, s.workspace, written.Add(time.Millisecond))
	if err != nil {
		return false, err
	}
	from, to, joins, decided := l.Claims()
	end, err := when.SeqBefore(ctx, s.workspace, s.clock.Now().Add(time.Hour))
	if err != nil || last < l.Joined.Incarnation || end < to {
		return false, err
	}
	same := true
	err = s.events.Follow(ctx, s.workspace, from-1, func(o *sequencer.Outcome, _ streams.Way) error {
		if joins[o.Seq] && (o.Kind != sequencer.OutcomeJoined || o.Agent != s.agent) {
			same = false
		}
		if t := decided[o.Seq]; t != nil && (o.Tx != t.Tx || view.StateOf(o) != t.State) {
			same = false
		}
		if !same || o.Seq >= to {
			return errResolved
		}
		return nil
	})
	if errors.Is(err, errResolved) {
		return same, nil
	}
	if errors.Is(err, streams.ErrGone) {
		return false, nil
	}
	return false, err
}

var errResolved = errors.New("all that was looked for in the log was seen")
