package explore

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// Program reads a program from its short form: words of an operation and the scopes that it concerns, one letter each.
// R reads, E touches and runs an eager effect, G is a gated effect, W writes a shard, C writes it if it still has the
// version that it had then. The letters are those of scopes: "Ra Eab Ws" over "abs".
func Program(text, scopes string) ([]Op, error) {
	var out []Op
	kinds := map[byte]OpKind{'R': OpRead, 'E': OpEffect, 'G': OpGated, 'W': OpWrite, 'C': OpSwap}
	for _, word := range strings.Fields(text) {
		op := Op{Kind: kinds[word[0]]}
		for _, letter := range word[1:] {
			op.Scopes = append(op.Scopes, strings.IndexRune(scopes, letter))
		}
		switch {
		case op.Kind == 0 || len(op.Scopes) == 0 || len(op.Scopes) > 1 && op.Kind != OpEffect:
			return nil, fmt.Errorf("explore: %q is no operation: write R, E, G, W or C and a scope, for E also several", word)
		case strings.ContainsFunc(word[1:], func(r rune) bool { return !strings.ContainsRune(scopes, r) }):
			return nil, fmt.Errorf("explore: %q names a scope that is not one of %q", word, scopes)
		}
		out = append(out, op)
	}
	return out, nil
}

// Scopes makes the scopes of the letters: s, t and u are shards, the others resources of the world; c lies below a,
// and x stands for everything at c's place, so that a, c and x are one resource.
func Scopes(letters string) []sequencer.Scope {
	var out []sequencer.Scope
	for _, r := range letters {
		kind := "res"
		if strings.ContainsRune("stu", r) {
			kind = "shard"
		}
		path := map[rune]string{'c': "a/c", 'x': "*/c"}[r]
		if path == "" {
			path = string(r)
		}
		out = append(out, sequencer.Scope(kind+":/"+path))
	}
	return out
}

// Family is a set of programs over the same two scopes.
type Family struct {
	Scopes   string // the letters of Scopes
	Programs []string
}

// Pairs are the families whose pairs of programs are walked in every mix of modes.
func Pairs() []Family {
	return []Family{
		{"ab", []string{"Ea Eb", "Eb Ea", "Eab", "Ra Eb", "Rb Ea", "Ea Rb", "Ra Gb", "Rb Ga", "Ea Gb", "Ra Rb", "Ga Gb",
			"Ra Ea Gb"}},
		{"as", []string{"Ea Ws", "Es Ea", "Ea Es", "Ra Ws", "Rs Ea", "Rs Ga", "Ra Rs Ws", "Ea Rs", "Ga Ws", "Rs Cs Ra",
			"Ra Es", "Ws"}},
		{"st", []string{"Rs Wt", "Rt Ws", "Rs Rt", "Rs Ws Wt", "Cs Rt", "Es Wt", "Ws Wt"}},
		{"acx", []string{"Ea Ec", "Ec Ea", "Ex Ec", "Ra Ec", "Rx Ea", "Ec Rx", "Rc Ga", "Gx"}},
	}
}

// Triples are the families whose triples of programs are walked in mode optimistic.
func Triples() []Family {
	return []Family{
		{"as", []string{"Ea Ws", "Es Ea", "Ea Rs", "Ra Ws", "Rs Ea", "Rs Ga", "Ra Es", "Ga Ws", "Ra Rs"}},
		{"st", []string{"Rs Wt", "Rt Ws", "Rs Rt", "Cs Wt", "Es Wt", "Es Et"}},
	}
}

// order is a way to run a transaction: a mode, and whether it declares its scopes.
type order struct {
	mode sequencer.Mode
	may  bool
}

func (o order) String() string {
	if o.may {
		return o.mode.String() + " with may"
	}
	return o.mode.String()
}

// orders are all of them.
func orders() []order {
	return []order{{mode: sequencer.Optimistic}, {mode: sequencer.Ordered}, {sequencer.Ordered, true},
		{mode: sequencer.Locked}}
}

// PairConfigs lists the configurations of two agents: every pair of programs of a family in every mix of modes, each
// agent free to give up at any time before the decision, and with one successor after a refusal.
func PairConfigs() []Config {
	var out []Config
	for _, f := range Pairs() {
		n := len(f.Programs) * len(orders())
		for i := range n {
			for j := range i + 1 {
				a, b := orders()[i%len(orders())], orders()[j%len(orders())]
				out = append(out, f.config([]int{i / len(orders()), j / len(orders())}, []order{a, b}))
			}
		}
	}
	return out
}

// TripleConfigs lists the configurations of three agents in mode optimistic: every triple of programs of a family.
func TripleConfigs() []Config {
	var out []Config
	same := []order{{}, {}, {}}
	for _, f := range Triples() {
		for i := range f.Programs {
			for j := range i + 1 {
				for k := range j + 1 {
					out = append(out, f.config([]int{i, j, k}, same))
				}
			}
		}
	}
	return out
}

// MixedConfigs lists the configurations of three agents in every mix of modes but the one of TripleConfigs, over fewer
// programs, without successors.
func MixedConfigs() []Config {
	var out []Config
	for _, f := range []Family{
		{"as", []string{"Ea Ws", "Es Ea", "Ra Rs", "Ra Ws", "Rs Ea", "Ga Ws"}},
		{"ab", []string{"Ea Eb", "Eb Ea", "Ra Eb", "Ea Rb", "Ra Gb"}},
	} {
		p, o := len(f.Programs), orders()
		for i := p; i < p*len(o); i++ { // the orders in turn, optimistic first
			for j := range i + 1 {
				for k := range j + 1 {
					cfg := f.config([]int{i % p, j % p, k % p}, []order{o[i/p], o[j/p], o[k/p]})
					for who := range cfg.Agents {
						cfg.Agents[who].Retries = 0
					}
					out = append(out, cfg)
				}
			}
		}
	}
	return out
}

// ForgetConfigs lists configurations of two agents with watermarks, a small cap, late copies, and no undo horizon or
// one of a single commit.
func ForgetConfigs() []Config {
	var out []Config
	f := Family{"as", []string{"Ws", "Rs Ws", "Cs", "Ga Ws", "Ra Rs", "Ea Ws", "Rs Ga"}}
	for i := range f.Programs {
		for j := range i + 1 {
			for _, mode := range []sequencer.Mode{sequencer.Optimistic, sequencer.Ordered} {
				for _, keep := range []sequencer.Seq{1, 3} {
					cfg := f.config([]int{i, j}, []order{{mode, false}, {sequencer.Optimistic, false}})
					cfg.Agents[0].Abort, cfg.Agents[0].Retries, cfg.Agents[1].Retries = false, 0, 0
					cfg.Name += fmt.Sprintf(", cap %d", keep)
					cfg = forgetful(cfg, keep, 1)
					if (i+j)%2 == 1 { // the horizon as it is: what is committed stays longer than the rest
						cfg.Behind = false
						cfg.Rules.HorizonCommits = 1
					}
					out = append(out, cfg)
				}
			}
		}
	}
	return out
}

// CrashConfigs lists configurations of two agents whose sidecars start again, each once, with a hook on one of them.
func CrashConfigs() []Config {
	return lifeConfigs([]string{"Ea Ws", "Rs Ea", "Ga Ws", "Es Ea", "Ra Rs"}, func(cfg *Config) {
		cfg.Agents[0].Crashes, cfg.Agents[1].Crashes, cfg.Agents[1].Hook = 1, 1, true
		cfg.Agents[0].Leaks = true
		cfg.Name += ", crashes"
	})
}

// TickConfigs lists configurations of two agents with a hook whose touches, verdicts and transactions expire.
func TickConfigs() []Config {
	rules := sequencer.DefaultRules()
	rules.Version, rules.BoundTicks, rules.VerdictTicks, rules.DeadlineTicks = 1, 1, 1, 2
	return lifeConfigs([]string{"Ea Ws", "Rs Ea", "Ga Ws", "Es Ea"}, func(cfg *Config) {
		cfg.Rules, cfg.Ticks, cfg.Agents[1].Hook = &rules, 2, true
		cfg.Agents[0].Retries, cfg.Agents[1].Retries, cfg.Agents[0].Abort, cfg.Agents[1].Abort = 0, 0, false, false
		cfg.Name += ", ticks"
	})
}

// BranchConfigs lists configurations of two branches of one group, one of which is chosen at some time, and a third
// transaction beside them.
func BranchConfigs() []Config {
	return lifeConfigs([]string{"Ea Ws", "Rs Ea", "Ga Ws", "Es Ea", "Ra Rs"}, func(cfg *Config) {
		third := agents("as", sequencer.Optimistic, "Ra Es").Agents[0]
		third.Abort = false
		cfg.Agents[0].Branch, cfg.Agents[1].Branch = true, true
		cfg.Agents = append(cfg.Agents, third)
		cfg.Name += ", branches beside Ra Es"
	})
}

// lifeConfigs lists ordered pairs of programs in mixes of modes, each changed as it is told.
func lifeConfigs(programs []string, change func(*Config)) []Config {
	var out []Config
	f, o := Family{"as", programs}, orders()
	for i := range len(programs) * len(o) {
		for j := range len(programs) * len(o) {
			cfg := f.config([]int{i / len(o), j / len(o)}, []order{o[i%len(o)], o[j%len(o)]})
			change(&cfg)
			out = append(out, cfg)
		}
	}
	return out
}

func (f Family) config(programs []int, orders []order) Config {
	cfg := Config{Scopes: Scopes(f.Scopes)}
	var names []string
	for i, p := range programs {
		ops, err := Program(f.Programs[p], f.Scopes)
		if err != nil {
			panic(err)
		}
		cfg.Agents = append(cfg.Agents,
			Agent{Mode: orders[i].mode, May: orders[i].may, Program: ops, Retries: 1, Abort: true})
		names = append(names, orders[i].String()+" "+f.Programs[p])
	}
	cfg.Name = strings.Join(names, " | ")
	return cfg
}
