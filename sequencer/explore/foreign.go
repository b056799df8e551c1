package explore

import "github.com/hence-dev/hence/sequencer"

// strays lists the false settlements of a transaction: they also name a scope that was neither granted nor sealed, as
// clean or as leaked.
func (m *model) strays(who, slot int, t *txn, out []action) []action {
	if !m.cfg.Agents[who].Strays || t.strayed || m.foreign(who, t) < 0 {
		return out
	}
	for _, r := range []sequencer.Result{sequencer.ResultClean, sequencer.ResultLeaked} {
		out = append(out, action{who: uint8(who), verb: doStray, slot: uint8(slot), arg: seq(r)})
	}
	return out
}

// addForeign adds a scope to a settlement that is not its transaction's.
func (m *model) addForeign(who int, t *txn, s *sequencer.Settle, result sequencer.Result) {
	s.Effects = append(s.Effects, sequencer.Settled{Index: uint32(t.nEffects),
		Scopes: []sequencer.Scope{m.cfg.Scopes[m.foreign(who, t)]}, Result: result})
}

// foreign is the first scope that is not the transaction's; -1: there is none.
func (m *model) foreign(who int, t *txn) int {
	for i, s := range m.cfg.Scopes {
		if !m.owns(who, t, s) {
			return i
		}
	}
	return -1
}

// owns: the transaction was granted the scope for writing, or has sealed a write of it.
func (m *model) owns(who int, t *txn, s sequencer.Scope) bool {
	for i, x := range m.cfg.Scopes {
		if t.write&(1<<i) != 0 && x.Covers(s) {
			return true
		}
	}
	for _, op := range m.cfg.Agents[who].Program {
		for _, i := range op.Scopes {
			if t.sealed && op.Kind != OpRead && m.cfg.Scopes[i].Covers(s) {
				return true
			}
		}
	}
	return false
}

// moves holds what an outcome writes against what the transaction may write.
func (m *model) moves(s *state, who int, t *txn, o *sequencer.Outcome) {
	if m.cfg.Harm {
		return
	}
	for _, w := range o.Writes {
		if !m.owns(who, t, w.Scope) {
			s.violate("%s of %s moves %s, which it was neither granted nor has sealed", o.Kind, o.Tx, w.Scope)
		}
	}
}

// blamed: the reason of an abort is a write by a transaction that could not have made it.
func (m *model) blamed(s *state, o *sequencer.Outcome) bool {
	if o.Code != sequencer.CodeStaleRead && o.Code != sequencer.CodeVersionMismatch {
		return false
	}
	who, u := m.find(s, o.Moved.Tx)
	return u != nil && !m.owns(who, u, o.Scope) && !m.overlapsOwn(who, u, o.Scope)
}

// overlapsOwn: the scope overlaps one that is the transaction's.
func (m *model) overlapsOwn(who int, t *txn, s sequencer.Scope) bool {
	for _, x := range m.cfg.Scopes {
		if x.Overlaps(s) && m.owns(who, t, x) {
			return true
		}
	}
	return false
}

// checks: the agent's transactions are checked for an anomaly.
func (m *model) checks(who int, level sequencer.Levels) bool {
	l := m.cfg.Agents[who].Levels
	return l == nil || *l&level != 0
}

// foreignRows are those about whose scopes a settlement may name.
func foreignRows() []Row {
	var out []Config
	for _, programs := range [][]string{{"Ea", "Rb Gb"}, {"Ga", "Rb Eb"}, {"Ea", "Rb Ga"}} {
		cfg := agents("ab", sequencer.Optimistic, programs...)
		cfg.Agents[0].Strays, cfg.Agents[1].Abort = true, false
		out = append(out, cfg)
	}
	turn := agents("ab", sequencer.Optimistic, "Ea", "Rb Gb")
	turn.Agents[0].Strays, turn.Agents[0].Retract, turn.Agents[0].Abort, turn.Agents[1].Abort = true, true, false, false
	harm := append([]Config(nil), out[:2]...)
	for i := range harm {
		harm[i].Harm = true
	}
	return []Row{
		{Name: "14 settlement", Hole: "14", Configs: append(out, turn), Wrong: "neither granted"},
		{Name: "14 who suffers", Hole: "14", Configs: harm, Wrong: "has never had it"},
	}
}

// floorRows are those about reads of which the window has forgotten the writer.
func floorRows() []Row {
	a3 := sequencer.A3
	cfg := agents("ab", sequencer.Optimistic, "Ea", "Ra Eb")
	cfg.Agents[0].Retract, cfg.Agents[0].Abort = true, false
	cfg.Agents[1].Mode, cfg.Agents[1].Levels, cfg.Agents[1].Abort = sequencer.Ordered, &a3, false
	cfg = forgetful(cfg, 1, 0)
	cfg.Rules.HorizonSeqs = 1
	return []Row{{Name: "5f", Hole: "5f", Configs: []Config{cfg}, Wrong: "which was taken back"}}
}
