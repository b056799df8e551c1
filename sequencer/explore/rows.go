package explore

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// Row is one row of the table of holes: a rule of the fold or a duty of a sidecar, configurations that need it, and
// what goes wrong in them without it. A rule is missing in a binary that is built over a patch of sequencer/holes.
type Row struct {
	Name     string
	Hole     string // the patch that takes the rule out; empty: Careless
	Careless Careless
	Configs  []Config
	Wrong    string // a part of the violation
}

// Rows lists the rows that small worlds show.
func Rows() []Row {
	return slices.Concat(holdRows(), windowRows(), retractRows(), foreignRows(), floorRows(), switchRows(), talkRows())
}

// agents reads agents from their programs, all of one mode.
func agents(scopes string, mode sequencer.Mode, programs ...string) Config {
	cfg := Config{Scopes: Scopes(scopes)}
	for _, p := range programs {
		ops, err := Program(p, scopes)
		if err != nil {
			panic(err)
		}
		cfg.Agents = append(cfg.Agents, Agent{Mode: mode, Program: ops, Abort: true})
	}
	return cfg
}

// retrying lets every agent try again, and none give up.
func retrying(cfg Config, times int) Config {
	for i := range cfg.Agents {
		cfg.Agents[i].Retries, cfg.Agents[i].Abort = times, false
	}
	return cfg
}

// lockAfter lets agents that try for ever do so in mode locked after some refusals.
func lockAfter(refusals int, cfgs []Config) []Config {
	var out []Config
	for _, cfg := range cfgs {
		cfg.Agents = slices.Clone(cfg.Agents)
		cfg = retrying(cfg, -1)
		for i := range cfg.Agents {
			cfg.Agents[i].LockAfter = refusals
		}
		out = append(out, cfg)
	}
	return out
}

// holdRows are those about grants, claims and settlements.
func holdRows() []Row {
	optimistic, locked := sequencer.Optimistic, sequencer.Locked
	mixed := agents("as", optimistic, "Ga Ws", "Rs Ea")
	mixed.Agents[1].Mode, mixed.Agents[1].Retries = locked, 1
	mixed.Agents[0].Mode = locked
	return []Row{
		{Name: "1a", Hole: "1a", Wrong: "overwrites",
			Configs: []Config{agents("ab", optimistic, "Ea Eb", "Eb")}},
		{Name: "1b", Hole: "1b", Wrong: "overwrites",
			Configs: []Config{agents("ab", optimistic, "Ea", "Eab", "Eb")}},
		{Name: "1c", Hole: "1c", Wrong: "waits for ever",
			Configs: []Config{retrying(agents("ab", optimistic, "Ea Eb", "Eb"), 1),
				retrying(agents("ab", locked, "Ea Eb", "Eb"), 1)}},
		{Name: "1d", Careless: CarelessRetry, Wrong: "nobody commits",
			Configs: []Config{retrying(agents("abd", optimistic, "Ea Eb", "Eb Ed", "Ed Ea"), -1)}},
		{Name: "1e over an effect", Hole: "1e", Wrong: "overwrites",
			Configs: []Config{agents("as", optimistic, "Ea", "Ga Ws", "Es")}},
		{Name: "1e under a read", Hole: "1e", Wrong: "is stale", Configs: []Config{mixed}},
		{Name: "2 read", Hole: "2", Wrong: "commits on the value of T2",
			Configs: []Config{agents("ab", optimistic, "Ea Rb", "Eb")}},
		{Name: "2 gated", Hole: "2", Wrong: "overwrites",
			Configs: []Config{agents("ab", optimistic, "Ea Gb", "Eb")}},
		{Name: "3a", Hole: "3a", Wrong: "commits on the first value of res:/a",
			Configs: []Config{agents("ab", optimistic, "Ga", "Ra Gb")}},
		{Name: "3b", Careless: CarelessView, Wrong: "commits on the first value of res:/a",
			Configs: []Config{agents("ab", optimistic, "Ga", "Ra Gb")}},
		{Name: "5d", Careless: CarelessGrant, Wrong: "is stale",
			Configs: []Config{agents("as", locked, "Ws", "Rs Ea")}},
		{Name: "6", Careless: CarelessFlight, Wrong: "the world ends with",
			Configs: []Config{agents("ab", optimistic, "Ea")}},
		{Name: "7d", Hole: "7d", Wrong: "commits on the value of T1",
			Configs: []Config{retrying(agents("ab", locked, "Ra Ea", "Ra Gb"), 0)}},
	}
}

// windowRows are those about what the fold remembers: watermarks move the floor, the cap is small, and final
// transactions are forgotten at once.
func windowRows() []Row {
	optimistic, ordered := sequencer.Optimistic, sequencer.Ordered
	waiting := agents("as", optimistic, "Ea", "Ws", "Rs Ga")
	waiting.Agents[1].Beside = true
	return []Row{
		{Name: "5a", Hole: "5a", Wrong: "decided before",
			Configs: []Config{forgetful(agents("as", optimistic, "Ws", "Rs Ws"), 2, 1)}},
		{Name: "5b", Hole: "5b", Wrong: "commits on the first value of shard:/s",
			Configs: []Config{forgetful(waiting, 1, 0)}},
		{Name: "5c", Hole: "5c", Wrong: "commits on the first value of",
			Configs: []Config{forgetful(agents("as", optimistic, "Ra Rs", "Ga Ws"), 8, 0)}},
		{Name: "5e", Hole: "5e", Wrong: "commits on the first value of shard:/s",
			Configs: []Config{forgetful(agents("as", ordered, "Cs", "Ga Ws"), 1, 0)}},
	}
}

// forgetful gives a configuration watermarks, rules under which the fold soon forgets, and late copies of seals. The
// undo horizon is behind the head at once, as the commits of many others would have it.
func forgetful(cfg Config, keep sequencer.Seq, copies int) Config {
	rules := sequencer.DefaultRules()
	rules.Version, rules.HorizonSeqs, rules.CapSeqs = 1, 0, keep
	cfg.Rules, cfg.Watermarks, cfg.Duplicates = &rules, true, copies
	cfg.Behind = true
	return cfg
}
