package explore

import "github.com/hence-dev/hence/gate"

// gateVerb is what happens in one step of the gate's world.
type gateVerb uint8

const (
	gateView    gateVerb = iota + 1 // a process sees all that was decided
	gateTouch                       // the effect at the pc is in the log, and its scope is asked for
	gateRead                        // the read at the pc
	gateCall                        // a call leaves, or a compensation
	gateLand                        // it takes effect and is answered
	gateMute                        // it takes effect, and is not answered
	gateLose                        // it is lost
	gateRefuse                      // the sink did nothing and says so, or was surely not reached
	gateTimeout                     // no answer in the tool's maximum time
	gateSeal
	gateAbort
	gateWaited // a new owner has waited long enough
	gateSettle
	gateCrash
	gateLapse  // a process finds that its lease may be over
	gateExpire // the log's time ends the lease of a process that is silent
	gateJoinAs // the second incarnation joins
	gateAdoptBy
	gateDown  // the sinks of the first agent's effects are down for good
	gateAsk   // a call is looked up
	gateRenew // a process whose lease may be over renews it, and asks whether it has one
)

// idle steps need not happen.
func (v gateVerb) idle() bool {
	return v == gateCrash || v == gateLapse || v == gateJoinAs || v == gateDown || v == gateRenew
}

type gateAct struct {
	verb             gateVerb
	proc, tx, effect uint8
	what             uint8 // doing or undoing
	wish             bool  // of an abort: nothing forces it
	last             bool  // of a question: nothing is under way any more
	forced           bool  // of a lapse or a join: it comes for certain
}

func (a gateAct) idle() bool { return a.verb.idle() && !a.forced || a.verb == gateAbort && a.wish }

// actions lists what can happen next, in a fixed order.
func (m *model) actions(w *world, out []gateAct) []gateAct {
	out = m.timeouts(w, m.faults(w, out))
	for tx := range w.txs {
		for effect := range m.ops[tx] {
			out = m.landings(w, tx, effect, out)
		}
	}
	for proc := range w.procs {
		p := &w.procs[proc]
		if !p.alive {
			continue
		}
		if p.view < w.head && (proc != otherProc || m.cfg.Leaves) {
			out = append(out, gateAct{verb: gateView, proc: uint8(proc)})
		}
		if p.ended != 0 && p.ended <= p.view {
			continue
		}
		for tx := range w.txs {
			if proc == issuer(tx) {
				out = m.running(w, proc, tx, out)
			}
			out = m.settling(w, proc, tx, out)
		}
	}
	return out
}

// faults are deaths, lapses, and what follows for the log.
func (m *model) faults(w *world, out []gateAct) []gateAct {
	add := func(v gateVerb, proc, tx int) { out = append(out, gateAct{verb: v, proc: uint8(proc), tx: uint8(tx)}) }
	for proc := range w.procs {
		p := &w.procs[proc]
		if p.alive && proc != otherProc && int(w.died) < m.cfg.Crashes {
			add(gateCrash, proc, 0)
		}
		leaves := m.cfg.Leaves && w.txs[1].over()
		switch {
		case p.believes() && p.ended != 0: // it learns by its own clock, if by nothing else
			out = append(out, gateAct{verb: gateLapse, proc: uint8(proc), forced: true})
		case p.believes() && (proc == firstProc && m.cfg.Lapses || proc == otherProc && leaves):
			add(gateLapse, proc, 0)
		}
		if m.cfg.Renews && p.alive && p.lapsed && !p.asked {
			add(gateRenew, proc, 0)
		}
		if p.incarnation != 0 && p.ended == 0 && (p.lapsed || !p.alive) {
			add(gateExpire, proc, 0)
		}
	}
	if second := &w.procs[secondProc]; !second.gone && (m.cfg.Elsewhere || !w.procs[firstProc].alive) {
		out = append(out, gateAct{verb: gateJoinAs, proc: secondProc, forced: m.cfg.Leaves})
	}
	if m.cfg.Down && !w.down {
		add(gateDown, 0, 0)
	}
	for tx := range w.txs {
		for proc := range w.procs {
			p, t := &w.procs[proc], &w.txs[tx]
			able := p.incarnation != 0 && p.ended == 0 && p.believes() && (proc == otherProc || m.cfg.Leaves)
			if able && t.decided() && !t.over() && t.ownerAt(w.head) == nobody && !m.careless(CarelessAdopt) {
				add(gateAdoptBy, proc, tx)
			}
		}
	}
	return out
}

// landings are what may become of the calls under way.
func (m *model) landings(w *world, tx, effect int, out []gateAct) []gateAct {
	for what, mask := range w.txs[tx].effects[effect].flying {
		for proc := range w.procs {
			if mask&(1<<proc) == 0 {
				continue
			}
			add := func(v gateVerb) {
				out = append(out, gateAct{verb: v, proc: uint8(proc), tx: uint8(tx), effect: uint8(effect), what: uint8(what)})
			}
			down := w.down && tx == 0
			if w.procs[proc].alive && !down {
				add(gateLand)
			}
			if w.procs[proc].alive && down {
				add(gateRefuse)
			}
			if tx == 0 {
				add(gateLose)
				if !down {
					add(gateMute)
				}
			}
		}
	}
	return out
}

// running lists what the issuer of an undecided transaction does next, as far as it knows.
func (m *model) running(w *world, proc, tx int, out []gateAct) []gateAct {
	p, t := &w.procs[proc], &w.txs[tx]
	add := func(v gateVerb, effect int) {
		out = append(out, gateAct{verb: v, proc: uint8(proc), tx: uint8(tx), effect: uint8(effect)})
	}
	if t.decision != 0 && t.decision <= p.view || t.aborting || t.phase == phaseFinalAborted {
		return out
	}
	if m.cfg.Abort && tx == 0 && t.phase != phaseNone {
		out = append(out, gateAct{verb: gateAbort, proc: uint8(proc), tx: uint8(tx), wish: true})
	}
	if t.sealed {
		if m.careless(CarelessEarly) {
			for effect, op := range m.ops[tx] {
				if op.Kind == OpGated && !w.note(proc, tx, effect, doing).started {
					add(gateCall, effect)
				}
			}
		}
		return out
	}
	if t.touching {
		return out
	}
	program := m.cfg.Programs[tx]
	if int(t.pc) == len(program) {
		add(gateSeal, 0)
		return out
	}
	op, effect := program[t.pc], m.index(tx, t.pc)
	switch {
	case op.Kind == OpRead:
		add(gateRead, 0)
	case op.Kind != OpEffect:
		panic("explore: a held effect is no step of its own")
	case t.asked&(1<<effect) == 0:
		add(gateTouch, effect)
	case t.grantAt <= p.view && t.granted&(1<<op.Scope) != 0:
		out = m.eager(w, proc, tx, effect, out)
	}
	return out
}

// eager lists the next step of an eager call: made, waited for, looked up, repeated under its key, or given up.
func (m *model) eager(w *world, proc, tx, effect int, out []gateAct) []gateAct {
	act := gateAct{proc: uint8(proc), tx: uint8(tx), effect: uint8(effect)}
	p, f := m.facts(w, proc, tx, effect, gate.PhaseOpen)
	f.Call.Kept = f.Call.Kept && !m.careless(CarelessTimeout)
	switch next := gate.Next(&p, gate.ClaimOwn, f); next.Do {
	case gate.DoWait:
		return out
	case gate.DoAsk:
		act.verb, act.last = gateAsk, next.Last
	case gate.DoStart, gate.DoRepeat:
		if act.verb = gateCall; !m.mayCall(&w.procs[proc]) {
			return out
		}
	default: // it did not leave, never arrived, or is unknown
		act.verb = gateAbort
	}
	return append(out, act)
}

// timeouts lists the calls whose time is over without an answer.
func (m *model) timeouts(w *world, out []gateAct) []gateAct {
	for tx := range w.txs {
		for effect := range m.ops[tx] {
			for what := range 2 {
				for proc := range w.procs {
					p := &w.procs[proc]
					mine := p.alive && p.journal == uint8(proc)
					n := w.note(proc, tx, effect, what)
					flies := w.txs[tx].effects[effect].flying[what]&(1<<proc) != 0
					if mine && n.started && !n.answered && !n.unknown && (!flies || m.careless(CarelessTimeout)) {
						out = append(out, gateAct{verb: gateTimeout, proc: uint8(proc), tx: uint8(tx), effect: uint8(effect),
							what: uint8(what)})
					}
				}
			}
		}
	}
	return out
}
