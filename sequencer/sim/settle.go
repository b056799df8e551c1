package sim

import "github.com/hence-dev/hence/sequencer"

// The bounds of a settlement.
const (
	maxMends = 6       // tries of one release or compensation; then it is residue
	never    = 1 << 30 // as the step of something that must not happen
)

// settlement is what an owner does about one decided transaction.
type settlement struct {
	info    *txInfo
	since   int
	effects []*effect // what is left to do, in order
	all     []*effect
	journal *attempt // nil: somebody else's, or the journal is lost
	n       uint32
	sentAt  int
}

// settleAll works on every decided transaction that this incarnation owns, and takes over what nobody owns.
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
		switch info.ownerAt(c.view) {
		case c.incarnation:
			s := c.settlements[info.id]
			if s == nil {
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

// newSettlement lists what is to be done: releases in order, or compensations in reverse.
func (c *sidecar) newSettlement(info *txInfo) *settlement {
	s := &settlement{info: info, since: c.r.now, journal: c.journal[info.id], n: 1}
	c.settlements[info.id] = s
	switch {
	case s.journal != nil:
		s.all = s.journal.effects
	case info.committed:
		s.all = c.foundInLog(info)
	default:
		s.all = strangers(info)
	}
	for _, e := range s.all {
		if info.committed == e.gated() {
			s.effects = append(s.effects, e)
		}
	}
	if !info.committed {
		for i, j := 0, len(s.effects)-1; i < j; i, j = i+1, j-1 {
			s.effects[i], s.effects[j] = s.effects[j], s.effects[i]
		}
	}
	return s
}

// foundInLog is what a stranger knows of a committed transaction: its footprint. Without a key it must not call.
func (c *sidecar) foundInLog(info *txInfo) []*effect {
	var out []*effect
	for _, e := range c.r.attempts[info.id].effects {
		known := &effect{index: e.index, scope: e.scope, leaves: e.leaves, class: e.class, key: e.key, token: e.token}
		if e.gated() && e.key == "" {
			known.settled, known.result = true, sequencer.ResultUnresolved
			c.r.probe(ProbeUnkeyedStop)
		}
		out = append(out, known)
	}
	return out
}

// strangers is what a stranger knows of an aborted one: what it was granted, and that anything may have run there.
func strangers(info *txInfo) []*effect {
	var out []*effect
	for i, s := range info.grants {
		out = append(out, &effect{index: i, scope: s, class: sequencer.ClassReversible, settled: true,
			result: sequencer.ResultUnresolved})
	}
	return out
}

// settle takes the next step of a settlement.
func (c *sidecar) settle(s *settlement) {
	r := c.r
	first := s.journal != nil && s.journal.incarnation == c.incarnation
	if !first && r.now <= s.since+maxCallSteps+1 {
		return // a call of the former owner may still land
	}
	for _, e := range s.all {
		if e.eager() && e.run != nil && !e.known && !e.givenUp {
			if c.learn(e); !e.known && !e.givenUp {
				return
			}
		}
	}
	for _, e := range s.effects {
		if !e.settled {
			if c.mend(s, e, first); !e.settled {
				return
			}
		}
	}
	c.finishSettlement(s)
}

// mend releases or compensates one effect.
func (c *sidecar) mend(s *settlement, e *effect, first bool) {
	switch {
	case s.info.committed:
		c.release(s, e, first)
	case e.givenUp:
		e.settled, e.result = true, sequencer.ResultUnresolved
	case !e.ran:
		e.settled = true
	case e.class == sequencer.ClassKnownOutcome:
		e.settled, e.result = true, sequencer.ResultLeaked
	default:
		c.call(s, e, callUndo, true)
	}
}

// release lets a gated effect out. Without a key it is called once, and by another incarnation only if the journal
// shows no start.
func (c *sidecar) release(s *settlement, e *effect, first bool) {
	if e.key == "" && !first && e.mend != nil {
		c.r.probe(ProbeUnkeyedStop)
		e.settled = true
		if !e.mend.answered(c.r.now) || e.mend.fails {
			e.result = sequencer.ResultUnresolved
		}
		return
	}
	c.call(s, e, callRelease, e.key != "")
}

// call makes the call of a settlement, and again while it may be repeated and its outcome is not known.
func (c *sidecar) call(s *settlement, e *effect, kind callKind, repeat bool) {
	r := c.r
	switch {
	case e.mend == nil:
	case e.mend.answered(r.now) && !e.mend.fails:
		e.settled = true
		return
	case e.mend.answered(r.now):
		e.mend = nil // refused by the tool: it had no effect
	case !e.mend.over(r.now) || e.mend.answers >= 0:
		return
	case !repeat:
		e.settled, e.result = true, sequencer.ResultUnresolved
		return
	}
	if e.mends >= maxMends {
		e.settled, e.result = true, sequencer.ResultPartial
		return
	}
	if !c.mayCall() {
		return
	}
	e.mends++
	e.mend = r.world.start(&call{kind: kind, tx: s.info.id, effect: e, leaves: e.leaves})
}

// finishSettlement tells the log what became of the effects.
func (c *sidecar) finishSettlement(s *settlement) {
	r := c.r
	for _, e := range s.effects {
		if e.mend != nil && !e.mend.over(r.now) {
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
	s.sentAt = r.now
	in := &sequencer.Intent{Kind: sequencer.IntentSettle, Tx: s.info.id, N: s.n, Incarnation: c.incarnation, Base: c.view,
		Settle: &sequencer.Settle{NoneElse: s.journal != nil && r.chance(0.7)}}
	for _, e := range s.effects {
		in.Settle.Effects = append(in.Settle.Effects, sequencer.Settled{Index: uint32(e.index),
			Scopes: []sequencer.Scope{e.scope}, Result: e.result})
	}
	c.send(in)
}
