package sidecar

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// maxDead bounds how many agents whose lease has ended are remembered.
const maxDead = 1024

// orphans is what a sidecar does about transactions without a live owner that stand in its agent's way. It is guarded
// by session.mu.
type orphans struct {
	dead    map[string]bool // agents whose lease has ended and who have not joined since
	order   []string
	adopts  map[sequencer.TxID]*adoption
	waiting map[sequencer.TxID]time.Time // own transactions, since when they wait
}

// adoption is one orphan that this sidecar wants to settle.
type adoption struct {
	n       uint32
	next    time.Time // when it may be asked for again
	running bool
}

// observeOrphans keeps track of who is gone, and takes over what was adopted; s.mu is held.
func (s *session) observeOrphans(o *sequencer.Outcome) {
	p := &s.orphans
	switch o.Kind {
	case sequencer.OutcomeLeaseEnded:
		if o.Agent != s.agent && !strings.HasPrefix(o.Intent, "join:") {
			p.bury(o.Agent)
		}
	case sequencer.OutcomeJoined:
		delete(p.dead, o.Agent)
	case sequencer.OutcomeAdopted:
		if o.Agent == s.agent && o.Incarnation == s.incarnation {
			s.owe(o.Tx, o.Seq, false, false)
		}
	}
}

func (p *orphans) bury(agent string) {
	if p.dead == nil {
		p.dead = map[string]bool{}
	}
	if !p.dead[agent] {
		p.order = append(p.order, agent)
	}
	p.dead[agent] = true
	if len(p.order) > maxDead {
		delete(p.dead, p.order[0])
		p.order = p.order[1:]
	}
}

// adoptOrphans asks for the orphans that have blocked the agent's transactions for a while.
func (s *session) adoptOrphans(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		return
	}
	p := &s.orphans
	wanted := map[sequencer.TxID]bool{}
	still := map[sequencer.TxID]time.Time{}
	for id, t := range s.active {
		if t.waiting == nil {
			continue
		}
		since, known := p.waiting[id]
		if !known {
			since = now
		}
		still[id] = since
		if now.Sub(since) >= s.limits.AdoptAfter {
			s.blockedBy(t, now.Sub(since), wanted)
		}
	}
	p.waiting = still
	for id := range p.adopts {
		if !wanted[id] && !p.adopts[id].running {
			delete(p.adopts, id)
		}
	}
	for id := range wanted {
		s.adoptOne(id, now)
	}
}

// blockedBy adds the orphans that a transaction waits for. The log names them when it begins to wait; after a while
// every orphan that the view knows counts, since what blocks may have changed.
func (s *session) blockedBy(t *tx, waits time.Duration, wanted map[sequencer.TxID]bool) {
	for _, b := range t.waiting.BlockedBy {
		agent, _, ok := ownerOf(b.Tx)
		if b.Why == "orphan" || ok && s.orphans.dead[agent] {
			wanted[b.Tx] = true
		}
	}
	if waits >= 4*s.limits.AdoptAfter && len(s.orphans.dead) > 0 {
		for _, id := range s.view.unsettled(s.orphans.dead) {
			wanted[id] = true
		}
	}
	for id := range wanted {
		if seen, ok := s.view.transaction(id); ok && (seen.final || seen.decision == nil) || s.debts[id] != nil {
			delete(wanted, id)
		}
	}
}

// adoptOne asks the log for one orphan; s.mu is held.
func (s *session) adoptOne(id sequencer.TxID, now time.Time) {
	p := &s.orphans
	a := p.adopts[id]
	if a == nil {
		a = &adoption{}
		if p.adopts == nil {
			p.adopts = map[sequencer.TxID]*adoption{}
		}
		p.adopts[id] = a
	}
	if a.running || now.Before(a.next) {
		return
	}
	a.n++
	a.next = now.Add(s.limits.AdoptAfter << min(a.n, 6))
	in := &sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: id, N: a.n, Agent: s.agent, Incarnation: s.incarnation}
	a.running = s.tasks.start(func(ctx context.Context) {
		s.adoptNow(ctx, in)
		s.mu.Lock()
		defer s.mu.Unlock()
		a.running = false
	})
}

func (s *session) adoptNow(ctx context.Context, in *sequencer.Intent) {
	ctx, cancel := context.WithTimeout(ctx, appendTry)
	defer cancel()
	if s.engine == nil { // what it cannot settle it leaves to others
		events, err := s.events.Effects(ctx, s.workspace, in.Tx)
		if err != nil || len(events) > 0 {
			return
		}
	}
	if _, err := s.append(ctx, in); err != nil {
		s.metrics.appendErrors.Inc()
		s.log.Warn("an orphan was not adopted: tried again", "tx", string(in.Tx), "cause", err)
	}
}

// unsettled are the transactions of some agents that the view knows to be decided and not final.
func (v *view) unsettled(agents map[string]bool) (out []sequencer.TxID) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for id, t := range v.txs {
		if t.decision != nil && !t.final && agents[t.agent] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
