package explore

import "github.com/hence-dev/hence/sequencer"

// verb is what happens in one step.
type verb uint8

const (
	doBegin verb = iota + 1
	doTouch
	doLand   // an eager call lands, and its outcome is known
	doRead   // a read's call leaves with the view of arg, and is answered; a shard is read at that view
	doViewed // CarelessView: the view seq of an answered read is taken
	doSeal
	doAbort
	doSee     // the sidecar sees an abort while a call of its own is in flight
	doUndo    // the last effect that landed and is not undone is compensated
	doGiveUp  // it cannot be compensated
	doDrop    // the calls that did not leave are dropped
	doRelease // the first gated effect is released
	doSettle
	doRetry // a successor is begun; what is left of the predecessor is settled beside it
	doCopy  // a late copy of the seal reaches the log
	doMark  // a watermark
	doJoin  // the sidecar starts again
	doTick  // the log's time moves
	doYes   // the hook answers
	doNo
	doStuck  // as doAbort, and nothing else is left
	doSelect // the agent's branch is chosen
	doRetract
	doSwitch // a rules record: the workspace enforces from here on, or observes again
	doStray  // as doSettle, and it also names a scope that is another transaction's, with the result of arg
)

// idle steps do not count as a way out of a wait: they need not happen.
func (v verb) idle() bool {
	return v == doAbort || v == doCopy || v == doMark || v == doJoin || v == doTick || v == doRetract ||
		v == doSwitch || v == doStray
}

// action is one step of one agent.
type action struct {
	who  uint8
	verb verb
	slot uint8 // which of the agent's transactions
	arg  seq
}

// actions lists what can happen next, in a fixed order.
func (m *model) actions(w *world, out []action) []action {
	if int(w.ticks) < m.cfg.Ticks {
		out = append(out, action{verb: doTick})
	}
	if int(w.watch.switches) < m.cfg.Switches {
		out = append(out, action{verb: doSwitch})
	}
	for who := range m.cfg.Agents {
		a := &w.agents[who]
		out = m.extras(w, who, out)
		for slot := range a.txs {
			out = m.settling(a, who, slot, out)
		}
		if a.done {
			continue
		}
		out = m.progress(w, who, out)
	}
	return out
}

// extras are late copies and watermarks.
func (m *model) extras(w *world, who int, out []action) []action {
	a := &w.agents[who]
	if m.cfg.Agents[who].Retract && !a.txs[0].asked && a.txs[0].asks < maxAsks && a.txs[0].stands() {
		out = append(out, action{who: uint8(who), verb: doRetract})
	}
	if m.cfg.Agents[who].Branch && w.chosen == 0 && m.openBranch(w) {
		out = append(out, action{who: uint8(who), verb: doSelect})
	}
	if w.dups > 0 && a.txs[0].sealed {
		out = append(out, action{who: uint8(who), verb: doCopy})
	}
	if m.cfg.Watermarks && m.sidecar[who] == who && m.watermark(w, who) > a.mark {
		out = append(out, action{who: uint8(who), verb: doMark})
	}
	if m.sidecar[who] == who && int(a.crashes) < m.cfg.Agents[who].Crashes && m.busy(w, who) {
		out = append(out, action{who: uint8(who), verb: doJoin})
	}
	return out
}

// openBranch: some branch is not done.
func (m *model) openBranch(w *world) bool {
	for who, a := range m.cfg.Agents {
		if a.Branch && !w.agents[who].done {
			return true
		}
	}
	return false
}

// busy: an agent behind the sidecar is not done.
func (m *model) busy(w *world, who int) bool {
	for other := range m.cfg.Agents {
		if m.sidecar[other] == who && !w.agents[other].done {
			return true
		}
	}
	return false
}

// watermark is the most that a sidecar may promise: its view, or what it holds open.
func (m *model) watermark(w *world, who int) seq {
	low := w.head
	for other := range m.cfg.Agents {
		if m.sidecar[other] != who {
			continue
		}
		t := &w.agents[other].txs[0]
		if !t.phase.final() && t.base != 0 {
			low = min(low, t.base)
		}
	}
	return low
}

// settling lists the next step of the settlement of one transaction.
func (m *model) settling(a *agent, who, slot int, out []action) []action {
	t := &a.txs[slot]
	add := func(v verb) { out = append(out, action{who: uint8(who), verb: v, slot: uint8(slot)}) }
	if t.has(effectFlying) >= 0 {
		add(doLand)
		if !m.careless(CarelessFlight) {
			return out
		}
	}
	switch {
	case t.phase == phaseRetracting:
		return m.takingBack(a, who, slot, out)
	case t.phase.aborted() && !t.seen && t.has(effectReady) >= 0:
		add(doLand)
		add(doDrop)
		if m.retries(a, t) || m.careless(CarelessFlight) {
			add(doSee)
		}
	case t.phase == phaseAborted && t.hasLast(effectLanded) >= 0:
		add(doUndo)
		if m.cfg.Agents[who].Leaks {
			add(doGiveUp)
		}
	case t.phase == phaseCommitted && t.has(effectGated) >= 0:
		add(doRelease)
	case t.phase == phaseAborted, t.phase == phaseCommitted:
		add(doSettle)
		out = m.strays(who, slot, t, out)
	}
	return out
}

// retries: the aborted current transaction may have a successor.
func (m *model) retries(a *agent, t *txn) bool {
	return t == &a.txs[0] && t.phase.aborted() && t.retry
}

// progress lists what the agent itself does next.
func (m *model) progress(w *world, who int, out []action) []action {
	a := &w.agents[who]
	t := &a.txs[0]
	add := func(v verb, arg seq) { out = append(out, action{who: uint8(who), verb: v, arg: arg}) }
	switch {
	case t.phase == phaseCommitted:
		return out
	case t.phase.final() || t.phase == phaseAborted:
		if m.retries(a, t) && a.txs[1].phase == phaseNone && t.has(effectReady) < 0 {
			add(doRetry, 0)
		}
		return out
	}
	if t.stuck {
		add(doStuck, 0)
		return out
	}
	if m.cfg.Agents[who].Abort && t.undecided() {
		add(doAbort, 0)
	}
	if t.phase == phaseSealed && m.cfg.Agents[who].Hook && !t.judged {
		add(doYes, 0)
		add(doNo, 0)
	}
	if t.waiting || t.phase == phaseSealed {
		return out
	}
	return m.operation(w, who, out)
}

// operation lists the steps of the operation that the agent has come to.
func (m *model) operation(w *world, who int, out []action) []action {
	a := &w.agents[who]
	t := &a.txs[0]
	add := func(v verb, arg seq) {
		out = append(out, action{who: uint8(who), verb: v, arg: arg})
		if m.exact() && t.base == 0 && v != doRead && w.head > a.view {
			out = append(out, action{who: uint8(who), verb: v, arg: w.head}) // its view may have moved before it began
		}
	}
	// Their epochs are taken at the begin, so it is a record of its own.
	if m.mode(who, t) != sequencer.Optimistic && !t.begun {
		add(doBegin, 0)
		return out
	}
	if t.nReads > 0 && t.reads[t.nReads-1].pending {
		return m.views(w, a, 0, doViewed, who, out)
	}
	if a.whole && t.touches == 0 {
		add(doTouch, 0)
		return out
	}
	program := m.cfg.Agents[who].Program
	if int(a.pc) == len(program) {
		add(doSeal, 0)
		return out
	}
	op := program[a.pc]
	if askWrite, askRead := m.needs(who, t, op); askWrite&^t.write|askRead&^(t.read|t.write) != 0 {
		add(doTouch, 0)
		return out
	}
	if op.Kind == OpEffect {
		add(doLand, 0)
		return out
	}
	low := seq(0)
	if bit := uint8(1) << op.Scopes[0]; (t.read|t.write)&bit != 0 && !m.careless(CarelessGrant) {
		low = t.grantAt
	}
	if m.careless(CarelessView) && !m.shards[op.Scopes[0]] {
		add(doRead, 0)
		return out
	}
	return m.views(w, a, low, doRead, who, out)
}

// needs are the grants that an operation runs under.
func (m *model) needs(who int, t *txn, op Op) (write, read uint8) {
	switch {
	case op.Kind == OpEffect:
		for _, s := range op.Scopes {
			write |= 1 << s
		}
	case op.Kind == OpRead && m.mode(who, t) == sequencer.Locked:
		read = 1 << op.Scopes[0]
	}
	return write, read
}

// views lists one step for each view that the sidecar may have by now and that can be told from the others: each
// ends just before a write, or at the head.
func (m *model) views(w *world, a *agent, low seq, v verb, who int, out []action) []action {
	low = max(low, a.view)
	add := func(view seq) { out = append(out, action{who: uint8(who), verb: v, arg: view}) }
	writes := w.writes()
	for _, at := range writes.list[:writes.n] {
		if at > low {
			add(at - 1)
		}
	}
	add(w.head)
	return out
}

// seqs is a small sorted set.
type seqs struct {
	n    int
	list [maxScopes + maxScopes*maxVersions + 8*maxAgents]seq
}

// writes are the seqs of the writes that matter to a view.
func (w *world) writes() seqs {
	var s seqs
	for i := range maxScopes {
		s.add(w.last[i])
		for _, v := range w.shard[i].list[:w.shard[i].n] {
			s.add(v.at)
		}
	}
	return s
}

func (s *seqs) add(at seq) {
	if at == 0 {
		return
	}
	i := 0
	for i < s.n && s.list[i] < at {
		i++
	}
	if i < s.n && s.list[i] == at {
		return
	}
	copy(s.list[i+1:s.n+1], s.list[i:s.n])
	s.list[i] = at
	s.n++
}

// rank is how many of the writes a view shows.
func (s *seqs) rank(view seq) uint8 {
	n := uint8(0)
	for _, at := range s.list[:s.n] {
		if at <= view {
			n++
		}
	}
	return n
}
