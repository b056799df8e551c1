package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// maxUnsettled bounds how many unsettled transactions are asked for at once.
const maxUnsettled = 1000

// orphans is what a sidecar does about transactions without a live owner that stand in the way of its agent, or of a
// retraction.
type orphans struct {
	waiting map[sequencer.TxID]time.Time // own transactions, since when they wait
	asked   map[sequencer.TxID]uint32    // orphans that were asked for, how often
	next    time.Time                    // when orphans may be looked for again
	looking bool

	named  map[sequencer.TxID]awaited // by retraction
	asking map[sequencer.TxID]bool    // retractions that this sidecar has asked for

	left left
}

// observeOrphans takes over what was adopted.
func (s *Settler) observeOrphans(o *sequencer.Outcome) {
	if o.Kind == sequencer.OutcomeAdopted && o.Agent == s.agent && o.Incarnation == s.session.Incarnation() {
		delete(s.orphans.asked, o.Tx)
		d := s.owe(o.Tx, o.Seq, false, false)
		d.freed = s.orphans.left.newest
		d.parked, d.refused = 0, nil // a settlement of a former session may have been refused for want of the adoption
	}
	s.observeNamed(o)
	s.observeLeft(o)
	s.orphans.left.observeOwner(o)
}

// Beat looks for what others have left, and for orphans that are in the way, when it is time to.
func (s *Settler) Beat(now time.Time) {
	s.adoptOrphans(now)
	s.adoptLeft(now)
}

// adoptOrphans looks for orphans when the agent's transactions, or a retraction, have waited for a while.
func (s *Settler) adoptOrphans(now time.Time) {
	p := &s.orphans
	if !s.session.Live() || p.looking || now.Before(p.next) {
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
	inc := s.session.Incarnation()
	p.looking = s.Loop.Go(func(ctx context.Context) {
		s.lookForOrphans(ctx, inc, func(tx sequencer.TxID) bool { return all || wanted[tx] })
		p.looking = false
	})
}

// waitedFor is what the agent's transactions wait for, as the log named it when they began to, and how long the first
// of them waits. What blocks them may have changed since.
func (s *Settler) waitedFor(now time.Time) (by map[sequencer.TxID]bool, longest time.Duration) {
	by = map[sequencer.TxID]bool{}
	still := map[sequencer.TxID]time.Time{}
	s.own.Waiting(func(id sequencer.TxID, waiting *sequencer.Outcome) {
		since, known := s.orphans.waiting[id]
		if !known {
			since = now
		}
		still[id] = since
		longest = max(longest, now.Sub(since))
		for _, b := range waiting.BlockedBy {
			by[b.Tx] = true
		}
	})
	s.orphans.waiting = still
	return by, longest
}

// lookForOrphans asks for those transactions without an owner that are in the way.
func (s *Settler) lookForOrphans(ctx context.Context, inc sequencer.Seq, inTheWay func(sequencer.TxID) bool) {
	ctx, cancel := s.clock.Within(ctx, logTry)
	defer cancel()
	rows, _, err := s.Unsettled(ctx, "")
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
func (s *Settler) canSettle(ctx context.Context, tx sequencer.TxID) bool {
	effects, err := s.logged(ctx, tx)
	if err != nil {
		return lostForGood(err)
	}
	return s.knows(effects)
}

func (s *Settler) adoptOne(ctx context.Context, tx sequencer.TxID, inc sequencer.Seq) {
	p := &s.orphans
	if p.asked == nil || len(p.asked) > maxUnsettled {
		p.asked = map[sequencer.TxID]uint32{}
	}
	p.asked[tx]++
	in := &sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: tx, N: p.asked[tx], Agent: s.agent, Incarnation: inc}
	if _, err := s.session.Append(ctx, in); err != nil {
		s.metrics.AppendErrors.Inc()
		s.log.Warn("an orphan was not adopted: tried again", "tx", string(tx), "cause", err)
	}
}

// FindOwed asks which transactions the join has made this sidecar's, until that is known: its own journal may be lost,
// or may never have known of them.
func (s *Settler) FindOwed(ctx context.Context, inc sequencer.Seq) {
	if inc == s.formers.First() { // later ones have what this process has under way
		s.marks.again()
	}
	pause := view.PauseMost
	_ = s.Loop.Retry(ctx, func() error {
		try, cancel := s.clock.Within(ctx, logTry)
		defer cancel()
		rows, through, err := s.Unsettled(try, s.agent)
		if err != nil && !errors.Is(err, streams.ErrTruncated) {
			return err
		}
		if through < inc {
			return errors.New("the answer is older than the join")
		}
		failpoint.Hit(failpoint.StartOwed)
		if s.session.Incarnation() != inc {
			return nil
		}
		for _, r := range rows {
			seen, ok := s.view.Transaction(r.Tx)
			if r.Owner != inc || r.Decision > inc || ok && seen.Final || s.resting[r.Tx] > through {
				continue // another's, of this session, or settled since
			}
			d := s.owe(r.Tx, r.Decision, false, false)
			if by := s.orphans.left.owner[r.Tx]; by != "" && by != s.agent {
				d.freed = s.orphans.left.newest // a join has ended its session, and by its own clock it may go on
			}
			s.take(d, r)
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
		s.Loop.Sleep(ctx, pause)
		pause = min(2*pause, view.PauseAsking)
	})
}

// What an agent has left unsettled, and whose sidecar does not come back, is adopted though nothing waits for it: what
// is committed leaves, or is on the list of residues. Each sidecar sees the end of a lease and looks a while later, at
// a time of its own, so that the first has adopted it before the next looks.
const (
	// surrenderAfter is how many lease times an orphan is left to sidecars that have its tools. Then any adopts it, and
	// what it cannot settle is residue.
	surrenderAfter = 4
	// sweepEvery is how often a sidecar looks whatever it has seen: a view forgets, and its beginning is no decision's.
	sweepEvery = 10 * time.Minute
	// maxEnded bounds the ends of leases that a sidecar remembers.
	maxEnded = 1024
)

// left is what a sidecar knows of what others have left.
type left struct {
	ended   map[sequencer.Seq]time.Time  // when the view has shown the end of an incarnation's lease
	newest  time.Time                    // by the steady clock: since then none of them begins a call; zero: none
	last    map[string]time.Time         // when the view has shown the last end of an agent's session
	owner   map[sequencer.TxID]string    // the agent that has adopted a transaction last
	found   map[sequencer.TxID]time.Time // when an orphan was found whose session's end the view has not shown
	look    time.Time                    // when to look if anything is known to be unsettled; zero: not
	owed    bool                         // the last look found something unsettled: it may be older than the view
	sweep   time.Time                    // when to look whatever it shows; zero: this sidecar has just begun
	looking bool
}

// afterEnd is how long after the end of a lease this sidecar looks: an agent's next session may come for its own.
func (s *Settler) afterEnd(inc sequencer.Seq) time.Duration {
	fifth := s.view.LeaseTime() / 5
	return min(s.limits.AdoptAfter, fifth) + s.part(fmt.Sprint(inc), fifth)
}

// part is this agent's part of a time in which one sidecar after the other does the same.
func (s *Settler) part(of string, whole time.Duration) time.Duration {
	return time.Duration(spread(s.agent, of) * float64(whole))
}

// spread is a number below 1 that differs from agent to agent.
func spread(agent, of string) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(agent + "|" + of)) // never fails
	return float64(h.Sum32()%1024) / 1024
}

// observeLeft notes the end of a lease, also of this agent's: what it had adopted is not its next session's.
func (s *Settler) observeLeft(o *sequencer.Outcome) {
	if o.Kind != sequencer.OutcomeLeaseEnded {
		return
	}
	p := &s.orphans.left
	if p.ended == nil || len(p.ended) >= maxEnded {
		p.ended = map[sequencer.Seq]time.Time{}
	}
	now, quiet := s.clock.Now(), s.clock.Steady()
	if strings.HasPrefix(o.Intent, "join:") { // by its own clock the former process may have its lease for as long again
		quiet = quiet.Add(max(s.view.LeaseTime(), time.Duration(s.view.LeaseOf(o.Incarnation))*view.TickLength))
	}
	p.ended[o.Incarnation] = now
	if p.newest.Before(quiet) {
		p.newest = quiet
	}
	if p.last == nil || len(p.last) >= maxEnded {
		p.last = map[string]time.Time{}
	}
	p.last[o.Agent] = now
	p.lookBy(now.Add(s.afterEnd(o.Incarnation)))
}

// observeOwner notes who has adopted a transaction.
func (p *left) observeOwner(o *sequencer.Outcome) {
	if o.Kind != sequencer.OutcomeAdopted {
		return
	}
	if p.owner == nil || len(p.owner) >= maxEnded {
		p.owner = map[sequencer.TxID]string{}
	}
	p.owner[o.Tx] = o.Agent
}

func (p *left) lookBy(at time.Time) {
	if p.look.IsZero() || at.Before(p.look) {
		p.look = at
	}
}

// adoptLeft looks for what others have left, when it is time to.
func (s *Settler) adoptLeft(now time.Time) {
	p := &s.orphans.left
	if !s.session.Live() || p.looking {
		return
	}
	if p.sweep.IsZero() { // others have seen what was left before this sidecar began: they come first
		p.sweep = now.Add(s.view.LeaseTime()/2 + s.part("begin", s.view.LeaseTime()/5))
	}
	due := !p.look.IsZero() && !now.Before(p.look)
	if due {
		p.look = time.Time{}
		due = s.view.Owes() || p.owed
	}
	if !due && now.Before(p.sweep) {
		return
	}
	inc := s.session.Incarnation()
	p.looking = s.Loop.Go(func(ctx context.Context) {
		again := s.lookForLeft(ctx, inc)
		if p.looking = false; again > 0 {
			p.lookBy(s.clock.Now().Add(again))
			p.sweep = p.look // the view may not show what was found
		}
	})
	if !p.looking { // every task is taken: this look is not the one that was due
		p.lookBy(now.Add(s.view.LeaseTime() / 5))
		return
	}
	p.sweep = now.Add(sweepEvery + s.part("sweep", sweepEvery/5))
}

// lookForLeft adopts the orphans that this sidecar can settle, and those that no other has settled for long. again is
// when to look for the others; zero: there are none.
func (s *Settler) lookForLeft(ctx context.Context, inc sequencer.Seq) (again time.Duration) {
	ctx, cancel := s.clock.Within(ctx, logTry)
	defer cancel()
	rows, _, err := s.Unsettled(ctx, "")
	if err != nil && !errors.Is(err, streams.ErrTruncated) {
		s.log.Warn("what others have left unsettled is not known: asked again", "cause", err)
		return s.view.LeaseTime() / 5
	}
	s.orphans.left.owed = len(rows) > 0
	rows = slices.DeleteFunc(rows, func(r topology.Unsettled) bool { return r.Owner != 0 })
	// Sidecars that look at one time begin at different ends of a long list.
	slices.SortStableFunc(rows, func(a, b topology.Unsettled) int {
		return cmp.Compare(spread(s.agent, string(a.Tx)), spread(s.agent, string(b.Tx)))
	})
	now := s.clock.Now()
	since := s.leftSince(rows, now)
	for i, r := range rows {
		age := now.Sub(since[i])
		ready := age >= s.afterEnd(r.Incarnation) && (age >= surrenderAfter*s.view.LeaseTime() || s.canSettle(ctx, r.Tx))
		if ctx.Err() != nil {
			return s.limits.AdoptAfter
		}
		if ready {
			s.adoptOne(ctx, r.Tx, inc)
		}
		again = s.view.LeaseTime() / 5 // also to see whether that was taken
	}
	return again
}

// leftSince is since when each of some transactions has no owner, as far as this sidecar knows.
func (s *Settler) leftSince(rows []topology.Unsettled, now time.Time) (out []time.Time) {
	p := &s.orphans.left
	found := map[sequencer.TxID]time.Time{}
	for _, r := range rows {
		at, seen := p.ended[r.Incarnation]
		agent, _, _, _ := api.OwnerOf(r.Tx)
		for _, owner := range []string{agent, p.owner[r.Tx]} { // one that had it since may come back for it, too
			if end := p.last[owner]; seen && end.After(at) {
				at = end
			}
		}
		if !seen {
			if at, seen = p.found[r.Tx]; !seen {
				at = now.Add(-s.afterEnd(r.Incarnation)) // an owner that has not returned by now will not
			}
			found[r.Tx] = at
		}
		out = append(out, at)
	}
	p.found = found
	return out
}

// since is from when on no former owner of a transaction has begun a call.
func (s *Settler) since(d *unsettled, now time.Time, claim gate.Claim) time.Time {
	if claim == gate.ClaimStranger && !d.freed.IsZero() {
		return s.silentFrom(d)
	}
	return now
}

// maxNamed bounds the retractions of which a sidecar remembers what they wait for, and those that it has asked for.
const maxNamed = 256

// whyOrphan is what a decision says of a blocker that has no owner.
const whyOrphan = "orphan"

// awaited are the orphans that a retraction waits for, as the log has named them last.
type awaited struct {
	txs []sequencer.TxID
	any bool      // which ones is not known here: it was said before this session
	due time.Time // when this sidecar adopts them, unless another one has
}

// observeNamed notes the orphans that a retraction waits for, and forgets those that no longer wait.
//
// Each sidecar sees the same decision, and the first adoption in the log counts. So that they do not all append one,
// the owner of the member that waits is the first; where that has no owner, the sidecar that asked for the retraction.
// The others come much later and one after the other, in case that the first one is gone, or does not know the tools.
func (s *Settler) observeNamed(o *sequencer.Outcome) {
	p := &s.orphans
	if o.Kind == sequencer.OutcomeAdopted || o.Final {
		for of, n := range p.named {
			n.txs = slices.DeleteFunc(n.txs, func(tx sequencer.TxID) bool { return tx == o.Tx })
			if p.named[of] = n; len(n.txs) == 0 && !n.any {
				delete(p.named, of)
			}
		}
	}
	var wanted []sequencer.TxID
	switch {
	case o.Retraction == "":
		return
	case o.Kind == sequencer.OutcomeRetracting:
		for _, b := range o.BlockedBy {
			if b.Why == whyOrphan {
				wanted = append(wanted, b.Tx)
			}
		}
	case o.Kind == sequencer.OutcomeTurn && o.Incarnation == 0:
		wanted = append(wanted, o.Tx) // its turn has come, and it has no owner
	case o.Kind == sequencer.OutcomeTurn:
	case o.Kind == sequencer.OutcomeSettled && o.Tx == o.Retraction: // the last one of its cone
		delete(p.asking, o.Retraction)
	default:
		return
	}
	if delete(p.named, o.Retraction); len(wanted) > 0 {
		first := o.Incarnation == s.session.Incarnation() || o.Incarnation == 0 && p.asking[o.Retraction]
		in := adoptIn(s.limits.AdoptAfter, s.agent, o.Retraction, first)
		s.wantNamed(o.Retraction, awaited{txs: wanted, due: s.clock.Now().Add(in)})
	}
}

// wantNamed keeps what a retraction waits for.
func (s *Settler) wantNamed(of sequencer.TxID, n awaited) {
	p := &s.orphans
	if p.named == nil || len(p.named) >= maxNamed {
		p.named = map[sequencer.TxID]awaited{} // those that still wait are found by their owner's next session
	}
	p.named[of] = n
}

// askedToRetract notes that this sidecar has asked for a retraction.
func (s *Settler) askedToRetract(of sequencer.TxID) {
	p := &s.orphans
	if p.asking == nil || len(p.asking) >= maxNamed {
		p.asking = map[sequencer.TxID]bool{}
	}
	p.asking[of] = true
}

// adoptIn is how long a sidecar leaves an orphan that a retraction waits for to its agent's next session, and to those
// that come before this one. Agents differ in it, so that one of the others has adopted it before the next looks.
func adoptIn(after time.Duration, agent string, of sequencer.TxID, first bool) time.Duration {
	if first {
		return after
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(agent + "|" + string(of))) // never fails
	return 4*after + time.Duration(h.Sum32()%64)*after/4
}

// namedNow are the orphans that this sidecar adopts now because a retraction waits for them; any: all that it can.
func (p *orphans) namedNow(now time.Time) (txs map[sequencer.TxID]bool, any bool) {
	txs = map[sequencer.TxID]bool{}
	for _, n := range p.named {
		if now.Before(n.due) {
			continue
		}
		any = any || n.any
		for _, tx := range n.txs {
			txs[tx] = true
		}
	}
	return txs, any
}

// waitsForTurn notes that a transaction of ours is in a retraction whose turn has not come. What it waits for was said
// before this session, so if it still waits after a while everything that has no owner is adopted.
func (s *Settler) waitsForTurn(of sequencer.TxID) {
	if _, known := s.orphans.named[of]; !known {
		s.wantNamed(of, awaited{any: true, due: s.clock.Now().Add(4 * s.limits.AdoptAfter)})
	}
}
