package sim

import "github.com/hence-dev/hence/sequencer"

// swarm is what one schedule draws: which faults it has at all and how often, and what its agents like to do.
// Schedules that lack most faults reach states that schedules with all of them never do.
type swarm struct {
	cars, procs int

	lose, ackLost, lateDup, stall float64 // wire: per record and try
	crash, pause                  float64 // processors: per step
	stateEvery                    int     // records between two written states
	ackLag                        int     // steps until the decision topic acknowledges
	natsLose, natsDup             float64 // per message
	natsLag                       int     // steps, at most
	carCrash, carPause            float64 // sidecars: per step
	deaf                          float64 // sidecars: per step
	dieForGood, journalLost       float64 // per crash
	callLost, callMute, callFail  float64 // calls: never lands, never answers, is refused by the tool
	sinkDown, twin                float64 // per step
	retract                       float64 // sidecars: per step
	logic                         uint32  // of the workspace's rules
	poison                        float64 // per step

	modes                          [3]int  // weights
	read, touch, gated, write      int     // weights of operations
	wide, expect, unkeyed, lookup  float64 // per operation
	levels, observe, may, group    float64 // per program
	hook, veto, pins, readFrom     float64
	sloppy, quit, pest             float64
	twoLanes, registry, rulesTurns float64
	watch                          bool // the whole workspace comes to observe, or observes from the start
	full                           bool // catalogues are so large that some find no room
	rules                          sequencer.Rules
}

func (r *run) draw() swarm {
	some := func(limit float64) float64 {
		if r.chance(0.4) {
			return 0
		}
		return limit * r.rng.Float64()
	}
	s := swarm{
		cars: 2 + r.n(3), procs: 1 + r.n(3),
		lose: some(0.2), ackLost: some(0.15), lateDup: some(0.1), stall: some(0.5),
		crash: some(0.03), pause: some(0.03), stateEvery: 1 + r.n(4) + r.n(40), ackLag: r.n(15),
		natsLose: some(0.3), natsDup: some(0.2), natsLag: r.n(8),
		carCrash: some(0.012), carPause: some(0.012), deaf: some(0.01),
		dieForGood: some(0.5), journalLost: some(0.4),
		callLost: some(0.15), callMute: some(0.2), callFail: some(0.1), sinkDown: some(0.02), twin: some(0.01),
		retract: some(0.03), logic: [...]uint32{1, 2, 3, 3, 3, 3}[r.n(6)],
		poison: some(0.02),
		modes:  [3]int{r.n(4), r.n(3), r.n(3)},
		read:   1 + r.n(5), touch: r.n(5), gated: r.n(4), write: 1 + r.n(4),
		wide: some(0.3), expect: some(0.8), unkeyed: some(0.8), lookup: some(1),
		levels: some(0.3), observe: some(0.1), may: some(0.7), group: some(0.4),
		hook: some(0.4), veto: some(0.4), pins: some(0.4), readFrom: some(0.6),
		sloppy: some(0.08), quit: some(0.06), pest: some(0.06),
		twoLanes: some(1), registry: some(0.03), rulesTurns: some(0.01), watch: r.chance(0.12), full: r.chance(0.3),
	}
	if s.watch {
		s.rulesTurns = 0.005 + 0.02*r.rng.Float64()
	}
	if s.modes == [3]int{} {
		s.modes[r.n(3)] = 1
	}
	s.rules = r.drawRules(1)
	s.rules.Logic = s.logic
	s.rules.Observe = s.watch && r.chance(0.5)
	return s
}

// drawRules draws rules whose bounds are short enough to be met within a schedule.
func (r *run) drawRules(version uint32) sequencer.Rules {
	rules := sequencer.DefaultRules()
	rules.Version = version
	rules.HorizonSeqs = sequencer.Seq(5 + r.n(60))
	rules.HorizonCommits, rules.HorizonTicks = uint32(rules.HorizonSeqs/4), 20+6*sequencer.Tick(rules.HorizonSeqs)
	if rules.HorizonSeqs%2 == 0 {
		rules.HorizonCommits, rules.HorizonTicks = 1, 4+sequencer.Tick(rules.HorizonSeqs/4) // the window is soon forgotten
	}
	rules.CapSeqs = sequencer.Seq(10 + r.n(150))
	if r.chance(0.3) {
		rules.CapSeqs = sequencer.Seq(4 + r.n(12)) // an idle transaction soon rests on what is forgotten
	}
	rules.LeaseTicks = sequencer.Tick(18 + r.n(16))
	rules.DeadlineTicks = sequencer.Tick(15 + r.n(60))
	rules.BoundTicks = sequencer.Tick(4 + r.n(20))
	rules.VerdictTicks = sequencer.Tick(4 + r.n(10))
	if r.chance(0.1) {
		rules.MaxOpen = uint32(2 + r.n(4))
	}
	if r.chance(0.2) {
		rules.MaxBytes, rules.MaxInlineTotal, rules.MaxInline = 1<<10, 1<<9, 1<<8
		rules.MaxKept = uint32(2*(rules.MaxBytes+rules.MaxInlineTotal)) + uint32(r.n(4<<10))
	}
	if r.chance(0.2) {
		rules.MaxSidecars = uint32(2 + r.n(3))
	}
	return rules
}

// calm ends all faults and all that makes an agent fail on its own account.
func (s *swarm) calm() {
	*s = swarm{cars: s.cars, procs: s.procs, stateEvery: s.stateEvery, ackLag: 1, natsLag: 1, lookup: 1,
		modes: s.modes, read: s.read, touch: s.touch, gated: s.gated, write: s.write, wide: s.wide, expect: s.expect,
		unkeyed: s.unkeyed, logic: s.logic, may: s.may, twoLanes: 0, rules: s.rules}
}
