package explore

import (
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// Steps are steps of the gate that the explorer can leave out. Without all of them it walks the world as it was before
// it asked the gate: a sink that takes keys then counts as one that forbids them to perfection, so what may have run
// is compensated without being found out first, and is clean.
type Steps uint8

// The steps.
const (
	StepAsk    Steps = 1 << iota // a call of unknown outcome is looked up
	StepRepeat                   // and made again under its key before it is undone
	StepOrder                    // an order to refuse a call of unknown outcome makes nothing clean
	StepKnown                    // an answer counts for the tries before it: what ran and was not undone has leaked
	AllSteps   = StepAsk | StepRepeat | StepOrder | StepKnown
)

func (m *model) without(s Steps) bool { return m.cfg.Without&s != 0 }

// plan is what a process does next about one effect of a settlement: a call, a question, a wait, or a result.
type plan struct {
	do     gate.Do
	undo   bool
	last   bool // of a question
	known  bool // the result is
	stops  bool // what comes after it is not touched
	result sequencer.Result
}

// planOf asks the gate's rule about one effect of a decided transaction. Marks that say what is known already take no
// time here.
func (m *model) planOf(w *world, proc, tx, effect int, behind bool) plan {
	t := &w.txs[tx]
	ground := m.claim(w, proc, tx)
	if t.issued&(1<<effect) == 0 && ground == gate.ClaimStranger && m.ops[tx][effect].Kind == OpEffect {
		return plan{known: true} // it is in no log, so it never began
	}
	phase := gate.PhaseReleased
	if t.phase.aborted() {
		phase = gate.PhaseUndone
	}
	p, f := m.facts(w, proc, tx, effect, phase)
	f.Behind = behind
	if m.careless(CarelessTimeout) && phase == gate.PhaseUndone && w.note(proc, tx, effect, doing).unknown {
		p.Answer = &gate.Answer{Refused: true}
	}
	for {
		next := gate.Next(&p, ground, f)
		switch next.Do {
		case gate.DoWait:
			return plan{do: next.Do}
		case gate.DoAsk, gate.DoStart, gate.DoRepeat, gate.DoCompensate, gate.DoForbid:
			return plan{do: next.Do, undo: next.Undo, last: next.Last}
		case gate.DoAnswer:
			a := next.Answer
			a.Refused = a.Refused || a.Absent
			p.Answer, f.Call.Heard = &a, gate.HeardNothing
		case gate.DoTakeBack:
			p.Started, f.Call.Maybe, f.Call.Heard = false, false, gate.HeardNothing
		case gate.DoGiveUp:
			p.GivenUp = true
		case gate.DoLose:
			p.UndoLost = true
		case gate.DoDrop:
			p.Dropped = true
		case gate.DoNeverLeft, gate.DoDone:
			return m.settledAs(w, proc, tx, effect, &p, next, phase)
		default:
			panic("explore: nobody knows how to " + next.Do.String())
		}
	}
}

// facts is what a process knows of an effect, as the gate's rule asks for it.
func (m *model) facts(w *world, proc, tx, effect int, phase gate.Phase) (gate.Progress, gate.Facts) {
	op := m.ops[tx][effect]
	call, undo := w.note(proc, tx, effect, doing), w.note(proc, tx, effect, undoing)
	p := gate.Progress{Effect: gate.Effect{Tool: gate.Tool{Class: sequencer.ClassIrreversible}}, Waited: true,
		Started: call.left(), Undoing: undo.left()}
	if op.Kind == OpEffect {
		p.Tool.Class, p.Tool.Undo, p.Tool.Forbids = sequencer.ClassReversible, true, op.Keyed
	}
	if op.Keyed {
		p.Key = "key"
	}
	if call.answered && call.ran {
		p.Answer = &gate.Answer{}
	}
	if undo.answered && undo.ran {
		p.UndoDone = &gate.Answer{}
	}
	ground := m.claim(w, proc, tx)
	f := gate.Facts{Phase: phase, Orders: op.Keyed, Call: m.attempt(op, call), Undo: m.attempt(op, undo)}
	f.Call.Flying = f.Call.Flying || m.underWay(w, proc, tx, effect, doing)
	f.Undo.Flying = f.Undo.Flying || m.underWay(w, proc, tx, effect, undoing)
	f.Call.Maybe, f.Undo.Maybe = gate.MayHaveLeft(&p, ground), gate.MayBeUndone(&p, ground)
	f.Call.Asks = op.Asks && !m.without(StepAsk)
	if phase == gate.PhaseUndone && m.without(StepRepeat) {
		f.Call.Kept = false
	}
	return p, f
}

// attempt is what a note says of the tries of a call, or of a compensation.
func (m *model) attempt(op Op, n *gateNote) gate.Attempt {
	a := gate.Attempt{Kept: op.Keyed, Most: gateTries, Made: n.tries(), Tries: n.tries(), Late: n.tries() >= gateTries,
		Landed: true, Asked: n.asked, Looked: n.looked, Sure: true}
	switch {
	case n.looked:
		a.Heard = gate.HeardLast
	case n.asked:
		a.Heard = gate.HeardLook
	}
	a.Said.Absent = a.Heard != gate.HeardNothing
	if m.careless(CarelessEnd) && n.tries() >= gateTries {
		a.Flying = true // it goes on until it works
	}
	return a
}

// settledAs is the result of an effect.
func (m *model) settledAs(w *world, proc, tx, effect int, p *gate.Progress, end gate.Plan, phase gate.Phase) plan {
	out := plan{known: true, result: end.Result, stops: end.Stops(phase)}
	op, call := m.ops[tx][effect], w.note(proc, tx, effect, doing)
	unresolved := out.result == sequencer.ResultUnresolved
	switch {
	case unresolved && m.without(StepOrder) && p.GivenUp && p.UndoDone != nil:
		out.result, out.stops = sequencer.ResultClean, false
	case out.result == sequencer.ResultLeaked && m.without(StepKnown) && call.maybe && end.Undo:
		out.result = sequencer.ResultUnresolved
	}
	switch stranger := m.claim(w, proc, tx) == gate.ClaimStranger; {
	case unresolved && m.careless(CarelessClean):
		out.result = sequencer.ResultClean
	case unresolved && m.careless(CarelessMaybe) && op.Kind == OpGated && op.Keyed && !stranger:
		out.result = sequencer.ResultPartial
	}
	out.stops = out.stops && out.result != sequencer.ResultClean && !m.careless(CarelessStop)
	return out
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
		if next.verb == gateAsk || next.verb == gateCall && m.mayCall(p) {
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
		switch got.do {
		case gate.DoAsk:
			next.verb, next.last = gateAsk, got.last
		case gate.DoWait:
		default:
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
		case !got.stops:
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
