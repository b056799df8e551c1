package explore

import "github.com/hence-dev/hence/sequencer"

// plan is what a process would do next about one effect of a settlement: call, wait, or report a result.
type plan struct {
	call   bool
	undo   bool
	known  bool // the result is
	result sequencer.Result
}

func settledAs(r sequencer.Result) plan { return plan{known: true, result: r} }

// planOf is the rule of the gate for one effect of a decided transaction. stopped: one before it did not get through;
// of compensations, one on the same scope: whoever tries that one again later must find what it left.
func (m *model) planOf(w *world, proc, tx, effect int, stopped bool) plan {
	op := m.ops[tx][effect]
	switch committed := !w.txs[tx].phase.aborted(); {
	case op.Kind == OpGated && committed:
		return m.releasePlan(w, proc, tx, effect, stopped)
	case op.Kind == OpGated, committed:
		return settledAs(sequencer.ResultClean)
	}
	got := m.undoPlan(w, proc, tx, effect)
	if n := w.note(proc, tx, effect, doing); stopped && got.call {
		if n.answered && n.ran && !w.note(proc, tx, effect, undoing).started {
			return settledAs(sequencer.ResultLeaked)
		}
		return m.unknown()
	}
	return got
}

// releasePlan: with a key whoever owns the settlement calls until the sink answers, for a while; without one the call
// is made once at most, by who knows that it was not made.
func (m *model) releasePlan(w *world, proc, tx, effect int, stopped bool) plan {
	n := w.note(proc, tx, effect, doing)
	ground := m.claim(w, proc, tx)
	keyed := m.ops[tx][effect].Keyed
	switch {
	case n.answered && n.ran:
		return settledAs(sequencer.ResultClean)
	case stopped && ground == claimStranger:
		return settledAs(sequencer.ResultUnresolved) // it may have left before
	case stopped:
		return m.unsent(n)
	case m.underWay(w, proc, tx, effect, doing):
		return plan{}
	case !keyed && (n.unknown || n.started && !n.answered):
		return m.unknown()
	case !keyed && ground == claimStranger:
		return m.unknown()
	case n.tries >= gateTries && m.careless(CarelessEnd):
		return plan{}
	case n.tries >= gateTries && ground == claimStranger:
		return settledAs(sequencer.ResultUnresolved)
	case n.tries >= gateTries:
		return m.unsent(n)
	}
	return plan{call: true}
}

// unsent: no try got through, as far as the journal says.
func (m *model) unsent(n *gateNote) plan {
	if (n.maybe || n.started && !n.answered) && !m.careless(CarelessMaybe) {
		return m.unknown()
	}
	return settledAs(sequencer.ResultPartial)
}

func (m *model) unknown() plan {
	if m.careless(CarelessClean) {
		return settledAs(sequencer.ResultClean)
	}
	return settledAs(sequencer.ResultUnresolved)
}

// undoPlan: what surely did not run needs nothing; what ran, or may have under a key, is compensated.
func (m *model) undoPlan(w *world, proc, tx, effect int) plan {
	call, undo := w.note(proc, tx, effect, doing), w.note(proc, tx, effect, undoing)
	ground := m.claim(w, proc, tx)
	keyed := m.ops[tx][effect].Keyed
	switch {
	case w.txs[tx].issued&(1<<effect) == 0 && ground == claimStranger:
		return settledAs(sequencer.ResultClean)
	case undo.answered && undo.ran:
		return settledAs(sequencer.ResultClean)
	case m.underWay(w, proc, tx, effect, doing), m.underWay(w, proc, tx, effect, undoing):
		return plan{}
	case ground != claimStranger && !call.started:
		return settledAs(sequencer.ResultClean)
	case ground != claimStranger && call.answered && !call.ran && !call.maybe:
		return settledAs(sequencer.ResultClean)
	case m.careless(CarelessTimeout) && call.unknown:
		return settledAs(sequencer.ResultClean)
	case !keyed && (ground == claimStranger || !call.answered || undo.unknown || undo.started && !undo.answered):
		return m.unknown()
	case undo.tries >= gateTries && m.careless(CarelessEnd):
		return plan{}
	case undo.tries >= gateTries && (ground == claimStranger || undo.maybe || undo.started && !undo.answered ||
		!call.answered || call.maybe):
		return m.unknown()
	case undo.tries >= gateTries:
		return settledAs(sequencer.ResultLeaked)
	}
	return plan{call: true, undo: true}
}

// underWay: the process has made the call and still waits for its answer.
func (m *model) underWay(w *world, proc, tx, effect, what int) bool {
	n := w.note(proc, tx, effect, what)
	mine := w.procs[proc].journal == uint8(proc) || w.txs[tx].effects[effect].flying[what]&(1<<proc) != 0
	if m.careless(CarelessMark) && w.txs[tx].effects[effect].flying[what]&(1<<proc) != 0 {
		return true
	}
	return n.started && !n.answered && !n.unknown && mine
}

// settling lists the next step of one settlement.
func (m *model) settling(w *world, proc, tx int, out []gateAct) []gateAct {
	p, t := &w.procs[proc], &w.txs[tx]
	final := t.final != 0 && t.final <= p.view
	if t.decision == 0 || t.decision > p.view || final || t.ownerAt(p.view) != proc || p.sent[tx] {
		return out
	}
	if proc != issuer(tx) && !p.waited[tx] && !m.careless(CarelessWait) {
		if m.mayEndWait(w, proc, tx) {
			out = append(out, gateAct{verb: gateWaited, proc: uint8(proc), tx: uint8(tx)})
		}
		return out
	}
	if next, done := m.next(w, proc, tx); !done {
		if next.verb == gateCall && m.mayCall(p) {
			out = append(out, next)
		}
		return out
	}
	return append(out, gateAct{verb: gateSettle, proc: uint8(proc), tx: uint8(tx)})
}

// next is the call that a settlement makes next, if it may; done: nothing is left but to report.
func (m *model) next(w *world, proc, tx int) (next gateAct, done bool) {
	plans, order := m.plans(w, proc, tx)
	for i, got := range plans {
		if got.known {
			continue
		}
		next = gateAct{proc: uint8(proc), tx: uint8(tx), effect: uint8(order[i])}
		if got.call {
			next.verb = gateCall
		}
		if got.undo {
			next.what = undoing
		}
		return next, false
	}
	return gateAct{}, true
}

// plans are those of all effects of a transaction, in the order in which a settlement goes through them.
func (m *model) plans(w *world, proc, tx int) ([]plan, []int) {
	t := &w.txs[tx]
	order := m.order(t, tx)
	plans := make([]plan, 0, len(order))
	stopped := uint8(0) // scopes, as bits
	for _, effect := range order {
		scope := uint8(1) << m.ops[tx][effect].Scope
		got := m.planOf(w, proc, tx, effect, stopped&scope != 0)
		switch {
		case !got.known || got.result == sequencer.ResultClean || m.careless(CarelessStop):
		case t.phase.aborted():
			stopped |= scope
		default:
			stopped = ^uint8(0)
		}
		plans = append(plans, got)
	}
	return plans, order
}

// order is the one in which a settlement goes through the effects.
func (m *model) order(t *gateTx, tx int) []int {
	var out []int
	for i := range m.ops[tx] {
		out = append(out, i)
	}
	if t.phase.aborted() || m.careless(CarelessOrder) {
		for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
	}
	return out
}

// settle is the report of a settlement: of what was held if the transaction has committed, else of what ran at once.
func (m *model) settle(w *world, proc, tx int) *sequencer.Settle {
	out := &sequencer.Settle{NoneElse: true}
	t := &w.txs[tx]
	plans, order := m.plans(w, proc, tx)
	for i, effect := range order {
		op := m.ops[tx][effect]
		if (op.Kind == OpGated) == t.phase.aborted() || op.Kind == OpEffect && t.granted&(1<<op.Scope) == 0 {
			continue
		}
		out.Effects = append(out.Effects, sequencer.Settled{Index: uint32(effect),
			Scopes: []sequencer.Scope{gateScopes()[op.Scope]}, Result: plans[i].result})
	}
	return out
}

// mayCall: a call that starts now is over before the lease is.
func (m *model) mayCall(p *gateProc) bool { return !p.lapsed || m.careless(CarelessLease) }

// mayEndWait: the time that a new owner waits is over. No call of the others is under way; and after a join, which
// ends a lease that its holder may still believe in, that lease is over by its holder's clock too.
func (m *model) mayEndWait(w *world, proc, tx int) bool {
	others := uint8(7) &^ (1 << proc)
	for i := range m.ops[tx] {
		if w.txs[tx].effects[i].flies(others) {
			return false
		}
	}
	for other := range w.procs {
		if other != proc && m.owned(w, other, tx) && w.procs[other].believes() && !m.careless(CarelessJoin) {
			return false
		}
	}
	return true
}

// believes: the process may make calls, as far as it knows.
func (p *gateProc) believes() bool {
	return p.alive && !p.lapsed && (p.ended == 0 || p.ended > p.view)
}

// owned: the process has owned the settlement, or has issued the effects.
func (m *model) owned(w *world, proc, tx int) bool {
	t := &w.txs[tx]
	for _, o := range t.owners[:t.nOwners] {
		if int(o.proc) == proc+1 {
			return true
		}
	}
	return false
}
