package explore

import "github.com/hence-dev/hence/sequencer"

// RetractConfigs lists configurations of three agents on two scopes, one of which is retracted at any time after its
// commit, and in some a second one. Chains, overwriters, readers and live holders are among their interleavings.
func RetractConfigs() []Config {
	var out []Config
	for _, f := range []Family{
		{"ab", []string{"Ea", "Ea Eb", "Eb Ea", "Ra Eb", "Rb Ea", "Ga", "Ra Gb", "Ra Ea"}},
		{"as", []string{"Ws", "Ea Ws", "Rs Ea", "Ra Ws", "Rs Ws", "Ga Ws", "Cs"}},
	} {
		for i := range f.Programs {
			for j := range f.Programs {
				for k := range j + 1 {
					for _, o := range orders() {
						out = append(out, f.retracted(i, j, k, o))
					}
				}
			}
		}
	}
	return out
}

// retracted makes a configuration of which the first transaction may be retracted, and the third runs in some order.
func (f Family) retracted(i, j, k int, third order) Config {
	cfg := f.config([]int{i, j, k}, []order{{}, {}, third})
	for who := range cfg.Agents {
		cfg.Agents[who].Retries, cfg.Agents[who].Abort = who/2, who == 1
	}
	cfg.Agents[0].Retract = true
	cfg.Name += ", the first is retracted"
	return cfg
}

// RetractTwice lists configurations of two agents whose transactions may both be retracted, beside a third; what has
// to be compensated may also be given up.
func RetractTwice() []Config {
	var out []Config
	for i, cfg := range RetractConfigs() {
		if i%5 != 0 {
			continue
		}
		cfg.Agents[1].Retract, cfg.Agents[1].Abort, cfg.Agents[0].Leaks = true, false, i%2 == 0
		cfg.Name += ", and the second"
		out = append(out, cfg)
	}
	return out
}

// retractRows are those about retraction.
func retractRows() []Row {
	first := func(scopes string, programs ...string) []Config {
		cfg := agents(scopes, sequencer.Optimistic, programs...)
		cfg.Agents[0].Retract = true
		for who := range cfg.Agents {
			cfg.Agents[who].Abort = who == len(cfg.Agents)-1
		}
		return []Config{cfg}
	}
	return []Row{
		{Name: "7a", Hole: "7a", Configs: first("ab", "Ea", "Ea"),
			Wrong: "over a value that is not its own"},
		{Name: "7b", Hole: "7b", Configs: first("ab", "Ea", "Ea"), Wrong: "overwrites"},
		{Name: "7c", Hole: "7c", Configs: first("ab", "Ea", "Ea"), Wrong: "overwrites"},
		{Name: "7e most recent first", Hole: "7e", Configs: first("ab", "Ea", "Ea"),
			Wrong: "over a value that is not its own"},
		{Name: "22b", Hole: "22b", Configs: first("as", "Ws", "Ws"),
			Wrong: "without the cone it is"},
	}
}
