package runtimes_test

import (
	"fmt"
	"iter"
	"os"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/cmd/hence/internal/schedules"
	"github.com/hence-dev/hence/sequencer/anomaly"
)

// differs says how a run of a kind's runtime differs from the model, or what its invariants or the detectors find
// that the kind excludes.
func differs(k runtimes.Kind, s schedules.Schedule, r *runtimes.Runtime) (what string, result *scenarios.Result) {
	result = s.Run(r, func() {
		if err := r.Invariants(k); err != nil && what == "" {
			what = err.Error()
		}
	})
	for _, kind := range anomaly.Lattice() {
		if k.Excludes().Has(kind) && result.Has(kind) {
			return fmt.Sprintf("%s in a history of %s", kind, k), result
		}
	}
	if what != "" {
		return what, result
	}
	return schedules.Predict(k, s).Differs(result), result
}

// TestMatrix holds what each runtime excludes and what it lets through, and each runtime against the model, over all
// schedules of two agents, two cells and two operations: every 47th. HENCE_EXACT_ALL=1 has all, also with
// retractions and changes of the registry together, and every 41st of three operations.
func TestMatrix(t *testing.T) {
	type bound struct {
		ops     int
		product bool
		step    int
	}
	bounds := []bound{{2, false, 47}}
	if os.Getenv("HENCE_EXACT_ALL") == "1" {
		bounds = []bound{{2, false, 1}, {2, true, 1}, {3, false, 41}}
	}
	for _, k := range runtimes.Kinds() {
		n, ran := 0, 0
		witness := map[anomaly.Kind]string{}
		for _, b := range bounds {
			for s := range schedules.All(b.ops, b.product) {
				if n++; n%b.step != 0 {
					continue
				}
				ran++
				what, result := differs(k, s, runtimes.New(k))
				if what != "" {
					t.Fatalf("%s: %s\n%s", k, what, s)
				}
				for _, kind := range anomaly.Lattice() {
					if witness[kind] == "" && result.Has(kind) {
						witness[kind] = s.String()
					}
				}
				if k == runtimes.Snapshot {
					staleAreReaders(t, s, result)
				}
			}
		}
		t.Logf("%s: %d schedules of %d", k, ran, n)
		for _, kind := range anomaly.Lattice() {
			if !k.Excludes().Has(kind) && witness[kind] == "" {
				t.Errorf("%s lets %s through, and no schedule has it", k, kind)
			}
		}
	}
}

// TestRandom holds each runtime against the model and what it excludes over drawn schedules of three agents and six
// operations, with retractions and changes of the registry wherever they fall.
func TestRandom(t *testing.T) {
	seeds := 60
	if os.Getenv("HENCE_EXACT_ALL") == "1" {
		seeds = 20_000
	}
	for _, k := range runtimes.Kinds() {
		refused, taken := 0, 0
		for seed := range seeds {
			s := schedules.Drawn(uint64(seed))
			what, result := differs(k, s, runtimes.New(k))
			if what != "" {
				t.Fatalf("%s, seed %d: %s\n%s", k, seed, what, s)
			}
			refused += result.Counts.Aborted + result.Counts.Dropped
			taken += result.Counts.Retracted
		}
		t.Logf("%s: %d schedules, %d operations refused, %d retracted", k, seeds, refused, taken)
		if taken == 0 || refused == 0 && (k.Excludes().A1 || k == runtimes.Snapshot) {
			t.Errorf("%s: %d operations refused, %d retracted: the schedules ask nothing of it", k, refused, taken)
		}
	}
}

// TestComposed holds that the guards of all levels together let nothing through, and do not disturb each other: no
// schedule has any of the four.
func TestComposed(t *testing.T) {
	n, step := 0, 47
	if os.Getenv("HENCE_EXACT_ALL") == "1" {
		step = 1
	}
	for s := range schedules.All(2, false) {
		if n++; n%step != 0 {
			continue
		}
		if r := s.Run(runtimes.At(4), nil); r.Fired() != "" {
			t.Fatalf("%s under all guards\n%s", r.Fired(), s)
		}
	}
}

// staleAreReaders holds that default snapshot isolation lets A1 through in operations that write nothing, and in no
// others.
func staleAreReaders(t *testing.T, s schedules.Schedule, r *scenarios.Result) {
	t.Helper()
	for _, f := range r.Report.Findings {
		if f.Kind == anomaly.A1 && len(r.Records[f.Records[0]].WriteSet) > 0 {
			t.Errorf("an operation that writes is stale\n%s", s)
		}
	}
}

// mutantSchedules are every thirteenth of two operations, and one of three that rest on each other.
func mutantSchedules() iter.Seq[schedules.Schedule] {
	return func(yield func(schedules.Schedule) bool) {
		chain := schedules.Schedule{Agents: 2,
			Ops: []schedules.Shape{{Writes: 1}, {Reads: 1, Writes: 2}, {Reads: 2, Writes: 1}},
			Events: []schedules.Event{{What: 'b', Of: 0}, {What: 'c', Of: 0}, {What: 'b', Of: 1}, {What: 'c', Of: 1},
				{What: 'b', Of: 2}, {What: 'c', Of: 2}, {What: 'r', Of: 0}}}
		if !yield(chain) {
			return
		}
		n := 0
		for s := range schedules.All(2, false) {
			if n++; n%13 == 0 && !yield(s) {
				return
			}
		}
	}
}

// TestMutants holds that each part of each runtime's check is missed when it is taken out.
func TestMutants(t *testing.T) {
	for _, m := range runtimes.Mutants() {
		caught, excluded := "", false
		for s := range mutantSchedules() {
			what, result := differs(m.Of, s, m.New())
			for _, kind := range anomaly.Lattice() {
				excluded = excluded || m.Of.Excludes().Has(kind) && result.Has(kind)
			}
			if caught == "" && what != "" {
				caught = what + "\n" + s.String()
			}
			if caught != "" && (excluded || !m.Anomaly) {
				break
			}
		}
		if caught == "" || m.Anomaly && !excluded {
			t.Errorf("%s: %s: seen %q, an excluded anomaly %v", m.Of, m.Name, caught, excluded)
		}
	}
}

// TestTwin holds that a check of freshness which spares cells that are written too loses an update.
func TestTwin(t *testing.T) {
	for _, m := range runtimes.Mutants() {
		if m.Name != "the twin of the published code" {
			continue
		}
		r := scenarios.Run(scenarios.StaleRead(), m.New(), scenarios.Options{})
		if r.Fired() != "A1 lost-update cycle" || r.Counts.Committed != 2 {
			t.Errorf("%q, %+v", r.Fired(), r.Counts)
		}
		return
	}
	t.Error("no mutant is the twin")
}
