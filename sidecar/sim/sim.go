// Package sim runs the fold in a small world of faults: one goroutine, one seed, one hash out.
//
// A schedule has a log whose producers lose and repeat records, processors that crash, restart from their last written
// state and run beside each other, a delivery that loses, doubles and reorders, and sidecars that read, touch, seal
// and settle against resources whose values, undo images and calls in flight are modelled. After every record the
// invariants of the package's Checks section hold or the run ends with an error; at the end all faults stop, and
// everything must come to rest.
//
// # Checks
//
// Every processor and every view agrees with a fold that reads the log directly, by chain hash at every seq and by
// state hash, and so does a replay of the whole log. Seq is contiguous, floor and time never go back, no transaction
// is decided twice or commits after its agent was told that it came to nothing, no hold is given to two owners, and
// no wait is for nothing. Each committed read saw what the commits before it had left; nothing ran without a grant,
// left without a commit, or landed after its transaction was final; each sink saw each effect once, and what a
// settlement says of it is so; what was retracted is gone, its shards are as if it had never been, and nothing stands
// on it; and the resources end as the committed transactions leave them, but for what the log names as residue.
//
// While a workspace observes nothing is promised of values; from the switch to enforcing on, what a resource holds
// that nothing unsettled has is the ground, and what is enforced builds on that, on what was committed, or on what is
// named. An outcome moves only what is its transaction's own, a plan commits on no tool that its sidecar's registry
// could not keep, and no more sidecars live than the rules allow. Of calls side by side, what moves the same runs in
// the order of their plan, what is held leaves in it, and what was passed or is absent in the footprint never runs.
//
// # Real agents
//
// Run drives a model of a sidecar. RunReal drives the agents themselves, with their views, journals, loops and gates,
// in the virtual time of testing/synctest, under the same judge: brokers, disks, sinks, clocks and what agents ask for
// are the world's. DESIGN.md lists what it does, and what the model is still for. Its seeds mostly repeat, not always:
// within one instant Go picks what runs.
package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// Options of a run. The zero value is what tests and the command line use.
type Options struct {
	Steps int // length of the phase with faults; zero: 320
	// Harm leaves it to what others suffer to show a settlement that is no write of all that may have changed.
	Harm bool
	// Careless names duties of sidecars to leave undone: the run is then expected to fail.
	Careless Careless

	Trace   bool     // RunReal: keep the last events also of a run that may hold
	Strikes []Strike // RunReal: the operations that are struck
	Clean   bool     // RunReal: no other faults than the strikes
	Mute    []string // RunReal: faults and wishes that are left out, see Knobs
}

// Careless names settlement duties to leave undone.
type Careless uint8

// The duties, with the row of the table of holes where there is one.
const (
	CarelessClaim Careless = 1 << iota // 4: a stranger sends what it does not know to be sent, also without a key
	CarelessLease                      // 8: a watermark that was acknowledged counts before the view has shown it
	CarelessWait                       // 8b: a new owner does not wait for calls under way
	CarelessJoin                       // 8c: nor, after a join, for the lease of the one before
	CarelessMaybe                      // 13b: a try of unknown outcome is forgotten when a later one surely did not leave
	CarelessStop                       // 13c: a settlement goes on although one effect did not get through
)

// Report is what a run came to. Two runs with the same seed and options have equal reports.
type Report struct {
	Seed    uint64                 // of the schedule
	Hash    sequencer.Hash         // over the log's outcomes, the final state and the final world
	Steps   int                    // with and without faults
	Records int                    // of the log
	Commits int                    // transactions
	Aborts  map[sequencer.Code]int // transactions by reason
	Probes  map[Probe]int          // how often each rare branch was reached
	Faults  int                    // that landed
	Hits    map[hit]int            // of real agents: the same by kind
	Ops     int                    // of real agents: passages through doors while there were faults
	Struck  []string               // of real agents: how and where the strikes landed
	Void    bool                   // too little happened for the run to say anything
}

func newReport(seed uint64) Report {
	return Report{Seed: seed, Aborts: map[sequencer.Code]int{}, Probes: map[Probe]int{}, Hits: map[hit]int{}}
}

// Violation is the error of a run that broke an invariant.
type Violation struct {
	Seed  uint64   // repeats the run
	Opts  Options  // of the run
	Step  int      // at which the invariant was found broken
	What  string   // the invariant and who broke it
	Trace []string // the last events before it
	Real  bool     // it is of a schedule of real agents
}

// Error gives the violation, how to repeat it, and the trace.
func (v *Violation) Error() string {
	how := fmt.Sprintf("hence sim --seed %d, or go test ./sidecar/sim -run TestSeed -seed %d", v.Seed, v.Seed)
	if v.Real {
		how = v.Opts.command(v.Seed)
	}
	return fmt.Sprintf("sim: seed %d, step %d: %s\nrepeat it: %s\n%s", v.Seed, v.Step, v.What, how,
		strings.Join(v.Trace, "\n"))
}

// Run runs one schedule. The error is a *Violation.
func Run(seed uint64, opts Options) (Report, error) {
	r := newRun(seed, opts)
	r.all()
	if r.failed == "" {
		return r.report, nil
	}
	again := newRun(seed, opts)
	again.tracing = true
	again.all()
	return again.report, &Violation{Seed: seed, Step: again.now, What: again.failed, Trace: again.trace}
}

// Summary adds up the reports of a batch.
type Summary struct {
	Schedules int
	Voids     int
	Steps     int
	Records   int
	Commits   int
	Faults    int
	Ops       int
	Base, At  int // of a sweep: the schedule that is being struck, and how many of its cases are done
	Swept     int // schedules of real agents of which each operation was struck
	Hits      map[hit]int
	Aborts    map[sequencer.Code]int
	Probes    map[Probe]int
}

// Batch runs n schedules with the seeds from, from+1, ... and stops at the first violation.
func Batch(from uint64, n int, opts Options) (Summary, error) {
	sum := newSummary()
	for i := range n {
		rep, err := Run(from+uint64(i), opts)
		sum.add(rep)
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func (s *Summary) add(rep Report) {
	s.Schedules++
	s.Steps += rep.Steps
	s.Records += rep.Records
	s.Commits += rep.Commits
	s.Faults += rep.Faults
	s.Ops += rep.Ops
	for h, n := range rep.Hits {
		s.Hits[h] += n
	}
	if rep.Void {
		s.Voids++
	}
	for code, n := range rep.Aborts {
		s.Aborts[code] += n
	}
	for p, n := range rep.Probes {
		s.Probes[p] += n
	}
}

// Missing lists the probes that no schedule of the batch has reached.
func (s *Summary) Missing() []Probe {
	return slices.DeleteFunc(AllProbes(), func(p Probe) bool { return s.Probes[p] > 0 })
}

// String is the table that the command line prints.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "schedules %d (void %d), steps %d, records %d, commits %d, faults landed %d\n",
		s.Schedules, s.Voids, s.Steps, s.Records, s.Commits, s.Faults)
	for _, code := range slices.Sorted(maps.Keys(s.Aborts)) {
		fmt.Fprintf(&b, "  aborted %-22s %d\n", code, s.Aborts[code])
	}
	for _, p := range AllProbes() {
		fmt.Fprintf(&b, "  probe   %-22s %d\n", p, s.Probes[p])
	}
	return b.String()
}

// missing lists the faults and rare branches of real agents that no schedule of the batch has reached.
func (s *Summary) missing() (all []string) {
	for _, h := range allHits() {
		if s.Hits[h] == 0 {
			all = append(all, string(h))
		}
	}
	for _, p := range realProbes() {
		if s.Probes[p] == 0 && !slices.Contains(seldom(), p) {
			all = append(all, string(p))
		}
	}
	return all
}

// real is the table of a batch of real agents.
func (s *Summary) real() string {
	var b strings.Builder
	fmt.Fprintf(&b, "schedules %d (void %d), steps %d, records %d, commits %d, operations %d, faults landed %d\n",
		s.Schedules, s.Voids, s.Steps, s.Records, s.Commits, s.Ops, s.Faults)
	for _, code := range slices.Sorted(maps.Keys(s.Aborts)) {
		fmt.Fprintf(&b, "  aborted %-22s %d\n", code, s.Aborts[code])
	}
	for _, h := range allHits() {
		fmt.Fprintf(&b, "  fault   %-22s %d\n", h, s.Hits[h])
	}
	for _, p := range realProbes() {
		fmt.Fprintf(&b, "  probe   %-22s %d\n", p, s.Probes[p])
	}
	return b.String()
}

func newSummary() Summary {
	return Summary{Aborts: map[sequencer.Code]int{}, Probes: map[Probe]int{}, Hits: map[hit]int{}}
}

// merge adds another summary.
func (s *Summary) merge(o *Summary) {
	s.Schedules += o.Schedules
	s.Voids += o.Voids
	s.Steps += o.Steps
	s.Records += o.Records
	s.Commits += o.Commits
	s.Faults += o.Faults
	s.Ops += o.Ops
	s.Swept += o.Swept
	for code, n := range o.Aborts {
		s.Aborts[code] += n
	}
	for p, n := range o.Probes {
		s.Probes[p] += n
	}
	for h, n := range o.Hits {
		s.Hits[h] += n
	}
}
