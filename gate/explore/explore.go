// Package explore walks every interleaving of small configurations of the gate: two agents' effects, sinks that answer
// late or not at all, processes that die, lose their lease or come twice. What a process does next about an effect it
// asks of gate.Next; decisions are the real fold's. What each call does is modelled, and the checks are made on that:
// nothing reaches a sink twice or without a decision, and what a settlement says of it is so.
package explore

import (
	"fmt"
	"strings"

	folds "github.com/hence-dev/hence/sequencer/explore"

	"github.com/hence-dev/hence/sequencer"
)

// Careless names settlement duties to leave undone, so that the explorer can show what each is for.
type Careless uint32

// The duties, with the row of the table of holes where there is one.
const (
	CarelessEarly   Careless = 1 << iota // a gated effect leaves with the seal instead of after the commit
	CarelessTimeout                      // 6: a call that was not answered counts as failed
	CarelessClaim                        // 4: a successor without the journal sends what it does not know to be sent
	CarelessMark                         // 4: the start of a call is written down after the call
	CarelessWait                         // 8b: a successor does not wait until the calls of the former owner are over
	CarelessLease                        // 8: a call starts although the lease may be over
	CarelessAdopt                        // 8: no process adopts
	CarelessEnd                          // 13: a settlement goes on until it works
	CarelessJoin                         // 8c: after a join it waits for calls under way, not for the former lease
	CarelessKey                          // the key differs from incarnation to incarnation
	CarelessLog                          // a call is not in the log before it runs
	CarelessOrder                        // effects leave in any order
	CarelessClean                        // what is not known is called clean
	CarelessMaybe                        // a try of unknown outcome is forgotten when a later one surely did not leave
	CarelessStop                         // a settlement goes on although one effect did not get through
	CarelessOwners                       // 4b: a successor with the journal forgets an owner in between
	CarelessConfirm                      // 8: a renewal counts before the view shows that it was confirmed
)

// OpKind is what one operation of a program does.
type OpKind uint8

// The operations.
const (
	OpRead   OpKind = iota + 1 // read a resource
	OpEffect                   // touch the scope, then run an eager effect on it
	OpGated                    // an effect released after the commit
)

// Op is one operation of a program in the gate's world: OpRead, OpEffect or OpGated on one scope.
type Op struct {
	Kind  OpKind
	Scope int
	// Keyed: the sink takes a key, takes each key once, and refuses one that was compensated. One that takes keys and is
	// not declared to forbid them is settled like one without: nothing is sent to undo what is not known to be there.
	Keyed bool
	Asks  bool // and says what became of a call under a key
}

// Config is a configuration of the gate's world: two agents with one transaction each. The first one's sidecar may
// be there twice, the second one's settles what has no owner.
type Config struct {
	Name     string
	Programs [gateTxs][]Op
	// Elsewhere starts the second incarnation on another machine, at any time and without the journal of the first,
	// which may be alive. Otherwise it starts where the first one was, holds its lock, and the first one is dead.
	Elsewhere bool
	Torn      bool // the journal that the second incarnation finds is not whole
	Crashes   int  // processes of the first agent that may die
	Lapses    bool // the first agent's lease may run out while the process lives
	Renews    bool // and it may ask the log once whether it still has one
	Leaves    bool // the second agent's lease may run out too, once its own transaction is over
	Down      bool // the sinks of the first agent's effects may go down for good
	Abort     bool // the first agent may give up at any time before the decision
	Careless  Careless
	Without   Steps
	MaxStates int // zero: 20 million
}

// Program reads a program of the gate's world: R reads, E runs an eager effect, G holds one for the commit; F and
// K are E and G whose sink takes a key, L and M the same where that can be looked up. The scopes are a and b: "Ra Kb".
func Program(text string) ([]Op, error) {
	kinds := map[byte]Op{'R': {Kind: OpRead}, 'E': {Kind: OpEffect}, 'F': {Kind: OpEffect, Keyed: true},
		'G': {Kind: OpGated}, 'K': {Kind: OpGated, Keyed: true},
		'L': {Kind: OpEffect, Keyed: true, Asks: true}, 'M': {Kind: OpGated, Keyed: true, Asks: true}}
	var out []Op
	for _, word := range strings.Fields(text) {
		op, known := kinds[word[0]]
		if !known || len(word) != 2 || word[1] != 'a' && word[1] != 'b' {
			return nil, fmt.Errorf("explore: %q is no operation: write R, E, F, L, G, K or M, and a or b", word)
		}
		op.Scope = int(word[1] - 'a')
		out = append(out, op)
	}
	return out, nil
}

// gateConfig makes a configuration from two programs.
func gateConfig(first, second string, change func(*Config)) Config {
	cfg := Config{Name: first + " | " + second}
	for i, text := range []string{first, second} {
		ops, err := Program(text)
		if err != nil {
			panic(err)
		}
		cfg.Programs[i] = ops
	}
	change(&cfg)
	for _, flag := range []struct {
		on   bool
		name string
	}{{cfg.Elsewhere, "elsewhere"}, {cfg.Torn, "torn"}, {cfg.Crashes > 0, fmt.Sprintf("%d crashes", cfg.Crashes)},
		{cfg.Lapses, "lapses"}, {cfg.Renews, "renews"}, {cfg.Leaves, "leaves"}, {cfg.Down, "down"}, {cfg.Abort, "abort"}} {
		if flag.on {
			cfg.Name += ", " + flag.name
		}
	}
	return cfg
}

// Run walks every interleaving of a configuration of the gate's world, breadth first.
//
// Time is what it allows: a process may stop between any two steps, but a call that it made lands or is lost before
// the tool's maximum time is over, and it makes none once its lease, by its own clock, may be. So who waits for that
// time waits until no call of the others is under way and none of them may make one.
func Run(cfg Config) folds.Report {
	if cfg.MaxStates == 0 {
		cfg.MaxStates = 20_000_000
	}
	return newSearch(cfg).run()
}

// gateScopes are the resources of the gate's world.
func gateScopes() [2]sequencer.Scope { return [...]sequencer.Scope{"res:/a", "res:/b"} }
