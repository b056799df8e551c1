package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// record puts one intent into the log: the fold decides, and everybody's model learns what it decided. Sidecars act on
// it later, when they come to it.
func (m *model) record(s *state, act action) {
	who := int(act.who)
	a := &s.agents[who]
	t := &a.txs[act.slot]
	in := &sequencer.Intent{Agent: m.agentName(who), N: 1}
	m.openAt(t, max(a.view, act.arg))
	if t.by == 0 {
		t.by = a.incarnation
	}
	in.Tx, in.Base, in.Incarnation = m.txID(who, t), sequencer.Seq(t.base), sequencer.Seq(t.by)
	switch act.verb {
	case doBegin:
		t.begun = true
		in.Kind, in.Begin = sequencer.IntentBegin, m.begin(who, t)
	case doTouch:
		m.touch(who, a, t, in)
	case doSeal:
		t.sealed = true
		in.Kind, in.Seal, in.Begin = sequencer.IntentSeal, m.seal(who, t), m.begin(who, t)
	case doAbort, doStuck:
		in.Kind, in.Abort = sequencer.IntentAbort, &sequencer.Abort{}
		t.retry = false
	case doSettle, doStray:
		t.seen = true
		a.view = max(a.view, t.decision)
		in.Incarnation = sequencer.Seq(a.incarnation)
		in.Kind, in.Settle = sequencer.IntentSettle, m.settle(t)
		if t.phase == phaseRetracting {
			in.N++
		}
		if t.strayed {
			in.N++
		}
		if act.verb == doStray {
			t.strayed = true
			m.addForeign(who, t, in.Settle, sequencer.Result(act.arg))
		}
	case doRetract:
		t.asked = true
		in.Kind, in.Incarnation, in.N = sequencer.IntentRetract, sequencer.Seq(a.incarnation), 1+uint32(t.asks)
	case doYes, doNo:
		t.judged = true
		in.Kind, in.Verdict = sequencer.IntentVerdict, &sequencer.Verdict{Footprint: m.seal(who, t).Footprint(),
			Yes: act.verb == doYes}
	case doCopy:
		s.dups--
		in.Kind, in.Seal, in.Begin = sequencer.IntentSeal, m.seal(who, t), m.begin(who, t)
	}
	m.step(s, in)
}

// mark sends a sidecar's watermark.
func (m *model) mark(s *state, who int) {
	mark := m.watermark(&s.world, who)
	for other := range m.cfg.Agents {
		if b := &s.agents[other]; m.sidecar[other] == who {
			b.mark, b.view = mark, max(b.view, mark)
		}
	}
	m.step(s, &sequencer.Intent{Kind: sequencer.IntentWatermark, Agent: m.agentName(who),
		Incarnation: sequencer.Seq(s.agents[who].incarnation), Watermark: &sequencer.Watermark{Seq: sequencer.Seq(mark)}})
}

// choose names the agent's first transaction as the winner among the branches.
func (m *model) choose(s *state, who int) {
	a := &s.agents[who]
	s.chosen = uint8(who + 1)
	m.step(s, &sequencer.Intent{Kind: sequencer.IntentSelect, Agent: m.agentName(who),
		Incarnation: sequencer.Seq(a.incarnation), Base: sequencer.Seq(a.view),
		Select: &sequencer.Select{Group: branches, Winner: m.ids[who][0]}})
}

// restart lets a sidecar join again. Calls that left may still land.
func (m *model) restart(s *state, who int) {
	s.agents[who].crashes++
	m.step(s, m.join(who, s.agents[who].crashes))
}

// join is the record that starts a sidecar, the first time or again.
func (m *model) join(who int, again uint8) *sequencer.Intent {
	return &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: m.agentName(who),
		Join: &sequencer.Join{ID: "j" + m.agentName(who)[1:] + "bcd"[:again], Logic: sequencer.Logic}}
}

// touch asks for what the agent's next operation needs, or for all that the program does.
func (m *model) touch(who int, a *agent, t *txn, in *sequencer.Intent) {
	program := m.cfg.Agents[who].Program
	t.askWrite, t.askRead = 0, 0
	if a.whole && t.touches == 0 {
		for _, op := range program {
			for _, scope := range op.Scopes {
				if op.Kind == OpRead {
					t.askRead |= 1 << scope
				} else {
					t.askWrite |= 1 << scope
				}
			}
		}
		t.askRead &^= t.askWrite
	} else {
		t.askWrite, t.askRead = m.needs(who, t, program[a.pc])
	}
	t.touches++
	in.Kind, in.N, in.Begin = sequencer.IntentTouch, uint32(t.touches), m.begin(who, t)
	wants := m.wants(t.askWrite, sequencer.WriteAccess)
	in.Touch = &sequencer.Touch{Wants: append(wants, m.wants(t.askRead, sequencer.ReadAccess)...)}
	if t.askWrite != 0 {
		t.writing |= 1 << t.touches
	}
	t.waiting = true
}

func (m *model) wants(bits uint8, access sequencer.Access) []sequencer.Want {
	var out []sequencer.Want
	for i, s := range m.cfg.Scopes {
		if bits&(1<<i) != 0 {
			out = append(out, sequencer.Want{Scope: s, Access: access})
		}
	}
	return out
}

// begin is how the transaction is to be treated; every record of it carries that.
func (m *model) begin(who int, t *txn) *sequencer.Begin {
	b := &sequencer.Begin{Mode: m.mode(who, t), Levels: m.cfg.Agents[who].Levels, Session: m.cfg.Agents[who].Session}
	if m.cfg.Agents[who].Branch {
		b.Group = branches
	}
	if t.attempt > 0 {
		p := *t
		p.attempt--
		b.Predecessor = m.txID(who, &p)
	}
	if m.cfg.Agents[who].May && b.Mode == sequencer.Ordered {
		var write, read uint8
		for _, op := range m.cfg.Agents[who].Program {
			for _, scope := range op.Scopes {
				if op.Kind == OpRead {
					read |= 1 << scope
				} else {
					write |= 1 << scope
				}
			}
		}
		b.May = append(m.wants(write, sequencer.WriteAccess), m.wants(read&^write, sequencer.ReadAccess)...)
	}
	return b
}

// seal is the footprint: the reads that were made, the effects in the order of the program, the shard writes.
func (m *model) seal(who int, t *txn) *sequencer.Seal {
	out := &sequencer.Seal{Hook: m.cfg.Agents[who].Hook}
	for _, r := range t.reads[:t.nReads] {
		if !r.swap {
			out.Reads = append(out.Reads, sequencer.Read{Scope: m.cfg.Scopes[r.scope], View: sequencer.Seq(r.view),
				Version: sequencer.Seq(r.version)})
		}
	}
	for n := uint8(1); n <= t.touches; n++ {
		if t.writing&(1<<n) != 0 {
			out.Touches = append(out.Touches, sequencer.TouchReport{N: uint32(n), Known: true})
		}
	}
	swaps := 0
	for _, op := range m.cfg.Agents[who].Program {
		scope := m.cfg.Scopes[op.Scopes[0]]
		switch op.Kind {
		case OpEffect:
			for _, x := range op.Scopes {
				out.Effects = append(out.Effects, sequencer.Effect{Index: uint32(len(out.Effects)), Known: true,
					Class: sequencer.ClassReversible, Tool: "set", Scopes: []sequencer.Scope{m.cfg.Scopes[x]}})
			}
		case OpGated:
			out.Effects = append(out.Effects, sequencer.Effect{Index: uint32(len(out.Effects)),
				Class: sequencer.ClassIrreversible, Tool: "send", Scopes: []sequencer.Scope{scope}})
		case OpWrite:
			out.Shards = append(out.Shards, sequencer.ShardWrite{Scope: scope, Content: []byte(m.txID(who, t))})
		case OpSwap:
			r := t.swap(swaps)
			swaps++
			out.Shards = append(out.Shards, sequencer.ShardWrite{Scope: scope, Content: []byte(m.txID(who, t)),
				Expect: &sequencer.Expect{Version: sequencer.Seq(r.version), View: sequencer.Seq(r.view)}})
		}
	}
	return out
}

// swap returns the n-th expected version.
func (t *txn) swap(n int) read {
	for _, r := range t.reads[:t.nReads] {
		if r.swap {
			if n == 0 {
				return r
			}
			n--
		}
	}
	panic("explore: a seal comes before its expected version was noted")
}

// settle reports what ran and was compensated or released; nothing else did.
func (m *model) settle(t *txn) *sequencer.Settle {
	out := &sequencer.Settle{NoneElse: true}
	for i, e := range t.effects[:t.nEffects] {
		done := sequencer.Settled{Index: uint32(i), Scopes: []sequencer.Scope{m.cfg.Scopes[e.scope]}}
		switch e.state {
		case effectLeaked:
			done.Result = sequencer.ResultLeaked
			out.Effects = append(out.Effects, done)
		case effectUndone, effectLanded:
			out.Effects = append(out.Effects, done)
		}
	}
	return out
}

// step gives the fold a record and lets the model observe the outcomes.
func (m *model) step(s *state, in *sequencer.Intent) {
	s.intent = in
	s.steps++
	step, fault := Step(s.fold(), int64(s.steps), in)
	if fault != "" {
		s.violate("%s", fault)
		return
	}
	observed := s.watch.on
	for i := range step.Outcomes {
		m.observe(s, &step.Outcomes[i])
	}
	if observed && !s.watch.on {
		m.enforced(s)
	}
}

// Step runs the fold; a panic of its own is a violation too.
func Step(f *sequencer.Fold, offset int64, in *sequencer.Intent) (step sequencer.Step, fault string) {
	defer func() {
		if r := recover(); r != nil {
			fault = fmt.Sprintf("the fold panics: %v", r)
		}
	}()
	step, err := f.Step(offset, in)
	if err != nil {
		return step, err.Error()
	}
	if step.Ignored {
		return step, "the fold cannot read the intent"
	}
	return step, ""
}
