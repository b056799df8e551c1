package explore

import "github.com/hence-dev/hence/sequencer"

// observe brings the model up to date with one outcome, and checks it.
func (m *model) observe(s *state, o *sequencer.Outcome, in *sequencer.Intent) {
	s.head = seq(o.Seq)
	switch o.Kind {
	case sequencer.OutcomeJoined:
		m.joined(s, o)
		return
	case sequencer.OutcomeLeaseEnded:
		m.leaseEnded(s, o)
		return
	case sequencer.OutcomeConfirmed:
		p := &s.procs[m.byIncarnation(s, o.Incarnation)]
		if p.confirmed = s.head; p.ended != 0 {
			s.violate("a lease is confirmed after its end")
		}
		return
	}
	tx := 0
	if o.Tx == gateTxID(1) {
		tx = 1
	}
	t := &s.txs[tx]
	if o.Tx == "" {
		return
	}
	if t.nOwners == 0 {
		t.own(s.head, issuer(tx))
	}
	switch o.Kind {
	case sequencer.OutcomeGranted:
		t.phase, t.touching, t.grantAt = phaseOpen, false, s.head
		for i, op := range m.ops[tx] {
			if t.asked&(1<<i) != 0 {
				t.granted |= 1 << op.Scope
			}
		}
	case sequencer.OutcomeWaiting:
		t.phase = phaseOpen
		if t.sealed {
			t.phase = phaseSealed
		}
	case sequencer.OutcomeCommitted:
		m.committed(s, tx, o)
	case sequencer.OutcomeAborted:
		t.phase, t.decision, t.touching = phaseAborted, s.head, false
		if o.Final {
			t.phase, t.final = phaseFinalAborted, s.head
		}
	case sequencer.OutcomeAdopted:
		t.own(s.head, m.byIncarnation(s, o.Incarnation))
		t.adopted = true
	case sequencer.OutcomeSettled:
		m.settled(s, tx, in)
	case sequencer.OutcomeRefused:
		m.refused(s, tx, o)
	default:
		s.violate("an outcome that nobody asked for: %s of %s", o.Kind, o.Tx)
	}
}

func (m *model) joined(s *state, o *sequencer.Outcome) {
	proc := map[string]int{"join:j1": firstProc, "join:j2": secondProc, "join:j3": otherProc}[o.Intent]
	s.procs[proc].incarnation, s.procs[proc].view = s.head, s.head
	for tx := range s.txs {
		t := &s.txs[tx]
		if t.decided() && !t.over() && gateAgent(issuer(tx)) == o.Agent && t.ownerAt(s.head) < 0 {
			t.own(s.head, proc)
		}
	}
}

func (m *model) leaseEnded(s *state, o *sequencer.Outcome) {
	proc := m.byIncarnation(s, o.Incarnation)
	s.procs[proc].ended = s.head
	for tx := range s.txs {
		if t := &s.txs[tx]; !t.over() && t.ownerAt(s.head) == proc {
			t.own(s.head, nobody)
		}
	}
}

func (m *model) byIncarnation(s *state, incarnation sequencer.Seq) int {
	for proc := range s.procs {
		if s.procs[proc].incarnation == seq(incarnation) {
			return proc
		}
	}
	panic("explore: an incarnation that nobody has")
}

// committed: it has read only what was there in the order of the commits.
func (m *model) committed(s *state, tx int, o *sequencer.Outcome) {
	t := &s.txs[tx]
	s.landed = true
	t.phase, t.decision = phaseCommitted, s.head
	for _, r := range t.reads[:t.nReads] {
		want := s.serial[r.scope]
		if r.own {
			want = gateToken(tx)
		}
		if r.value != want {
			s.violate("%s commits on %s of %s that is not what the transactions before it leave", o.Tx, valueName(r.value),
				gateScopes()[r.scope])
		}
	}
	for _, op := range m.ops[tx] {
		s.serial[op.Scope] = gateToken(tx)
	}
	if o.Final {
		t.phase, t.final = phaseFinalCommitted, s.head
	}
}

// settled holds the report against the sinks: what is called clean is, and what did not leave did not.
func (m *model) settled(s *state, tx int, in *sequencer.Intent) {
	t := &s.txs[tx]
	aborted := t.phase.aborted()
	t.phase, t.final = t.phase+phaseFinalCommitted-phaseCommitted, s.head
	for _, done := range in.Settle.Effects {
		e := t.effects[done.Index]
		there := e.did > e.undid
		switch {
		case done.Result == sequencer.ResultClean && there == aborted:
			s.violate("effect %d of %s is settled as clean, and it is not", done.Index, in.Tx)
		case done.Result == sequencer.ResultPartial && there:
			s.violate("effect %d of %s is settled as not sent, and it has left", done.Index, in.Tx)
		case done.Result == sequencer.ResultLeaked && !there:
			s.violate("effect %d of %s is settled as left for good, and it is not there", done.Index, in.Tx)
		}
		if scope := m.ops[tx][done.Index].Scope; done.Result != sequencer.ResultClean {
			s.serial[scope] = s.value[scope]
		}
	}
	for i, op := range m.ops[tx] {
		if e := t.effects[i]; e.did > e.undid && aborted && s.serial[op.Scope] != s.value[op.Scope] {
			s.violate("%s is settled as if nothing else ran, and effect %d did", in.Tx, i)
		}
	}
}

// refused: an intent of a dead incarnation, or one that comes too late.
func (m *model) refused(s *state, tx int, o *sequencer.Outcome) {
	t := &s.txs[tx]
	switch o.Code {
	case sequencer.CodeLeaseExpired, sequencer.CodeTooOld, sequencer.CodeLateEffect, sequencer.CodeNotOrphan:
		t.touching = false
		if t.phase == phaseNone {
			t.phase, t.final, t.decision = phaseFinalAborted, s.head, s.head
		}
	default:
		s.violate("an intent of %s is refused: %s: %s", o.Tx, o.Code, o.Detail)
	}
}

// ended checks a state in which nothing has to happen any more.
func (m *model) ended(s *state) {
	for tx := range s.txs {
		t := &s.txs[tx]
		if !t.over() && (t.phase != phaseNone || s.procs[issuer(tx)].alive && s.procs[issuer(tx)].ended == 0) {
			s.violate("%s waits for ever", gateTxID(tx))
		}
	}
	for i, scope := range gateScopes() {
		if s.value[i] != s.serial[i] {
			s.violate("the world ends with %s at %s; the committed transactions leave %s", valueName(s.value[i]), scope,
				valueName(s.serial[i]))
		}
	}
}
