package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// maxAsks bounds how often a retraction is asked for that is refused because of what observes.
const maxAsks = 2

// watch is what matters where the workspace may observe. While it does, everything is granted and commits at once, so
// nothing is promised of what resources hold; from the switch on, what they hold is the ground for who is enforced.
type watch struct {
	on       bool
	switches uint8 // rules records that were sent
	version  uint8 // rules records that were accepted
	// under is what a resource held before those who hold it now; ground is what it held at the switch, or under those
	// who held it then.
	under  [maxScopes]token
	ground [maxScopes]token
	// foul: the resource was settled as clean, and it holds neither what a standing transaction left nor the ground.
	foul [maxScopes]bool
}

// switchRules sends a rules record that makes the workspace enforce, or observe again.
func (m *model) switchRules(s *state) {
	rules := sequencer.DefaultRules()
	version := uint32(1)
	if m.rules != nil {
		rules, version = *m.rules, 2
	}
	rules.Version, rules.Logic, rules.Observe = version+uint32(s.watch.version), sequencer.Logic, !s.watch.on
	s.watch.switches++
	m.step(s, &sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
}

// switched takes new rules: who is not final while the workspace observes is no longer held to anything.
func (m *model) switched(s *state, rules *sequencer.Rules) {
	if s.watch.switches > 0 {
		s.watch.version++
	}
	if s.watch.on = rules.Observe; !s.watch.on {
		return
	}
	for who := range m.cfg.Agents {
		for slot := range s.agents[who].txs {
			t := &s.agents[who].txs[slot]
			t.loose = t.loose || t.phase != phaseNone && !t.phase.final()
		}
	}
}

// refusedRules: rules are refused only where the workspace would begin to observe beside a retraction.
func (m *model) refusedRules(s *state, o *sequencer.Outcome) {
	retracting := false
	for who := range m.cfg.Agents {
		for slot := range s.agents[who].txs {
			t := &s.agents[who].txs[slot]
			retracting = retracting || t.asked && t.phase != phaseRetracted || t.phase == phaseRetracting
		}
	}
	if o.Code != sequencer.CodeNotWhileObserving || !s.intent.Rules.Observe || !retracting {
		s.violate("rules are refused: %s: %s", o.Code, o.Detail)
	}
}

// enforced is the end of the step in which the workspace began to enforce. An unheld resource's value is its ground.
func (m *model) enforced(s *state) {
	for i := range m.cfg.Scopes {
		if m.cell[i] != i {
			continue
		}
		if m.held(s, i, nil) {
			s.watch.ground[i] = s.watch.under[i]
			continue
		}
		s.watch.ground[i], s.serial[i], s.watch.foul[i] = s.value[i], s.value[i], false
	}
}

// holds notes what a resource held before anybody held it. It is called before the next one does.
func (m *model) holds(s *state, scope int) {
	if cell := m.cell[scope]; m.watches() && !m.held(s, cell, nil) {
		s.watch.under[cell] = s.value[cell]
	}
}

// held: another transaction holds the resource and is not final.
func (m *model) held(s *state, cell int, but *txn) bool {
	for who := range m.cfg.Agents {
		for slot := range s.agents[who].txs {
			t := &s.agents[who].txs[slot]
			if t != but && t.phase != phaseNone && !t.phase.final() && m.had(t, cell) {
				return true
			}
		}
	}
	return false
}

// had: the transaction was granted the resource for writing, or has an effect on it.
func (m *model) had(t *txn, cell int) bool {
	for i := range m.cfg.Scopes {
		if t.write&(1<<i) != 0 && m.cell[i] == cell {
			return true
		}
	}
	for _, e := range t.effects[:t.nEffects] {
		if m.cell[e.scope] == cell {
			return true
		}
	}
	return false
}

// besideEachOther: while a workspace observes, effects may run over each other. A retraction's may not.
func besideEachOther(t, u *txn) bool {
	return t.loose && u.loose && t.phase != phaseRetracting && u.phase != phaseRetracting
}

// besideLoose: the workspace observes, or what it let through while it did is not final.
func (m *model) besideLoose(s *state) bool {
	for who := range m.cfg.Agents {
		for slot := range s.agents[who].txs {
			t := &s.agents[who].txs[slot]
			if t.loose && t.phase != phaseNone && !t.phase.final() {
				return true
			}
		}
	}
	return s.watch.on
}

// leftLoose takes what a settlement, or a turn, of a transaction has left that was beside others while the workspace
// observed. Once no other holds the resource its value counts: a standing write, or one that the log calls unclean.
func (m *model) leftLoose(s *state, t *txn, cell int, o *sequencer.Outcome) {
	if s.watch.on || m.held(s, cell, t) {
		return
	}
	s.serial[cell] = s.value[cell]
	s.watch.foul[cell] = !m.named(o, cell) && !m.stood(s, cell, t.phase == phaseRetracted)
}

// named: the outcome says that what the resource holds could not be made clean.
func (m *model) named(o *sequencer.Outcome, cell int) bool {
	for _, w := range o.Writes {
		if w.Writer.Residue && m.cell[m.scope(w.Scope)] == cell {
			return true
		}
	}
	return false
}

// stood: who is enforced may build on what the resource holds. It is the value of a transaction that stands, or the
// ground; after a retraction what was there before everything instead of the ground.
func (m *model) stood(s *state, cell int, retracted bool) bool {
	v := s.value[cell]
	for who := range m.cfg.Agents {
		for slot := range s.agents[who].txs {
			if t := &s.agents[who].txs[slot]; (t.stands() || t.phase == phaseRetracting) && m.token(who, t) == v {
				return true
			}
		}
	}
	return v == s.watch.ground[cell] && !retracted || v == 0 && retracted
}

// watched writes what only a workspace that observes asks for.
func (k *keyer) watched(b []byte, w *world, st *sequencer.State) []byte {
	b = append(b, bits(w.watch.on), w.watch.switches, w.watch.version)
	for i := range k.m.cfg.Scopes {
		b = append(b, byte(w.watch.under[i]), byte(w.watch.ground[i]), bits(w.watch.foul[i]))
	}
	for i := range st.Txs {
		t := &st.Txs[i]
		b = append(k.id(b, t.ID), bits(t.Free, t.Unclean), byte(len(t.Shared)))
		for _, s := range t.Shared {
			b = append(b, k.scope(s))
		}
	}
	return b
}

// observing makes configurations of a workspace that observes from the start, or comes to.
func observing(cfg Config, from bool, switches int) Config {
	cfg.Observes, cfg.Switches = from, switches
	for who := range cfg.Agents {
		cfg.Agents[who].Abort = who == 0
	}
	return cfg
}

// SwitchConfigs lists configurations of two agents, and of three the last of which reads, in a workspace that observes
// from the start or comes to, with up to two changes. In some the first transaction may be retracted.
func SwitchConfigs() []Config {
	var out []Config
	for _, f := range []Family{
		{"ab", []string{"Ea", "Ga", "Ea Eb", "Eb Ea", "Ra Ea", "Ra Gb", "Ea Gb"}},
		{"as", []string{"Ea Ws", "Rs Ea", "Ra Ws", "Cs"}},
	} {
		n := len(f.Programs)
		for i := range n * n * len(orders()) {
			first, second := i%n, i/n%n
			pair := func(third ...string) Config {
				cfg := f.config([]int{first, second}, []order{{}, orders()[i/n/n]})
				for _, text := range third {
					cfg.Agents = append(cfg.Agents, agents(f.Scopes, sequencer.Optimistic, text).Agents...)
					cfg.Name += " | " + text
				}
				for who := range cfg.Agents {
					cfg.Agents[who].Retries = 0
				}
				return cfg
			}
			reader := map[string]string{"ab": "Ra Rb", "as": "Ra Rs"}[f.Scopes]
			for from, cfg := range []Config{observing(pair(), true, 2), observing(pair(), false, 2),
				observing(pair(reader), true, 1)} {
				cfg.Agents[0].Retract = i%2 == 0
				cfg.Agents[1].Abort = from == 0
				cfg.Name += fmt.Sprintf(", observing %v, %d changes, retracted %v", cfg.Observes, cfg.Switches, i%2 == 0)
				out = append(out, cfg)
			}
		}
	}
	return out
}

// switchRows are those about a workspace that observes and then enforces.
func switchRows() []Row {
	optimistic := sequencer.Optimistic
	retracted := observing(agents("ab", optimistic, "Ea", "Ea"), true, 1)
	retracted.Agents[0].Retract = true
	return []Row{
		{Name: "16 retraction", Hole: "16", Configs: []Config{retracted}, Wrong: "overwrites"},
		{Name: "16b who is undecided", Hole: "16b", Wrong: "the world ends with",
			Configs: []Config{observing(agents("ab", optimistic, "Ea", "Ea"), true, 1),
				observing(agents("ab", optimistic, "Ea", "Ea"), false, 2)}},
		{Name: "16c what two have shared", Hole: "16c", Wrong: "nobody who stands has left it",
			Configs: []Config{observing(agents("a", optimistic, "Ea", "Ea"), true, 1),
				observing(agents("ab", optimistic, "Ea", "Ea", "Ra Gb"), true, 1)}},
	}
}
