package explore

import (
	"github.com/hence-dev/hence/sequencer"
	folds "github.com/hence-dev/hence/sequencer/explore"
)

// record puts one intent of a transaction into the log.
func (m *model) record(s *state, act gateAct) {
	proc, tx, effect := int(act.proc), int(act.tx), int(act.effect)
	p, t := &s.procs[proc], &s.txs[tx]
	if t.base == 0 {
		t.base = p.view
	}
	in := &sequencer.Intent{Tx: gateTxID(tx), N: 1, Agent: gateAgent(proc), Incarnation: sequencer.Seq(p.incarnation),
		Base: sequencer.Seq(t.base)}
	switch act.verb {
	case gateTouch:
		t.touches++
		t.asked |= 1 << effect
		t.touching = true
		if !m.careless(CarelessLog) {
			t.issued |= 1 << effect
		}
		in.Kind, in.N = sequencer.IntentTouch, uint32(t.touches)
		in.Touch = &sequencer.Touch{Wants: []sequencer.Want{{Scope: gateScopes()[m.ops[tx][effect].Scope],
			Access: sequencer.WriteAccess}}}
	case gateSeal:
		t.sealed = true
		in.Kind, in.Seal = sequencer.IntentSeal, m.seal(s, tx)
	case gateAbort:
		t.aborting = true
		in.Kind, in.Abort = sequencer.IntentAbort, &sequencer.Abort{}
	case gateSettle:
		p.sent[tx] = true
		in.N = uint32(proc + 1)
		in.Kind, in.Settle = sequencer.IntentSettle, m.settle(&s.world, proc, tx)
	}
	m.step(s, in)
}

// seal is the footprint.
func (m *model) seal(s *state, tx int) *sequencer.Seal {
	t, out := &s.txs[tx], &sequencer.Seal{}
	for _, r := range t.reads[:t.nReads] {
		out.Reads = append(out.Reads, sequencer.Read{Scope: gateScopes()[r.scope], View: sequencer.Seq(r.view)})
	}
	for n := uint32(1); n <= uint32(t.touches); n++ {
		out.Touches = append(out.Touches, sequencer.TouchReport{N: n, Known: true})
	}
	for i, op := range m.ops[tx] {
		e := sequencer.Effect{Index: uint32(i), Class: sequencer.ClassIrreversible, Tool: "send",
			Scopes: []sequencer.Scope{gateScopes()[op.Scope]}}
		if op.Kind == OpEffect {
			e.Class, e.Tool, e.Known = sequencer.ClassReversible, "set", true
		}
		if op.Keyed {
			e.Key = "key-" + string(rune('0'+i))
		}
		out.Effects = append(out.Effects, e)
	}
	return out
}

// opening are the records in front of everything: rules, and the joins of the first two processes.
func (m *model) opening() []*sequencer.Intent {
	rules := sequencer.DefaultRules()
	rules.Version, rules.LeaseTicks, rules.HorizonSeqs = 1, gateLease, 0
	if m.cfg.Renews { // which a log of an older logic does not answer
		rules.Logic = sequencer.Logic
	}
	return []*sequencer.Intent{{Kind: sequencer.IntentRules, Rules: &rules}, m.join(firstProc), m.join(otherProc)}
}

func (m *model) join(proc int) *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: gateAgent(proc),
		Join: &sequencer.Join{ID: [...]string{"j1", "j2", "j3"}[proc], Logic: sequencer.Logic}}
}

// joinAs starts the second incarnation of the first agent.
func (m *model) joinAs(s *state) {
	p := &s.procs[secondProc]
	p.alive, p.gone, p.journal = true, true, firstProc
	if m.cfg.Elsewhere || m.cfg.Torn {
		p.journal = secondProc
	}
	m.step(s, m.join(secondProc))
}

// gateLease is how many ticks a lease lasts here.
const gateLease = 16

// expire moves the log's time until the lease of a process that is silent ends; the others renew theirs.
func (m *model) expire(s *state, silent int) {
	for range 4 * gateLease {
		for proc := range s.procs {
			p := &s.procs[proc]
			if proc != silent && p.incarnation != 0 && p.ended == 0 {
				m.step(s, &sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: gateAgent(proc),
					Incarnation: sequencer.Seq(p.incarnation), Watermark: &sequencer.Watermark{Seq: 1}})
			}
		}
		s.ticks++
		m.step(s, &sequencer.Intent{Kind: sequencer.IntentTick,
			Tick: &sequencer.TickMark{N: uint64(s.ticks), Weight: 1}})
		if s.procs[silent].ended != 0 || s.fault != "" {
			return
		}
	}
	s.violate("the lease of %s does not end", gateAgent(silent))
}

// renew lets a process ask whether its lease still lasts. It may count on it once its view shows that it does.
func (m *model) renew(s *state, proc int) {
	p := &s.procs[proc]
	p.asked = true
	m.step(s, &sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: gateAgent(proc),
		Incarnation: sequencer.Seq(p.incarnation), Watermark: &sequencer.Watermark{Seq: 1, Confirm: 1}})
	p.lapsed = !m.careless(CarelessConfirm)
}

// step gives the fold a record and lets the model observe the outcomes.
func (m *model) step(s *state, in *sequencer.Intent) {
	s.steps++
	s.intents = append(s.intents, in)
	step, fault := folds.Step(s.fold(), int64(s.steps), in)
	if fault != "" {
		s.violate("%s", fault)
		return
	}
	for i := range step.Outcomes {
		m.observe(s, &step.Outcomes[i], in)
	}
}

// root is the state after the first two processes have joined.
func (m *model) root() *state {
	f := sequencer.New(workspace)
	s := &state{fold: func() *sequencer.Fold { return f }}
	s.procs[firstProc] = gateProc{alive: true, gone: true, journal: firstProc}
	s.procs[otherProc] = gateProc{alive: true, gone: true, journal: otherProc}
	for _, in := range m.opening() {
		m.step(s, in)
	}
	for proc := range s.procs {
		s.procs[proc].view = s.head
	}
	m.advance(s)
	return s
}
