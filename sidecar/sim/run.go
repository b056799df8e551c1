package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"

	"github.com/hence-dev/hence/sequencer"
)

// The bounds of a run. One step is the unit of the simulated clock.
const (
	defaultSteps = 300
	healSteps    = 3000 // all must have come to rest by then
	minCommits   = 3    // with faults: fewer make the run void
	tickSteps    = 2    // the length of one tick on a processor's clock
	maxCallSteps = 5    // a tool's maximum time
	lastPrograms = 5    // that each client must get done after the faults
	traceLines   = 4000
	hashEvery    = 32 // records between two comparisons of state hashes
)

// run is one schedule.
type run struct {
	seed    uint64
	opts    Options
	rng     *rand.Rand
	swarm   swarm
	now     int
	healing bool

	truth *truth
	wire  wire
	procs []*processor
	topic []*sequencer.Outcome // the decision topic, by seq; nil: not durable yet
	world world
	cars  []*sidecar

	attempts map[sequencer.TxID]*attempt // what really happened, hidden from the actors
	keys     int                         // business keys given out
	report   Report
	failed   string
	tracing  bool
	real     bool       // real agents, some of whose tools have no compensation
	over     bool       // nothing is traced any more; guarded by traceMu
	traceMu  sync.Mutex // log lines of real agents come while the judge is at work
	trace    []string
}

func newRun(seed uint64, opts Options) *run {
	if opts.Steps <= 0 {
		opts.Steps = defaultSteps
	}
	r := &run{seed: seed, opts: opts, rng: rand.New(rand.NewPCG(seed, 0x68656e6365)),
		attempts: map[sequencer.TxID]*attempt{}}
	r.report = newReport(seed)
	r.swarm = r.draw()
	r.truth = newTruth(r)
	r.world = newWorld(r)
	for i := range r.swarm.procs {
		r.procs = append(r.procs, newProcessor(r, i))
	}
	for i := range r.swarm.cars {
		r.cars = append(r.cars, newSidecar(r, i))
	}
	return r
}

func (r *run) n(limit int) int { return r.rng.IntN(limit) }

func (r *run) chance(p float64) bool { return p > 0 && r.rng.Float64() < p }

func (r *run) careless(c Careless) bool { return r.opts.Careless&c != 0 }

func (r *run) probe(p Probe) { r.report.Probes[p]++ }

func (r *run) fault() { r.report.Faults++ }

// fail ends the run: the first violation counts.
func (r *run) fail(format string, args ...any) {
	if r.failed != "" {
		return
	}
	r.failed = fmt.Sprintf(format, args...)
	r.traceMu.Lock()
	defer r.traceMu.Unlock()
	r.over = true // what comes after it explains nothing
}

func (r *run) note(format string, args ...any) {
	if !r.tracing {
		return
	}
	r.noteAt(r.now, fmt.Sprintf(format, args...))
}

func (r *run) noteAt(step int, text string) {
	r.traceMu.Lock()
	defer r.traceMu.Unlock()
	if r.over {
		return
	}
	if len(r.trace) == traceLines {
		r.trace = r.trace[1:]
	}
	r.trace = append(r.trace, fmt.Sprintf("%4d %s", step, text))
}

// all runs the phase with faults, then the one without, and what is checked at the end.
func (r *run) all() {
	defer func() {
		if p := recover(); p != nil {
			r.fail("panic: %v", p)
			if r.tracing {
				r.trace = append(r.trace, string(debug.Stack()))
			}
		}
	}()
	rules := r.swarm.rules
	r.append(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
	for r.now < r.opts.Steps && r.failed == "" {
		r.step()
	}
	r.report.Void = r.report.Commits < minCommits
	r.heal()
	r.finish()
}

func (r *run) step() {
	r.now++
	r.inject()
	r.move()
	r.wire.step(r)
	for _, p := range r.procs {
		p.step()
	}
	r.world.step()
	first := r.n(len(r.cars))
	for i := range r.cars {
		r.cars[(first+i)%len(r.cars)].act()
	}
}

// inject makes what happens to no actor in particular: records that cannot be read, and new rules.
func (r *run) inject() {
	if r.chance(r.swarm.poison) {
		r.fault()
		r.probe(ProbePoison)
		r.append(nil)
	}
	if !r.chance(r.swarm.rulesTurns) {
		return
	}
	next := r.truth.rules.Version + 1
	if r.chance(0.1) {
		next++
	}
	rules := r.drawRules(next)
	rules.Logic = r.swarm.logic
	rules.LeaseTicks = r.swarm.rules.LeaseTicks // a sidecar counts on the lease that it was given
	rules.Observe = r.swarm.watch && r.chance(0.5)
	if r.chance(0.3) {
		rules.Levels = sequencer.Levels(r.n(int(sequencer.L4) + 1))
	}
	r.append(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
}

// append puts a record into the log, where what it means is settled at once; the processors only come to know later.
func (r *run) append(in *sequencer.Intent) {
	if r.failed == "" {
		r.truth.apply(in)
	}
}

// heal ends all faults and waits until everything has come to rest.
func (r *run) heal() {
	r.healing = true
	r.swarm.calm()
	r.note("-- heal --")
	r.wire.hurry(r.now)
	for _, c := range r.cars {
		c.heal()
	}
	for _, p := range r.procs {
		p.heal()
	}
	// As at the start, without caps that refuse honest work, and without deadlines that are shorter than the queue of
	// those who all want the same scope.
	rules := r.swarm.rules
	rules.DeadlineTicks, rules.BoundTicks = 600, 600
	rules.Observe, rules.MaxSidecars = false, 0
	rules.Version, rules.CapSeqs = r.truth.rules.Version+1, 4096
	rules.MaxOpen, rules.MaxKept, rules.MaxBytes = 1000, 640<<10, 4<<10
	r.append(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
	for end := r.now + healSteps; r.failed == "" && !r.atRest(); {
		if r.now == end {
			r.fail("not at rest %d steps after the last fault: %s", healSteps, r.unrest())
			return
		}
		r.step()
	}
}

func (r *run) atRest() bool { return r.unrest() == "" }

// unrest names what is not done yet; empty: nothing.
func (r *run) unrest() string {
	for _, c := range r.cars {
		if !c.deadForGood && !c.ghost && c.done < lastPrograms {
			return fmt.Sprintf("client %s has committed %d of its last %d programs", c.agent, c.done, lastPrograms)
		}
	}
	for _, info := range r.truth.list {
		if info.decision == 0 {
			return fmt.Sprintf("%s is not decided", info.id)
		}
		if !info.over() {
			return fmt.Sprintf("%s is decided at %d and not final", info.id, info.decision)
		}
	}
	if !r.wire.empty() {
		return "records are on their way"
	}
	if id := r.truth.pending(); id != "" {
		return fmt.Sprintf("%s is pending", id)
	}
	for _, p := range r.procs {
		if p.next < int64(len(r.truth.log)) {
			return fmt.Sprintf("processor %d has read %d of %d records", p.id, p.next, len(r.truth.log))
		}
	}
	return ""
}

// finish makes the checks that need the whole history, and the hash.
func (r *run) finish() {
	r.report.Steps, r.report.Records = r.now, len(r.truth.log)
	if r.failed != "" {
		return
	}
	r.truth.checkReplay()
	r.truth.checkCycles()
	r.truth.checkRetracted()
	r.world.checkEnd()
	state := r.truth.fold.StateHash()
	for _, p := range r.procs {
		if h := p.m.Fold().StateHash(); h != state {
			r.fail("processor %d ends with another state", p.id)
		}
	}
	sum := sha256.New()
	sum.Write(r.truth.chain[:])
	sum.Write(state[:])
	var b []byte
	for _, v := range r.world.value {
		b = binary.AppendUvarint(b, uint64(v))
	}
	for _, v := range []int{r.now, r.report.Faults, r.report.Commits, len(r.truth.log), int(r.rng.Uint32())} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	sum.Write(b)
	sum.Sum(r.report.Hash[:0])
}
