package explore

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// past is what has committed at one resource and was not taken back, in commit order.
type past struct {
	n    uint8
	list [2 * maxAgents]pastWrite
}

type pastWrite struct {
	value token
	who   uint8
	gone  bool // it was taken back
	left  bool // it could not be: it stays, and is named
}

// top is the value that a serial run of what stands would leave.
func (p *past) top() token {
	var v token
	for _, w := range p.list[:p.n] {
		if !w.gone {
			v = w.value
		}
	}
	return v
}

// stands: the transaction has committed, and was not taken back.
func (t *txn) stands() bool { return t.phase == phaseCommitted || t.phase == phaseFinalCommitted }

// remember notes what a commit writes at a resource, or will once it is released.
func (m *model) remember(s *state, who int, t *txn, kind OpKind, scope int) {
	if !m.retracts || kind == OpRead {
		return
	}
	s.past[m.place(kind, scope)].add(pastWrite{value: m.token(who, t), who: uint8(who)})
}

func (p *past) add(w pastWrite) {
	if p.n == 0 || p.list[p.n-1].value != w.value {
		p.list[p.n] = w
		p.n++
	}
}

// place is where the writes of an operation are remembered: effects outside under a shard's name are not modelled
// beside its content.
func (m *model) place(kind OpKind, scope int) int {
	if kind == OpWrite || kind == OpSwap {
		return scope
	}
	return m.cell[scope]
}

// takingBack lists the next step of a member's compensation, once it has its turn: what ran is undone in reverse
// order, what was held and has left cannot be.
func (m *model) takingBack(a *agent, who, slot int, out []action) []action {
	t := &a.txs[slot]
	add := func(v verb) { out = append(out, action{who: uint8(who), verb: v, slot: uint8(slot)}) }
	if !t.turn {
		return out
	}
	switch i := t.hasLast(effectLanded); {
	case i < 0:
		add(doSettle)
		out = m.strays(who, slot, t, out)
	case t.effects[i].sent:
		add(doGiveUp)
	default:
		add(doUndo)
		if m.cfg.Agents[who].Leaks {
			add(doGiveUp)
		}
	}
	return out
}

// retracting: a retraction is queued, or it has started and the transaction is in its cone.
func (m *model) retracting(t *txn, o *sequencer.Outcome) {
	if o.Tx == o.Retraction && len(o.Cone) == 0 {
		return // queued
	}
	t.cone = true
	if t.phase == phaseFinalCommitted {
		t.phase = phaseRetracting
	}
}

// takenBack: a member's turn is settled. What it wrote is not there any more, but for what has left for good.
func (m *model) takenBack(s *state, who int, t *txn, o *sequencer.Outcome) {
	t.phase, t.turn = phaseRetracted, false
	if left := t.has(effectLeaked) >= 0; left != (len(o.Residue) > 0) && !t.loose {
		s.violate("%s is taken back; something of it has left for good: %v, and it is named: %v", o.Tx, left, !left)
	}
	for _, w := range o.Shards {
		m.restored(s, &w, o)
	}
	for i := range s.past {
		p := &s.past[i]
		for j := range p.list[:p.n] {
			w := &p.list[j]
			if w.value != m.token(who, t) || int(w.who) != who {
				continue
			}
			if w.left = m.leaked(t, i); w.left {
				s.serial[i], s.watch.foul[i] = s.value[i], false
				continue
			}
			w.gone = true
			p.cover(j)
			switch {
			case t.loose:
				w.left = m.named(o, i)
				m.leftLoose(s, t, i, o)
			case !m.shards[i]:
				s.serial[i] = p.top()
			}
		}
	}
}

// cover: what was left for good above a write that is taken back is overwritten by what stood there before.
func (p *past) cover(at int) {
	for i := at + 1; i < int(p.n); i++ {
		p.list[i].gone = p.list[i].gone || p.list[i].left
	}
}

// leaked: an effect of the transaction on the resource stands although it was to be taken back.
func (m *model) leaked(t *txn, cell int) bool {
	for _, e := range t.effects[:t.nEffects] {
		if m.cell[e.scope] == cell && e.state == effectLeaked {
			return true
		}
	}
	return false
}

// restored holds a shard's content that the fold has put back against what stands without the cone.
func (m *model) restored(s *state, w *sequencer.ShardWrite, o *sequencer.Outcome) {
	scope := m.scope(w.Scope)
	var got token
	for who := range m.cfg.Agents {
		t := &s.agents[who].txs[0]
		carries := w.Restored == 0 && string(w.Content) == string(m.txID(who, t)) // up to logic 2
		if carries = carries || w.Restored != 0 && t.decision == seq(w.Restored); carries && !w.Absent {
			got = m.token(who, t)
		}
	}
	var want token
	for _, x := range s.past[scope].list[:s.past[scope].n] {
		if !x.gone && !s.agents[x.who].txs[0].cone {
			want = x.value
		}
	}
	if got != want {
		s.violate("the turn of %s leaves %s at %s; without the cone it is %s", o.Tx, valueName(got), w.Scope,
			valueName(want))
	}
	s.shard[scope].put(seq(o.Seq), got)
}

// leftBy: the value is one that was to be undone, and has stayed for good.
func (m *model) leftBy(s *state, v token, scope int) bool {
	for _, w := range s.past[m.cell[scope]].list {
		if w.left && w.value == v {
			return true
		}
	}
	return false
}

// endedRetracted: in the end no transaction stands on a retracted value; each shard is as those that stand left it.
func (m *model) endedRetracted(s *state) {
	if !m.retracts {
		return
	}
	for scope, shard := range m.shards {
		if p := &s.past[scope]; shard && s.shard[scope].before() != p.top() {
			s.violate("%s ends with %s; without the cone it is %s", m.cfg.Scopes[scope],
				valueName(s.shard[scope].before()), valueName(p.top()))
		}
	}
	for who := range m.cfg.Agents {
		t := &s.agents[who].txs[0]
		if !t.stands() || t.loose {
			continue
		}
		for _, r := range t.reads[:t.nReads] {
			for _, w := range s.past[m.cell[r.scope]].list {
				shown := m.checks(who, sequencer.A1) || r.view >= s.agents[w.who].txs[0].decision // else it cannot be known
				if w.gone && !w.left && w.value == r.value && !r.own && shown {
					s.violate("%s stands on %s, which was taken back", m.txID(who, t), valueName(r.value))
				}
			}
		}
	}
}

// events adds the seqs that a retraction compares views with.
func (k *keyer) events(w *world, st *sequencer.State, out *seqs) {
	for i := range st.Txs {
		if t := &st.Txs[i]; t.Past != nil {
			out.add(seq(t.Decision))
			out.add(seq(t.Past.Undone))
		}
	}
}

// remembered writes what only a retraction asks for: the committed transactions, who counts as the writer of each
// scope, contents, and the retractions.
func (k *keyer) remembered(b []byte, w *world, st *sequencer.State, events *seqs) []byte {
	for i := range len(k.m.cfg.Scopes) {
		for _, x := range w.past[i].list[:w.past[i].n] {
			b = append(b, byte(x.value), bits(x.gone, x.left))
		}
		b = append(b, w.past[i].n)
	}
	for i := range st.Txs {
		t := &st.Txs[i]
		b = k.id(append(k.id(b, t.ID), byte(t.Phase), bits(t.Unclean, t.Past != nil, t.Owner != 0)), t.Retraction)
		for _, id := range t.RestsOn {
			b = k.id(b, id)
		}
		if t.Past == nil {
			continue
		}
		b = append(b, events.rank(seq(t.Decision)), events.rank(seq(t.Past.Undone)), bits(t.Past.Effects))
		for _, r := range t.Past.Reads {
			b = append(b, k.scope(r.Scope), events.rank(seq(r.View)))
		}
		for _, x := range t.Past.Writes {
			b = k.id(append(b, k.scope(x.Scope), events.rank(seq(x.Former.Seq)), bits(x.Former.Residue, x.Shard)),
				x.Former.Tx)
		}
	}
	for _, x := range st.Window {
		b = k.id(append(b, k.scope(x.Scope), events.rank(seq(x.Seq)), bits(x.Writer.Residue)), x.Writer.Tx)
	}
	for i := range st.Retractions {
		b = k.retraction(b, st, &st.Retractions[i])
	}
	for i := range st.Versions {
		b = k.version(b, st, &st.Versions[i])
	}
	return b
}

func (k *keyer) retraction(b []byte, st *sequencer.State, r *sequencer.RetractionState) []byte {
	b = append(k.id(b, r.Tx), bits(r.Turn != 0))
	for _, id := range r.Cone {
		b = k.id(b, id)
	}
	for i := range r.Ground {
		g := &r.Ground[i]
		b = k.id(append(b, k.scope(g.Scope), bits(g.Writer.Residue, g.Shard != nil, g.Unknown)), g.Writer.Tx)
		if g.Shard != nil {
			b = k.version(b, st, g.Shard)
		}
	}
	return b
}

// version writes a content: since logic 3 it is that of a decision, which the transaction's name stands for.
func (k *keyer) version(b []byte, st *sequencer.State, v *sequencer.ShardVersion) []byte {
	content := sequencer.TxID(v.Content)
	if v.From != 0 {
		at := slices.IndexFunc(st.Txs, func(t sequencer.TxState) bool { return t.Decision == v.From })
		if content = "forgotten"; at >= 0 {
			content = st.Txs[at].ID
		}
	}
	return k.id(append(b, k.scope(v.Scope), bits(v.Absent, v.Unknown)), content)
}

// id writes a transaction's name.
func (k *keyer) id(b []byte, id sequencer.TxID) []byte { return append(append(b, id...), ';') }
