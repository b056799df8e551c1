package explore

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// GateCareless names duties of whoever settles to leave undone, so that the explorer can show what each is for.
type GateCareless uint32

// The duties, with the row of the table of holes where there is one.
const (
	GateEarly   GateCareless = 1 << iota // a gated effect leaves with the seal instead of after the commit
	GateTimeout                          // 6: a call that was not answered counts as failed
	GateClaim                            // 4: a successor without the journal sends what it does not know to be sent
	GateMark                             // 4: the start of a call is written down after the call
	GateWait                             // 8b: a successor does not wait until the calls of the former owner are over
	GateLease                            // 8: a call starts although the lease may be over
	GateAdopt                            // 8: nobody adopts
	GateEnd                              // 13: a settlement goes on until it works
	GateJoin                             // 8c: after a join it waits for calls under way, not for the former lease
	GateKey                              // the key differs from incarnation to incarnation
	GateLog                              // a call is not in the log before it runs
	GateOrder                            // effects leave in any order
	GateClean                            // what is not known is called clean
	GateMaybe                            // a try of unknown outcome is forgotten when a later one surely did not leave
	GateStop                             // a settlement goes on although one effect did not get through
	GateOwners                           // 4b: a successor with the journal forgets that somebody settled in between
	GateConfirm                          // 8: a renewal counts before the view shows that it was confirmed
)

// GateOp is one operation of a program in the gate's world: OpRead, OpEffect or OpGated on one scope.
type GateOp struct {
	Kind  OpKind
	Scope int
	// Keyed: the sink takes a key, takes each key once, and refuses one that was compensated. One that takes keys and is
	// not declared to forbid them is settled like one without: nothing is sent to undo what is not known to be there.
	Keyed bool
}

// GateConfig is a configuration of the gate's world: two agents with one transaction each. The first one's sidecar may
// be there twice, the second one's settles what nobody owns.
type GateConfig struct {
	Name     string
	Programs [gateTxs][]GateOp
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
	Careless  GateCareless
	MaxStates int // zero: 20 million
}

// GateProgram reads a program of the gate's world: R reads, E runs an eager effect, G holds one for the commit; F and
// K are E and G whose sink takes a key. The scopes are a and b: "Ra Kb".
func GateProgram(text string) ([]GateOp, error) {
	kinds := map[byte]GateOp{'R': {Kind: OpRead}, 'E': {Kind: OpEffect}, 'F': {Kind: OpEffect, Keyed: true},
		'G': {Kind: OpGated}, 'K': {Kind: OpGated, Keyed: true}}
	var out []GateOp
	for _, word := range strings.Fields(text) {
		op, known := kinds[word[0]]
		if !known || len(word) != 2 || word[1] != 'a' && word[1] != 'b' {
			return nil, fmt.Errorf("explore: %q is no operation: write R, E, F, G or K, and a or b", word)
		}
		op.Scope = int(word[1] - 'a')
		out = append(out, op)
	}
	return out, nil
}

// gateConfig makes a configuration from two programs.
func gateConfig(first, second string, change func(*GateConfig)) GateConfig {
	cfg := GateConfig{Name: first + " | " + second}
	for i, text := range []string{first, second} {
		ops, err := GateProgram(text)
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

// RunGate walks every interleaving of a configuration of the gate's world, breadth first.
//
// Time is what it allows: a process may stop between any two steps, but a call that it made lands or is lost before
// the tool's maximum time is over, and it makes none once its lease, by its own clock, may be. So who waits for that
// time waits until no call of the others is under way and none of them may make one.
func RunGate(cfg GateConfig) Report {
	if cfg.MaxStates == 0 {
		cfg.MaxStates = defaultStates
	}
	return newGateSearch(cfg).run()
}

// gateScopes are the resources of the gate's world.
func gateScopes() [2]sequencer.Scope { return [...]sequencer.Scope{"res:/a", "res:/b"} }
