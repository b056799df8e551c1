package explore

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// talking makes configurations of one agent with conversations: each letter of sessions is that of a program, and all
// of them go through one sidecar.
func talking(scopes string, mode sequencer.Mode, sessions string, programs ...string) Config {
	cfg := agents(scopes, mode, programs...)
	cfg.Name = mode.String()
	for who := range cfg.Agents {
		cfg.Agents[who].Beside, cfg.Agents[who].Abort = who > 0, false
		cfg.Agents[who].Session = sessions[who : who+1]
		cfg.Name += fmt.Sprintf(" | %s: %s", cfg.Agents[who].Session, programs[who])
	}
	return cfg
}

// TalkConfigs lists configurations of two conversations of one agent: of two transactions each, and of two beside one
// that may be given up at any time.
func TalkConfigs() []Config {
	var out []Config
	programs := []string{"Ea", "Eb", "Ga", "Ra Eb", "Ea Gb"}
	for _, mode := range []sequencer.Mode{sequencer.Optimistic, sequencer.Ordered, sequencer.Locked} {
		for _, p := range programs {
			for _, q := range programs {
				beside := talking("ab", mode, "ppq", "Ea", p, q)
				beside.Agents[0].Abort = true
				out = append(out, talking("ab", mode, "ppqq", "Ea", p, "Ea", q), beside)
			}
		}
	}
	return out
}

// talkRows are those about the conversations of one agent.
func talkRows() []Row {
	optimistic := sequencer.Optimistic
	return []Row{
		{Name: "20 two conversations", Hole: "20", Wrong: "of its own session, and",
			Configs: []Config{talking("a", optimistic, "pq", "Ea", "Ea"), talking("a", optimistic, "pq", "Ea", "Ga"),
				talking("a", optimistic, "pqq", "Ea", "Ga", "Ea")}},
		{Name: "20b one conversation", Hole: "20b", Wrong: "waits for itself",
			Configs: []Config{talking("a", optimistic, "pp", "Ea", "Ea"), talking("a", sequencer.Locked, "pp", "Ea", "Ra"),
				talking("a", optimistic, "ppq", "Ea", "Ga", "Ea")}},
	}
}
