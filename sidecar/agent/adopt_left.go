package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

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

// left is what a sidecar knows of what others have left. It is guarded by Agent.mu.
type left struct {
	ended   map[sequencer.Seq]time.Time  // when the view has shown the end of an incarnation's lease
	newest  time.Time                    // by the steady clock: since then none of them begins a call; zero: none
	last    map[string]time.Time         // when the view has shown the last end of an agent's session
	owner   map[sequencer.TxID]string    // the agent that has adopted a transaction last
	found   map[sequencer.TxID]time.Time // when an orphan was found whose session's end the view has not shown
	look    time.Time                    // when to look if the view shows that anything is unsettled; zero: not
	sweep   time.Time                    // when to look whatever it shows; zero: this sidecar has just begun
	looking bool
}

// leaseTime is how long a lease of the workspace lasts: by the default rules where the view does not know its own.
func (s *Agent) leaseTime() time.Duration {
	return time.Duration(s.view.Settings().Rules.LeaseTicks) * tickLength
}

// afterEnd is how long after the end of a lease this sidecar looks: an agent's next session may come for its own.
func (s *Agent) afterEnd(inc sequencer.Seq) time.Duration {
	fifth := s.leaseTime() / 5
	return min(s.limits.AdoptAfter, fifth) + s.part(fmt.Sprint(inc), fifth)
}

// part is this agent's part of a time in which one sidecar after the other does the same.
func (s *Agent) part(of string, whole time.Duration) time.Duration {
	return time.Duration(spread(s.agent, of) * float64(whole))
}

// spread is a number below 1 that differs from agent to agent.
func spread(agent, of string) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(agent + "|" + of)) // never fails
	return float64(h.Sum32()%1024) / 1024
}

// observeLeft notes the end of a lease, also of this agent's: what it had adopted is not its next session's. s.mu is
// held.
func (s *Agent) observeLeft(o *sequencer.Outcome) {
	if o.Kind != sequencer.OutcomeLeaseEnded {
		return
	}
	p := &s.orphans.left
	if p.ended == nil || len(p.ended) >= maxEnded {
		p.ended = map[sequencer.Seq]time.Time{}
	}
	now, quiet := s.clock.Now(), s.clock.Steady()
	if strings.HasPrefix(o.Intent, "join:") { // by its own clock the former process may have its lease for as long again
		quiet = quiet.Add(s.leaseTime())
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

// observeOwner notes who has adopted a transaction; s.mu is held.
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
func (s *Agent) adoptLeft(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.orphans.left
	if !s.live || p.looking {
		return
	}
	if p.sweep.IsZero() { // others have seen what was left before this sidecar began: they come first
		p.sweep = now.Add(s.leaseTime()/2 + s.part("begin", s.leaseTime()/5))
	}
	due := !p.look.IsZero() && !now.Before(p.look)
	if due {
		p.look = time.Time{}
		due = s.view.Owes()
	}
	if !due && now.Before(p.sweep) {
		return
	}
	inc := s.incarnation
	p.looking = s.tasks.start(func(ctx context.Context) {
		again := s.lookForLeft(ctx, inc)
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.looking = false; again > 0 {
			p.lookBy(s.clock.Now().Add(again))
			p.sweep = p.look // the view may not show what was found
		}
	})
	if !p.looking { // every task is taken: this look is not the one that was due
		p.lookBy(now.Add(s.leaseTime() / 5))
		return
	}
	p.sweep = now.Add(sweepEvery + s.part("sweep", sweepEvery/5))
}

// lookForLeft adopts the orphans that this sidecar can settle, and those that no other has settled for long. again is
// when to look for the others; zero: there are none.
func (s *Agent) lookForLeft(ctx context.Context, inc sequencer.Seq) (again time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, appendTry)
	defer cancel()
	rows, _, err := s.events.Unsettled(ctx, s.workspace, "", maxUnsettled)
	if err != nil && !errors.Is(err, streams.ErrTruncated) {
		s.log.Warn("what others have left unsettled is not known: asked again", "cause", err)
		return s.leaseTime() / 5
	}
	rows = slices.DeleteFunc(rows, func(r topology.Unsettled) bool { return r.Owner != 0 })
	// Sidecars that look at one time begin at different ends of a long list.
	slices.SortFunc(rows, func(a, b topology.Unsettled) int {
		return cmp.Compare(spread(s.agent, string(a.Tx)), spread(s.agent, string(b.Tx)))
	})
	now := s.clock.Now()
	since := s.leftSince(rows, now)
	for i, r := range rows {
		age := now.Sub(since[i])
		ready := age >= s.afterEnd(r.Incarnation) && (age >= surrenderAfter*s.leaseTime() || s.canSettle(ctx, r.Tx))
		if ctx.Err() != nil {
			return s.limits.AdoptAfter
		}
		if ready {
			s.adoptOne(ctx, r.Tx, inc)
		}
		again = s.leaseTime() / 5 // also to see whether that was taken
	}
	return again
}

// leftSince is since when each of some transactions has no owner, as far as this sidecar knows.
func (s *Agent) leftSince(rows []topology.Unsettled, now time.Time) (out []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
				at = now.Add(-s.afterEnd(r.Incarnation)) // nobody will come for it now who has not
			}
			found[r.Tx] = at
		}
		out = append(out, at)
	}
	p.found = found
	return out
}

// since is from when on no former owner of a debt has begun a call.
func (d *debt) since(now time.Time, claim gate.Claim) time.Time {
	if claim == gate.ClaimStranger && !d.freed.IsZero() {
		return d.freed
	}
	return now
}

// noTools is the policy of a sidecar without one, for what others have left: it knows no tool, so whatever may have
// happened is said to be unresolved, and nothing is called.
type noTools struct{}

// Find is part of the policy's interface.
func (noTools) Find(string, json.RawMessage) (gate.Tool, error) { return gate.Tool{}, gate.ErrNoPolicy }

// Undo is part of the policy's interface.
func (noTools) Undo(gate.Effect, gate.Answer) (gate.Call, error) {
	return gate.Call{}, gate.ErrNoPolicy
}

// Adapter is part of the policy's interface.
func (noTools) Adapter(string) (gate.Adapter, error) { return nil, gate.ErrNoPolicy }
