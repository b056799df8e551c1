package explore

import "github.com/hence-dev/hence/sequencer"

// observe brings the model up to date with one outcome, and checks it.
func (m *model) observe(s *state, o *sequencer.Outcome) {
	if seq(o.Seq) != s.head+1 {
		s.violate("the outcome's seq is %d after %d", o.Seq, s.head)
	}
	s.head = seq(o.Seq)
	for _, w := range o.Writes {
		s.last[m.scope(w.Scope)] = s.head
	}
	who, t := m.find(s, o.Tx)
	switch o.Kind {
	case sequencer.OutcomeJoined:
		m.joined(s, o.Agent)
		return
	case sequencer.OutcomeRules:
		m.switched(s, o.Rules)
		return
	case sequencer.OutcomeLeaseEnded, sequencer.OutcomeSelected:
		return
	}
	if t == nil {
		switch {
		case o.Kind != sequencer.OutcomeRefused:
			s.violate("%s is decided again after it was forgotten: %s", o.Tx, o.Kind)
		case s.intent.Kind == sequencer.IntentRules:
			m.refusedRules(s, o)
		}
		return
	}
	t.loose = t.loose || s.watch.on && !t.phase.final()
	m.moves(s, who, t, o)
	switch o.Kind {
	case sequencer.OutcomeBegun:
		t.phase = phaseOpen
	case sequencer.OutcomeWaiting:
		m.waits(s, who, o)
		if t.sealed {
			t.phase = phaseSealed
		} else {
			t.phase = phaseOpen
		}
	case sequencer.OutcomeGranted:
		m.granted(s, who, t)
	case sequencer.OutcomeCommitted:
		m.committed(s, who, t, o)
	case sequencer.OutcomeAborted:
		m.aborted(s, who, t, o)
	case sequencer.OutcomeSettled:
		if t.phase == phaseRetracting {
			m.takenBack(s, who, t, o)
			return
		}
		m.settled(s, who, t, o)
	case sequencer.OutcomeRetracting:
		m.retracting(t, o)
	case sequencer.OutcomeTurn:
		if t.phase != phaseRetracting || t.turn {
			s.violate("%s has its turn, and it is in no cone, is not settled, or had it before", o.Tx)
		}
		t.turn = true
	case sequencer.OutcomeRefused:
		m.refused(s, t, o)
	default:
		s.violate("an outcome that nobody asked for: %s of %s", o.Kind, o.Tx)
	}
}

// joined gives a sidecar's agents their incarnation. What the fold did not know of them starts again.
func (m *model) joined(s *state, name string) {
	for who := range m.cfg.Agents {
		if a := &s.agents[who]; m.agentName(who) == name {
			a.incarnation, a.view, a.mark = s.head, s.head, s.head
			if t := &a.txs[0]; t.phase == phaseNone {
				*t, a.pc = txn{attempt: t.attempt}, 0
			}
		}
	}
}

func (m *model) scope(s sequencer.Scope) int {
	for i, x := range m.cfg.Scopes {
		if x == s {
			return i
		}
	}
	panic("explore: unknown scope " + string(s))
}

// find returns the transaction of an id among those that the agents still deal with.
func (m *model) find(s *state, id sequencer.TxID) (int, *txn) {
	for who := range m.cfg.Agents {
		for slot := range s.agents[who].txs {
			t := &s.agents[who].txs[slot]
			if (slot == 0 || t.phase != phaseNone) && m.txID(who, t) == id {
				return who, t
			}
		}
	}
	return 0, nil
}

func (m *model) granted(s *state, who int, t *txn) {
	if t.phase != phaseNone && t.phase != phaseOpen || !t.waiting {
		s.violate("%s is granted a touch that does not wait", m.txID(who, t))
	}
	t.phase, t.waiting, t.grantAt = phaseOpen, false, s.head
	for i := range m.cfg.Scopes {
		if t.askWrite&^t.write&(1<<i) != 0 {
			m.holds(s, i)
		}
	}
	t.write |= t.askWrite
	t.read |= t.askRead
	m.ready(s, who)
}

func (m *model) committed(s *state, who int, t *txn, o *sequencer.Outcome) {
	id := m.txID(who, t)
	s.landed = true
	if !t.sealed || t.phase >= phaseCommitted {
		s.violate("%s commits, and it is not sealed or was decided before", id)
	}
	t.phase, t.decision = phaseCommitted, s.head
	if m.cfg.Agents[who].Branch {
		if s.branch != 0 || s.chosen != uint8(who+1) {
			s.violate("%s commits, and another branch was chosen or has committed", id)
		}
		s.branch = uint8(who + 1)
	}
	for _, r := range t.reads[:t.nReads] {
		want := s.serial[m.cell[r.scope]]
		switch {
		case t.loose || !m.checks(who, sequencer.A1):
			continue
		case m.shards[r.scope]:
			want = s.shard[r.scope].before()
		case r.own:
			want = m.token(who, t)
		case s.watch.foul[m.cell[r.scope]] && len(o.Residue) == 0:
			s.violate("%s commits on %s of %s: nobody who stands has left it, it is not what was there when the workspace "+
				"began to enforce, and the log does not call it residue", id, valueName(r.value), m.cfg.Scopes[r.scope])
		}
		if r.value != want {
			s.violate("%s commits on %s of %s that is not what the transactions before it leave", id, valueName(r.value),
				m.cfg.Scopes[r.scope])
		}
	}
	for _, op := range m.cfg.Agents[who].Program {
		for _, scope := range op.Scopes {
			m.remember(s, who, t, op.Kind, scope)
			switch op.Kind {
			case OpEffect:
				s.serial[m.cell[scope]] = m.token(who, t)
			case OpGated:
				m.holds(s, scope)
				s.serial[m.cell[scope]] = m.token(who, t)
				t.addEffect(effect{scope: uint8(scope), state: effectGated})
			case OpWrite, OpSwap:
				m.overwrites(s, who, t, scope, "a shard write")
				s.shard[scope].put(s.head, m.token(who, t))
			}
		}
	}
	if o.Final {
		t.phase = phaseFinalCommitted
	}
}

func (m *model) aborted(s *state, who int, t *txn, o *sequencer.Outcome) {
	if t.phase >= phaseCommitted {
		s.violate("%s aborts after it was decided", m.txID(who, t))
	}
	switch {
	case o.Code == sequencer.CodeIncompleteFootprint:
		s.violate("%s: %s", m.txID(who, t), o.Detail)
	case m.blamed(s, o):
		s.violate("%s is refused for what %s did at %s, and %s has never had it", m.txID(who, t), o.Moved.Tx, o.Scope,
			o.Moved.Tx)
	case o.Code == sequencer.CodeStaleRead && !t.loose && m.mode(who, t) == sequencer.Locked:
		s.violate("%s reads under grants, and its read of %s is stale", m.txID(who, t), o.Scope)
	}
	t.phase, t.decision, t.waiting = phaseAborted, s.head, false
	limit := m.cfg.Agents[who].Retries
	t.retry = o.Code != sequencer.CodeAbortedByAgent && o.Retryable && (limit < 0 || int(t.attempt) < limit)
	t.conflict = o.Code == sequencer.CodeConflict
	if o.Final {
		t.phase = phaseFinalAborted
	}
}

func (m *model) settled(s *state, who int, t *txn, o *sequencer.Outcome) {
	if t.phase != phaseCommitted && t.phase != phaseAborted {
		s.violate("%s is settled, and it was not decided or is final", m.txID(who, t))
	}
	t.phase += phaseFinalCommitted - phaseCommitted
	if t.cone {
		t.phase = phaseRetracting
	}
	for _, e := range t.effects[:t.nEffects] {
		if e.state == effectLeaked {
			s.serial[m.cell[e.scope]] = m.token(who, t)
			s.past[m.cell[e.scope]].add(pastWrite{value: m.token(who, t), who: uint8(who), left: true})
		}
	}
	for i := range m.cfg.Scopes {
		if t.loose && m.cell[i] == i && m.had(t, i) {
			m.leftLoose(s, t, i, o)
		}
	}
}

// refused: the only intents that may be refused here come too late for what the fold remembers, come from a dead
// incarnation, or have waited as long as they may.
func (m *model) refused(s *state, t *txn, o *sequencer.Outcome) {
	switch o.Code {
	case sequencer.CodeTooOld:
	case sequencer.CodeWrongScopes:
		if !t.strayed {
			s.violate("a settlement of %s is refused, and all that it names is its own: %s", o.Tx, o.Detail)
		}
		return
	case sequencer.CodeNotWhileObserving:
		if !m.besideLoose(s) {
			s.violate("the retraction of %s is refused as if something observed", o.Tx)
		}
		t.asked = false
		t.asks++
		return
	case sequencer.CodeOwnTransaction, sequencer.CodeSibling:
		if who := m.owner(s, t); len(o.BlockedBy) != 1 || !m.oneSession(who, m.openBy(s, o.BlockedBy[0].Tx)) {
			s.violate("%s is refused for a transaction of its own session, and %v is none", o.Tx, o.BlockedBy)
		}
		t.stuck, t.waiting, t.sealed = true, false, false
		return
	case sequencer.CodeTouchBound:
		t.waiting = false
		t.writing &^= 1 << t.touches
		return
	case sequencer.CodeLeaseExpired:
		if t.by == s.agents[m.owner(s, t)].incarnation {
			s.violate("an intent of %s is refused as if its sidecar were dead", o.Tx)
		}
		return
	default:
		s.violate("an intent of %s is refused: %s: %s", o.Tx, o.Code, o.Detail)
		return
	}
	if t.phase == phaseNone {
		t.phase, t.waiting, t.decision = phaseFinalAborted, false, s.head
	}
}

// openBy is the agent of an undecided transaction; negative: there is none of that name.
func (m *model) openBy(s *state, id sequencer.TxID) int {
	if who, u := m.find(s, id); u != nil && u.undecided() {
		return who
	}
	return -1
}

// oneSession: the agents are one conversation through one sidecar, or two branches of the group.
func (m *model) oneSession(who, other int) bool {
	if other < 0 {
		return false
	}
	a, b := &m.cfg.Agents[who], &m.cfg.Agents[other]
	return m.sidecar[who] == m.sidecar[other] && a.Session == b.Session || a.Branch && b.Branch
}

// waits: what is answered to a request that it waits is never for an open transaction of its own session.
func (m *model) waits(s *state, who int, o *sequencer.Outcome) {
	if s.intent.Tx != o.Tx || s.agents[who].txs[0].loose {
		return
	}
	for _, b := range o.BlockedBy {
		_, u := m.find(s, b.Tx)
		if u != nil && u.phase == phaseOpen && b.Tx != o.Tx && m.oneSession(who, m.openBy(s, b.Tx)) {
			s.violate("%s waits for itself: %s is open and of its own session", o.Tx, b.Tx)
		}
	}
}

// owner is the agent of a transaction.
func (m *model) owner(s *state, t *txn) int {
	for who := range m.cfg.Agents {
		if t == &s.agents[who].txs[0] || t == &s.agents[who].txs[1] {
			return who
		}
	}
	panic("explore: a transaction of nobody")
}

// ended checks a state in which everybody is done.
func (m *model) ended(s *state, st *sequencer.State) {
	m.endedRetracted(s)
	for i, scope := range m.cfg.Scopes {
		switch {
		case s.watch.on: // nothing is promised of values
		case s.watch.foul[i]:
			s.violate("the world ends with %s at %s: nobody who stands has left it, and the log does not call it residue",
				valueName(s.value[i]), scope)
		case s.value[i] != s.serial[i]:
			s.violate("the world ends with %s at %s; the committed transactions leave %s", valueName(s.value[i]), scope,
				valueName(s.serial[i]))
		}
	}
	for _, t := range st.Txs {
		final := t.Phase == sequencer.PhaseFinalCommitted || t.Phase == sequencer.PhaseFinalAborted ||
			t.Phase == sequencer.PhaseRetracted
		if !final || len(t.Grants) > 0 || len(t.Gated) > 0 || t.Waiting != nil {
			s.violate("everybody is done, and the fold still waits for %s or holds something of it", t.ID)
		}
	}
}

// valueName names a token as a reader of a trace knows it.
func valueName(v token) string {
	if v == 0 {
		return "the first value"
	}
	who := string(rune('1' + (v-1)/2))
	if (v-1)%2 == 1 {
		return "the value of a retry of T" + who
	}
	return "the value of T" + who
}
