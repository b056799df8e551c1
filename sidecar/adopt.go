package sidecar

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

// maxUnsettled bounds how many unsettled transactions are asked for at once.
const maxUnsettled = 1000

// orphans is what a sidecar does about transactions without a live owner that stand in the way of its agent, or of a
// retraction. It is guarded by session.mu.
type orphans struct {
	waiting map[sequencer.TxID]time.Time // own transactions, since when they wait
	asked   map[sequencer.TxID]uint32    // orphans that were asked for, how often
	next    time.Time                    // when orphans may be looked for again
	looking bool

	named  map[sequencer.TxID]awaited // by retraction
	asking map[sequencer.TxID]bool    // retractions that this sidecar has asked for

	left left
}

// observeOrphans takes over what was adopted; s.mu is held.
func (s *session) observeOrphans(o *sequencer.Outcome) {
	if o.Kind == sequencer.OutcomeAdopted && o.Agent == s.agent && o.Incarnation == s.incarnation {
		delete(s.orphans.asked, o.Tx)
		d := s.owe(o.Tx, o.Seq, false, false)
		d.freed = s.orphans.left.newest
		d.parked, d.refused = 0, nil // a settlement of a former session may have been refused for want of the adoption
	}
	s.observeNamed(o)
	s.observeLeft(o)
	s.orphans.left.observeOwner(o)
}

// adoptOrphans looks for orphans when the agent's transactions, or a retraction, have waited for a while.
func (s *session) adoptOrphans(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.orphans
	if !s.live || p.looking || now.Before(p.next) {
		return
	}
	wanted, longest := s.waitedFor(now)
	if longest < s.limits.AdoptAfter { // an agent's next session may still come for its own
		wanted = map[sequencer.TxID]bool{}
	}
	named, all := p.namedNow(now)
	maps.Copy(wanted, named)
	all = all || longest >= 4*s.limits.AdoptAfter
	if len(wanted) == 0 && !all && longest < s.limits.AdoptAfter {
		return
	}
	p.next = now.Add(s.limits.AdoptAfter)
	inc := s.incarnation
	p.looking = s.tasks.start(func(ctx context.Context) {
		s.lookForOrphans(ctx, inc, func(tx sequencer.TxID) bool { return all || wanted[tx] })
		s.mu.Lock()
		defer s.mu.Unlock()
		p.looking = false
	})
}

// waitedFor is what the agent's transactions wait for, as the log named it when they began to, and how long the first
// of them waits. What blocks them may have changed since.
func (s *session) waitedFor(now time.Time) (by map[sequencer.TxID]bool, longest time.Duration) {
	by = map[sequencer.TxID]bool{}
	still := map[sequencer.TxID]time.Time{}
	for id, t := range s.active {
		if t.waiting == nil {
			continue
		}
		since, known := s.orphans.waiting[id]
		if !known {
			since = now
		}
		still[id] = since
		longest = max(longest, now.Sub(since))
		for _, b := range t.waiting.BlockedBy {
			by[b.Tx] = true
		}
	}
	s.orphans.waiting = still
	return by, longest
}

// lookForOrphans asks for those transactions without an owner that are in the way.
func (s *session) lookForOrphans(ctx context.Context, inc sequencer.Seq, inTheWay func(sequencer.TxID) bool) {
	ctx, cancel := context.WithTimeout(ctx, appendTry)
	defer cancel()
	rows, _, err := s.events.Unsettled(ctx, s.workspace, "", maxUnsettled)
	if err != nil && !errors.Is(err, streams.ErrTruncated) {
		s.log.Warn("who has left what unsettled is not known", "cause", err)
		return
	}
	for _, r := range rows {
		if r.Owner == 0 && inTheWay(r.Tx) && s.canSettle(ctx, r.Tx) {
			s.adoptOne(ctx, r.Tx, inc)
		}
	}
}

// canSettle: what this sidecar's policy does not know is left to others.
func (s *session) canSettle(ctx context.Context, tx sequencer.TxID) bool {
	effects, err := s.logged(ctx, tx)
	if err != nil {
		return lostForGood(err)
	}
	for _, p := range effects {
		if s.tools == nil {
			return false
		}
		found, err := s.tools.Find(p.Tool.Name, p.Args)
		if err != nil || found.Class != p.Tool.Class || gate.Unchanged(s.tools, &p.Effect) != nil {
			return false
		}
		if _, err := s.tools.Adapter(p.Tool.Name); err != nil {
			return false
		}
	}
	return true
}

func (s *session) adoptOne(ctx context.Context, tx sequencer.TxID, inc sequencer.Seq) {
	s.mu.Lock()
	p := &s.orphans
	if p.asked == nil || len(p.asked) > maxUnsettled {
		p.asked = map[sequencer.TxID]uint32{}
	}
	p.asked[tx]++
	in := &sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: tx, N: p.asked[tx], Agent: s.agent, Incarnation: inc}
	s.mu.Unlock()
	if _, err := s.append(ctx, in); err != nil {
		s.metrics.appendErrors.Inc()
		s.log.Warn("an orphan was not adopted: tried again", "tx", string(tx), "cause", err)
	}
}

// pauseAsking is the longest pause between two questions for what a join has made this sidecar's.
const pauseAsking = 30 * time.Second

// findOwed asks which transactions the join has made this sidecar's, until that is known: its own journal may be lost,
// or may never have known of them.
func (s *session) findOwed(ctx context.Context, inc sequencer.Seq) {
	pauses := pause.Doubling{Least: pauseMost, Most: pauseAsking}
	_ = retry(ctx, func() error {
		try, cancel := context.WithTimeout(ctx, appendTry)
		defer cancel()
		rows, through, err := s.events.Unsettled(try, s.workspace, s.agent, maxUnsettled)
		if err != nil && !errors.Is(err, streams.ErrTruncated) {
			return err
		}
		if through < inc {
			return errors.New("the answer is older than the join")
		}
		failpoint.Hit(failpoint.StartOwed)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.incarnation != inc {
			return nil
		}
		for _, r := range rows {
			if seen, ok := s.view.transaction(r.Tx); r.Owner != inc || r.Decision > inc || ok && seen.final {
				continue // another's, of this session, or settled since
			}
			s.take(s.owe(r.Tx, r.Decision, false, false), r)
			if r.Retraction != "" && r.Turn == 0 {
				s.waitsForTurn(r.Retraction)
			}
		}
		if len(rows) == maxUnsettled {
			return errors.New("there are more")
		}
		return nil
	}, func(err error) {
		s.log.Warn("what is left to settle is not known yet: asked again", "cause", err)
		_ = pause.Sleep(ctx, pauses.Next()) // retry sees that ctx has ended
	})
}
