package sim

import (
	"cmp"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// The bounds of a settlement.
const (
	maxMends = 6       // tries of one release or compensation; then it is residue
	never    = 1 << 30 // as the step of something that must not happen
)

// settlement is what an owner does about one decided transaction.
type settlement struct {
	info    *txInfo
	since   int
	ground  gate.Claim
	wait    int       // steps before it does anything: a call of a former owner may still land
	effects []*effect // what is to be done, in order
	all     []*effect
	turn    bool // of a member of a cone: all that ran is undone
	listed  bool
	n       uint32
	sentAt  int
}

// undoes: it takes back what ran instead of letting out what was held.
func (s *settlement) undoes() bool { return s.turn || !s.info.committed }

// settleAll works on every decided transaction that this incarnation owns, and takes over what has no owner.
func (c *sidecar) settleAll() {
	list := c.r.truth.list
	for c.settledTo < len(list) && list[c.settledTo].finalAt(c.view) {
		c.settledTo++
	}
	for _, info := range list[c.settledTo:] {
		if !info.decided(c.view) || info.finalAt(c.view) {
			delete(c.settlements, info.id)
			continue
		}
		turn := info.settledAt(c.view)
		if s := c.settlements[info.id]; s != nil && s.turn != turn {
			delete(c.settlements, info.id)
		}
		switch info.ownerAt(c.view) {
		case c.incarnation:
			if turn && (info.turn == 0 || info.turn > c.view) {
				continue
			}
			s := c.settlements[info.id]
			switch {
			case s == nil && turn:
				s = c.newTurn(info)
			case s == nil:
				s = c.newSettlement(info)
			}
			c.settle(s)
		case 0:
			if ask, found := c.adoptions[info.id]; !found {
				c.adoptions[info.id] = adoption{due: c.r.now + 10 + c.r.n(30)}
			} else if c.r.now >= ask.due {
				c.adopt(info)
			}
		}
	}
}

// adoption is when a sidecar asks for an orphan next, and how often it has.
type adoption struct {
	due int
	n   uint32
}

func (c *sidecar) adopt(info *txInfo) {
	ask := c.adoptions[info.id]
	ask.due, ask.n = c.r.now+60, ask.n+1
	c.adoptions[info.id] = ask
	c.send(&sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: info.id, N: ask.n, Incarnation: c.incarnation,
		Base: c.view})
}

// newSettlement begins a settlement: on which ground, and how long it waits first.
func (c *sidecar) newSettlement(info *txInfo) *settlement {
	s := &settlement{info: info, since: c.r.now, ground: gate.ClaimStranger, n: c.settled[info.id] + 1,
		wait: maxCallSteps + 1}
	c.settlements[info.id] = s
	journal := c.journal[info.id]
	switch {
	case journal != nil && journal.incarnation == c.incarnation:
		s.ground, s.wait, s.all = gate.ClaimOwn, 0, journal.effects
	case journal != nil && info.adoptions(c.view) == 0:
		s.ground, s.all = gate.ClaimSuccessor, journal.effects
	default:
		// Its join ended a lease that the former process may still believe in.
		if info.agent == c.agent && !c.r.careless(CarelessJoin) {
			s.wait += int(c.r.truth.rules.LeaseTicks) * tickSteps
		}
	}
	s.since = c.ownedSince(info)
	switch {
	case c.r.careless(CarelessClaim) && s.ground == gate.ClaimStranger:
		s.ground = gate.ClaimSuccessor
	case c.r.careless(CarelessWait):
		s.wait = 0
	}
	return s
}

// list makes the effects of a settlement: releases in order, or compensations in reverse. A stranger reads the log
// when it has waited: until then the former owner may add to it.
func (s *settlement) list(c *sidecar) {
	if s.listed {
		return
	}
	s.listed = true
	if s.ground == gate.ClaimStranger || s.all == nil {
		s.all = c.foundInLog(s.info)
	}
	if s.turn {
		s.all = s.taken(c.journal[s.info.id])
	}
	for _, e := range s.all {
		if s.turn || s.info.committed == e.gated() {
			s.effects = append(s.effects, e)
		}
	}
	if s.turn { // what was held ran after all that ran at once
		slices.SortStableFunc(s.effects, func(a, b *effect) int {
			return cmp.Compare(a.stage(), b.stage())
		})
	}
	if s.undoes() {
		slices.Reverse(s.effects)
	}
	for _, e := range s.effects {
		if s.ground == gate.ClaimStranger && c.mended[s.mending(e)] {
			e.end(sequencer.ResultClean)
		}
	}
}

// mending is a call of a settlement that a sink has answered. The process goes on from there when it has joined again:
// with a short lease, and no other writer in the log, an incarnation may be sure of its lease for a single call only.
type mending struct {
	token token
	kind  callKind
}

func (s *settlement) mending(e *effect) mending {
	if s.undoes() {
		return mending{e.token, callUndo}
	}
	return mending{e.token, callRelease}
}

// tenure is since when this process has owned a settlement, by whichever of its incarnations.
type tenure struct {
	since     int
	adoptions int // that the transaction had seen by then
}

// ownedSince does not start over when the process joins again, or it might wait for ever; it does when the settlement
// had another owner in between.
func (c *sidecar) ownedSince(info *txInfo) int {
	t, found := c.tenures[info.id]
	if n := info.adoptions(c.view); !found || t.adoptions != n {
		t = tenure{c.r.now, n}
		c.tenures[info.id] = t
	}
	return t.since
}

// foundInLog is what a stranger knows: each effect is in the log before it is in the world.
func (c *sidecar) foundInLog(info *txInfo) []*effect {
	a := c.r.attempts[info.id]
	if a == nil {
		return nil
	}
	var out []*effect
	for _, e := range a.effects {
		out = append(out, &effect{index: e.index, scope: e.scope, leaves: e.leaves, class: e.class, key: e.key,
			token: e.token})
	}
	return out
}

// settle takes the next step of a settlement.
func (c *sidecar) settle(s *settlement) {
	if c.r.now <= s.since+s.wait {
		return
	}
	s.list(c)
	for _, e := range s.all {
		if e.eager() && e.run != nil && !e.known && !e.givenUp {
			if c.learn(e); !e.known && !e.givenUp {
				return
			}
		}
	}
	for i, e := range s.effects {
		if e.settled {
			continue
		}
		c.mend(s, e, s.stopped(i) && !c.r.careless(CarelessStop))
		if !e.settled {
			return
		}
	}
	c.finishSettlement(s)
}

// stopped: one before the effect did not get through; of compensations, one on the same resources, since a later try
// of that one must find what it left.
func (s *settlement) stopped(at int) bool {
	for _, e := range s.effects[:at] {
		if e.stops && (!s.undoes() || e.scope.Overlaps(s.effects[at].scope)) {
			return true
		}
	}
	return false
}

// finishSettlement tells the log what became of the effects.
func (c *sidecar) finishSettlement(s *settlement) {
	r := c.r
	for _, e := range s.effects {
		if e.mend != nil && !e.mend.over(r.now) && !e.mend.answered(r.now) {
			return // what was not answered may still land
		}
	}
	if s.sentAt != 0 {
		o := c.answer(s.info.id, sequencer.IntentSettle, s.n)
		switch {
		case o == nil && r.now < s.sentAt+60:
			return
		case o != nil && o.Kind == sequencer.OutcomeRefused:
			s.n++
		}
	}
	s.sentAt, c.settled[s.info.id] = r.now, s.n
	in := &sequencer.Intent{Kind: sequencer.IntentSettle, Tx: s.info.id, N: s.n, Incarnation: c.incarnation, Base: c.view,
		Settle: &sequencer.Settle{NoneElse: r.chance(0.7)}}
	for _, e := range s.effects {
		in.Settle.Effects = append(in.Settle.Effects, sequencer.Settled{Index: uint32(e.index),
			Scopes: []sequencer.Scope{e.scope}, Result: e.result})
	}
	c.send(in)
}
