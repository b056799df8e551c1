package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// state is one node of the walk while it is being looked at.
type state struct {
	world
	fold    func() *sequencer.Fold
	fault   string
	intents []*sequencer.Intent // records of this step
	landed  bool
}

func (s *state) violate(format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf(format, args...)
	}
}

// apply takes one step.
func (m *model) apply(s *state, act gateAct) {
	proc, tx, effect := int(act.proc), int(act.tx), int(act.effect)
	p := &s.procs[proc]
	switch act.verb {
	case gateView:
		p.view = s.head
		p.lapsed = p.lapsed && p.confirmed == 0
	case gateCall:
		m.call(s, act)
	case gateAsk:
		m.ask(s, act)
	case gateLand, gateMute, gateLose, gateRefuse:
		m.arrive(s, act)
	case gateTimeout:
		n := s.note(proc, tx, effect, int(act.what))
		n.unknown, n.maybe = true, true
	case gateWaited:
		p.waited[tx] = true
	case gateRead:
		m.read(s, proc, tx)
	case gateTouch, gateSeal, gateAbort, gateSettle:
		m.record(s, act)
	case gateCrash:
		s.died++
		p.alive = false
	case gateLapse:
		p.lapsed = true
	case gateExpire:
		m.expire(s, proc)
	case gateJoinAs:
		m.joinAs(s)
	case gateAdoptBy:
		m.step(s, &sequencer.Intent{Kind: sequencer.IntentAdopt, Tx: gateTxID(tx), N: 1, Agent: gateAgent(proc),
			Incarnation: sequencer.Seq(p.incarnation), Base: sequencer.Seq(p.view)})
	case gateRenew:
		m.renew(s, proc)
	case gateDown:
		s.down = true
	}
	m.advance(s)
}

// advance makes moves that others cannot tell apart: the other agent's view, and operations that do nothing before
// the seal.
func (m *model) advance(s *state) {
	if !m.cfg.Leaves {
		s.procs[otherProc].view = s.head
	}
	for tx := range s.txs {
		t := &s.txs[tx]
		proc := issuer(tx)
		for int(t.pc) < len(m.cfg.Programs[tx]) && !t.decided() {
			op := m.cfg.Programs[tx][t.pc]
			effect := m.index(tx, t.pc)
			if op.Kind == OpGated {
				t.issued |= 1 << effect
			} else if n := s.note(proc, tx, effect, doing); op.Kind != OpEffect || !n.answered || !n.ran {
				break
			}
			t.pc++
		}
	}
}

// call lets one leave. Its start is in the journal before that.
func (m *model) call(s *state, act gateAct) {
	n := s.note(int(act.proc), int(act.tx), int(act.effect), int(act.what))
	s.txs[act.tx].effects[act.effect].flying[act.what] |= 1 << act.proc
	if m.careless(CarelessMark) {
		return
	}
	m.started(n)
}

// ask looks a call up. Nothing of it is under way then but what the sink would take once.
func (m *model) ask(s *state, act gateAct) {
	n := s.note(int(act.proc), int(act.tx), int(act.effect), doing)
	switch {
	case s.txs[act.tx].effects[act.effect].did > 0:
		n.started, n.answered, n.ran = true, true, true
	case act.last:
		n.looked = true
	default:
		n.asked = true
	}
}

func (m *model) started(n *gateNote) {
	n.maybe = n.maybe || n.unknown || n.started && !n.answered
	n.started, n.answered, n.unknown, n.asked = true, false, false, false
	n.made++
}

// arrive is the end of a call.
func (m *model) arrive(s *state, act gateAct) {
	e := &s.txs[act.tx].effects[act.effect]
	e.flying[act.what] &^= 1 << act.proc
	ran := false
	if act.verb == gateLand || act.verb == gateMute {
		if act.what == doing {
			ran = m.takes(s, int(act.proc), int(act.tx), int(act.effect))
		} else {
			ran = m.takesBack(s, int(act.tx), int(act.effect))
		}
	}
	n := s.note(int(act.proc), int(act.tx), int(act.effect), int(act.what))
	if !s.procs[act.proc].alive {
		return
	}
	if m.careless(CarelessMark) {
		m.started(n)
	}
	if act.verb == gateLand || act.verb == gateRefuse {
		n.answered, n.ran = true, ran
	}
}

// takes lets a sink take an effect; it reports whether the effect is there.
func (m *model) takes(s *state, proc, tx, effect int) bool {
	t := &s.txs[tx]
	e, op, id := &t.effects[effect], m.ops[tx][effect], gateTxID(tx)
	seen := e.by != 0
	if m.careless(CarelessKey) {
		seen = e.by&(1<<proc) != 0
	}
	switch {
	case op.Keyed && e.refused:
		return false
	case op.Keyed && seen:
		return true
	case e.did > 0:
		s.violate("effect %d of %s reaches its sink twice", effect, id)
	case t.phase.final():
		s.violate("effect %d of %s lands after its settlement", effect, id)
	case op.Kind == OpGated && t.phase != phaseCommitted:
		s.violate("effect %d of %s was held and leaves without a commit", effect, id)
	case op.Kind == OpEffect && t.granted&(1<<op.Scope) == 0:
		s.violate("effect %d of %s runs without a grant", effect, id)
	}
	for before := range effect {
		if op.Kind == OpGated && m.ops[tx][before].Kind == OpGated && t.effects[before].did == 0 {
			s.violate("effect %d of %s leaves, and effect %d before it has not got through", effect, id, before)
		}
	}
	m.overwrites(s, tx, op.Scope)
	e.by |= 1 << proc
	e.did++
	e.undo, s.value[op.Scope] = s.value[op.Scope], gateToken(tx)
	return true
}

// takesBack lets a sink take a compensation; under a key it refuses the effect from then on.
func (m *model) takesBack(s *state, tx, effect int) bool {
	t := &s.txs[tx]
	e, op, id := &t.effects[effect], m.ops[tx][effect], gateTxID(tx)
	e.refused = e.refused || op.Keyed
	if e.did == e.undid {
		if !op.Keyed {
			s.violate("effect %d of %s is compensated, and it has not run or was compensated before", effect, id)
		}
		return true
	}
	switch {
	case t.phase != phaseAborted:
		s.violate("effect %d of %s is compensated, which is not aborted and unsettled", effect, id)
	case s.value[op.Scope] != gateToken(tx):
		s.violate("%s undoes its effect on %s over a value that is not its own", id, gateScopes()[op.Scope])
	}
	m.overwrites(s, tx, op.Scope)
	e.undid++
	s.value[op.Scope] = e.undo
	return true
}

// overwrites checks that no other transaction has an unsettled effect on the scope.
func (m *model) overwrites(s *state, tx, scope int) {
	for other := range s.txs {
		u := &s.txs[other]
		if other == tx || u.phase.final() {
			continue
		}
		for i, op := range m.ops[other] {
			if op.Scope == scope && u.effects[i].did > u.effects[i].undid {
				s.violate("%s overwrites on %s what %s left there and has not settled", gateTxID(tx), gateScopes()[scope],
					gateTxID(other))
			}
		}
	}
}

func (m *model) read(s *state, proc, tx int) {
	t, p := &s.txs[tx], &s.procs[proc]
	scope := m.cfg.Programs[tx][t.pc].Scope
	if t.base == 0 {
		t.base = p.view
	}
	t.reads[t.nReads] = read{scope: uint8(scope), value: s.value[scope], view: p.view}
	for i, op := range m.ops[tx] {
		if op.Scope == scope && t.effects[i].did > t.effects[i].undid {
			t.reads[t.nReads].own = true
		}
	}
	t.nReads++
	t.pc++
}
