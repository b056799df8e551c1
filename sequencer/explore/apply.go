package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// state is one node of the walk while it is being looked at: a world, and a fold that is made only when a record
// reaches the log.
type state struct {
	world
	fold   func() *sequencer.Fold
	fault  string // the first property that does not hold
	intent *sequencer.Intent
	landed bool // something committed in this step
}

func (s *state) violate(format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf(format, args...)
	}
}

// apply takes one step.
func (m *model) apply(s *state, act action) {
	a := &s.agents[act.who]
	t := &a.txs[act.slot]
	who := int(act.who)
	switch act.verb {
	case doBegin, doTouch, doSeal, doAbort, doSettle, doStuck, doCopy, doYes, doNo, doRetract, doStray:
		m.record(s, act)
	case doMark:
		m.mark(s, who)
	case doJoin:
		m.restart(s, who)
	case doSelect:
		m.choose(s, who)
	case doSwitch:
		m.switchRules(s)
	case doTick:
		s.ticks++
		m.step(s, &sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: uint64(s.ticks), Weight: 1}})
	case doLand:
		m.land(s, who, t)
	case doRead:
		m.read(s, who, act.arg)
	case doViewed:
		r := &t.reads[t.nReads-1]
		r.pending, r.view = false, act.arg
		a.view = act.arg
	case doSee, doDrop:
		t.seen = true
		for i := range int(t.nEffects) {
			if e := &t.effects[i]; e.state == effectReady {
				e.state = effectDropped
				if act.verb == doSee {
					e.state = effectFlying
					act.verb = doDrop // calls leave one by one
				}
			}
		}
	case doGiveUp:
		t.seen = true
		t.effects[t.hasLast(effectLanded)].state = effectLeaked
	case doUndo:
		m.undo(s, who, t)
	case doRelease:
		m.release(s, who, t)
	case doRetry:
		m.succeed(a, t)
	}
	low := s.head
	for who := range m.cfg.Agents {
		m.advance(s, who)
		if m.reader(&s.world, who) {
			low = min(low, s.agents[who].view)
		}
	}
	for i := range s.shard {
		s.shard[i].forget(low)
	}
}

// advance moves an agent past what no other agent can see: operations that do nothing before the seal, and its end.
func (m *model) advance(s *state, who int) {
	a := &s.agents[who]
	t := &a.txs[0]
	if a.txs[1].phase.final() && a.txs[1].has(effectFlying) < 0 {
		a.txs[1] = txn{}
	}
	if t.phase.final() && t.has(effectReady) < 0 && t.has(effectFlying) < 0 && a.txs[1].phase == phaseNone {
		if m.retries(a, t) {
			m.succeed(a, t)
		} else {
			a.done = true
		}
		return
	}
	if t.phase > phaseOpen || t.waiting || t.has(effectReady) >= 0 {
		return
	}
	program := m.cfg.Agents[who].Program
	for int(a.pc) < len(program) && (program[a.pc].Kind == OpGated || program[a.pc].Kind == OpWrite) {
		a.pc++
	}
	m.ready(s, who)
}

// ready makes the effects of the operation that the agent has come to, once they are granted.
func (m *model) ready(s *state, who int) {
	a := &s.agents[who]
	t := &a.txs[0]
	program := m.cfg.Agents[who].Program
	if int(a.pc) == len(program) || program[a.pc].Kind != OpEffect {
		return
	}
	if write, _ := m.needs(who, t, program[a.pc]); write&^t.write != 0 || a.whole && t.touches == 0 {
		return
	}
	for _, scope := range program[a.pc].Scopes {
		t.addEffect(effect{scope: uint8(scope)})
	}
}

// land lets an eager call take effect.
func (m *model) land(s *state, who int, t *txn) {
	i := t.has(effectFlying)
	if i < 0 {
		i = t.has(effectReady)
	}
	e := &t.effects[i]
	cell := m.cell[e.scope]
	m.overwrites(s, who, t, int(e.scope), "an eager effect")
	e.state, e.undo = effectLanded, s.value[cell]
	s.value[cell] = m.token(who, t)
	if t.phase <= phaseOpen {
		a := &s.agents[who]
		a.view = max(a.view, t.grantAt)
		if t.has(effectReady) < 0 {
			a.pc++
		}
	}
}

// read answers a read: from the view where the fold keeps the content, else from the world as it is now.
func (m *model) read(s *state, who int, view seq) {
	a := &s.agents[who]
	t := &a.txs[0]
	op := m.cfg.Agents[who].Program[a.pc]
	scope := op.Scopes[0]
	r := read{scope: uint8(scope), view: view, swap: op.Kind == OpSwap}
	m.openAt(t, view)
	if m.shards[scope] {
		v := s.shard[scope].shown(view)
		r.value, r.version = v.value, v.at
	} else {
		r.value = s.value[m.cell[scope]]
		r.own = m.ran(t, scope)
		r.pending = m.careless(CarelessView)
		if s.last[scope] <= view {
			r.version = s.last[scope]
		}
	}
	if !r.pending {
		a.view = view
	}
	t.addRead(r)
	a.pc++
}

// openAt notes the base of a transaction at its first step.
func (m *model) openAt(t *txn, view seq) {
	if t.base == 0 {
		t.base = view
	}
}

// ran: an effect of the transaction on the scope has landed.
func (m *model) ran(t *txn, scope int) bool {
	for _, e := range t.effects[:t.nEffects] {
		if m.cell[e.scope] == m.cell[scope] && (e.state == effectLanded || e.state == effectLeaked) {
			return true
		}
	}
	return false
}

// undo puts back what the last effect found.
func (m *model) undo(s *state, who int, t *txn) {
	t.seen = true
	e := &t.effects[t.hasLast(effectLanded)]
	if v := s.value[m.cell[e.scope]]; v != m.token(who, t) && !t.loose && !m.leftBy(s, v, int(e.scope)) {
		s.violate("%s undoes its effect on %s over a value that is not its own", m.txID(who, t), m.cfg.Scopes[e.scope])
	}
	m.overwrites(s, who, t, int(e.scope), "a compensation")
	s.value[m.cell[e.scope]] = e.undo
	e.state = effectUndone
}

// release lets a gated effect of a committed transaction take effect.
func (m *model) release(s *state, who int, t *txn) {
	t.seen = true
	e := &t.effects[t.has(effectGated)]
	m.overwrites(s, who, t, int(e.scope), "a release")
	s.value[m.cell[e.scope]] = m.token(who, t)
	e.state, e.sent = effectLanded, true
}

// overwrites checks that no other transaction has an effect on the scope that is not settled.
func (m *model) overwrites(s *state, who int, t *txn, scope int, what string) {
	for other := range m.cfg.Agents {
		for slot := range s.agents[other].txs {
			u := &s.agents[other].txs[slot]
			later := u.phase == phaseRetracting && !u.turn // its turn comes when everybody else is done there
			if u != t && !u.phase.final() && !later && !besideEachOther(t, u) && m.ran(u, scope) {
				s.violate("%s of %s on %s overwrites what %s left there and has not settled", what, m.txID(who, t),
					m.cfg.Scopes[scope], m.txID(other, u))
			}
		}
	}
}

// succeed begins the successor of a refused transaction.
func (m *model) succeed(a *agent, t *txn) {
	next := txn{attempt: t.attempt + 1}
	a.whole = t.conflict && !m.careless(CarelessRetry)
	a.view = max(a.view, t.decision)
	t.seen = true
	if !t.phase.final() {
		a.txs[1] = *t
	}
	a.txs[0] = next
	a.pc = 0
}
