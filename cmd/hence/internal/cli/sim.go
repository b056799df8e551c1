package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/demo"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/sim"
)

const (
	maxSchedules    = 10_000_000
	maxSteps        = 1_000_000
	shownViolations = 5
)

// simCmd is the configuration of "hence sim".
type simCmd struct {
	output
	Seed      uint64 `default:"1" help:"Seed of the first schedule; the following seeds are used for the next ones."`
	Schedules uint64 `default:"1" help:"Number of schedules to run."`
	Steps     int    `default:"0" help:"Length of a schedule's phase with faults; 0 is the default."`
}

// Help is what "hence sim --help" says beyond the flags.
func (c *simCmd) Help() string {
	return `Each schedule runs the fold in a small world of faults: crashing processors and sidecars, lost, doubled and
reordered records. After every step the invariants must hold; at the end all faults stop and everything must come
to rest. A schedule depends on its seed alone: "hence sim --seed N" repeats it.

Exit code: 0 every invariant held, 2 wrong flags, 3 at least one was broken, and is printed with its seed.`
}

// Simulated is what all schedules came to.
type Simulated struct {
	Seed       uint64         `json:"seed"`
	Schedules  uint64         `json:"schedules"`
	Void       uint64         `json:"void"`       // schedules in which too little happened
	Violations uint64         `json:"violations"` // schedules that broke an invariant
	Broken     []SimViolation `json:"broken,omitempty"`
	Records    uint64         `json:"records"`
	Commits    uint64         `json:"commits"`
	Aborts     map[string]int `json:"aborts"` // transactions, by code
	Faults     uint64         `json:"faults"` // that landed
	Probes     map[string]int `json:"probes"` // how often each rare branch was reached
	Hash       string         `json:"hash"`   // over the schedules' hashes in order of their seeds
	DurationMs float64        `json:"duration_ms"`
}

// SimViolation is a broken invariant.
type SimViolation struct {
	Seed  uint64   `json:"seed"` // repeats it
	What  string   `json:"what"`
	Trace []string `json:"trace,omitempty"` // of the first one: the last events before it
}

// Run runs the schedules, some at once, and prints what they came to.
func (c *simCmd) Run(ctx context.Context, s Streams) error {
	start := time.Now()
	sum := Simulated{Seed: c.Seed, Aborts: map[string]int{}, Probes: map[string]int{}}
	hash := sha256.New()
	err := c.inOrder(ctx, func(seed uint64, r sim.Report, err error) {
		hash.Write(r.Hash[:])
		sum.add(seed, r, err)
		if !c.json() && show.IsTerminal(s.Err) && sum.Schedules%100 == 0 {
			fmt.Fprintf(s.Err, "\r\x1b[K%d of %d schedules, %d violations", sum.Schedules, c.Schedules, sum.Violations)
		}
	})
	if !c.json() && show.IsTerminal(s.Err) {
		fmt.Fprint(s.Err, "\r\x1b[K")
	}
	if err != nil {
		return fmt.Errorf("simulate: interrupted after %d of %d schedules: %w", sum.Schedules, c.Schedules, err)
	}
	sum.Hash = hex.EncodeToString(hash.Sum(nil))
	sum.DurationMs = float64(time.Since(start).Microseconds()) / 1000
	if err := c.print(s.Out, sum, sum.write); err != nil {
		return err
	}
	if sum.Violations > 0 {
		return errCheck
	}
	return nil
}

// simResult is one schedule's.
type simResult struct {
	report sim.Report
	err    error
}

// inOrder runs the schedules on all processors and hands the results to take in the order of their seeds.
func (c *simCmd) inOrder(ctx context.Context, take func(seed uint64, r sim.Report, err error)) error {
	workers := uint64(runtime.GOMAXPROCS(0))
	results := make([]chan simResult, workers)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for w := range workers {
		results[w] = make(chan simResult, 16)
		running.Go(func() {
			for i := w; i < c.Schedules; i += workers {
				report, err := sim.Run(c.Seed+i, sim.Options{Steps: c.Steps})
				select {
				case results[w] <- simResult{report, err}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for i := range c.Schedules {
		select {
		case r := <-results[i%workers]:
			take(c.Seed+i, r.report, r.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *Simulated) add(seed uint64, r sim.Report, err error) {
	s.Schedules++
	if err != nil {
		s.Violations++
		if len(s.Broken) < shownViolations {
			what, trace, _ := strings.Cut(err.Error(), "\n")
			s.Broken = append(s.Broken, SimViolation{Seed: seed, What: what})
			if len(s.Broken) == 1 {
				s.Broken[0].Trace = strings.Split(trace, "\n")
			}
		}
		return
	}
	if r.Void {
		s.Void++
	}
	s.Records += uint64(r.Records)
	s.Commits += uint64(r.Commits)
	s.Faults += uint64(r.Faults)
	for code, n := range r.Aborts {
		s.Aborts[string(code)] += n
	}
	for probe, n := range r.Probes {
		s.Probes[string(probe)] += n
	}
}

// write prints the sum for people.
func (s *Simulated) write(w io.Writer) error {
	var t show.Table
	add := func(name, format string, args ...any) { t.Add(name, fmt.Sprintf(format, args...)) }
	add("schedules", "%d from seed %d, %d of them void, %.0f ms", s.Schedules, s.Seed, s.Void, s.DurationMs)
	add("records", "%d", s.Records)
	add("commits", "%d", s.Commits)
	add("aborts", "%s", demo.ByCode(s.Aborts))
	add("faults", "%d", s.Faults)
	add("rare branches", "%d kinds reached", len(s.Probes))
	add("hash", "%s", s.Hash)
	add("violations", "%d", s.Violations)
	if err := t.WriteIn(w, 0); err != nil { // whole on any terminal: half a hash compares with nothing
		return fmt.Errorf("print the table: %w", err)
	}
	for _, v := range s.Broken {
		lines := append([]string{"", v.What}, v.Trace...)
		if len(v.Trace) == 0 {
			lines = append(lines, fmt.Sprintf("repeat it: hence sim --seed %d", v.Seed))
		}
		if _, err := fmt.Fprintln(w, strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	return nil
}
