package runtimes_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/trace"
)

// four are the anomalies of the catalogue that a runtime can exclude.
func four() []anomaly.Kind { return []anomaly.Kind{anomaly.A1, anomaly.A2, anomaly.A3, anomaly.A6} }

func excludes(p anomaly.Point, k anomaly.Kind) bool {
	switch k {
	case anomaly.A1:
		return p.A1
	case anomaly.A2:
		return p.A2
	case anomaly.A3:
		return p.A3
	}
	return p.A6
}

// differs says how a run of a kind's runtime differs from the model, or what its invariants or the detectors find
// that the kind excludes.
func differs(k runtimes.Kind, s schedule, r *runtimes.Runtime) (what string, result *scenarios.Result) {
	result = s.run(r, func() {
		if err := r.Invariants(k); err != nil && what == "" {
			what = err.Error()
		}
	})
	for _, kind := range four() {
		if excludes(k.Excludes(), kind) && result.Has(kind) {
			return fmt.Sprintf("%s in a history of %s", kind, k), result
		}
	}
	if what != "" {
		return what, result
	}
	m := predict(k, s)
	for _, rec := range result.Records {
		if what := m.differs(&rec); what != "" {
			return what, result
		}
	}
	for i, cell := range []string{"x", "y"} {
		if want := m.value(m.holds(1 << i)); result.Final[cell] != want && (want != trace.Null || result.Final[cell] != "") {
			return fmt.Sprintf("%s is %s at the end, by the model %s", cell, result.Final[cell], want), result
		}
	}
	return "", result
}

func (m *model) value(op int) trace.Value {
	if op < 0 {
		return trace.Null
	}
	return trace.Text(opName(op))
}

// differs says how a record differs from what the model knows of its operation.
func (m *model) differs(rec *trace.Record) string {
	i := int(rec.Txn[2] - '0')
	if state := m.state[i]; rec.TookEffect() != (state == runtimes.Committed) ||
		!rec.TookEffect() && (rec.WriteTime > 0) != (state == runtimes.Retracted) {
		return fmt.Sprintf("%s took effect: %v at %d, by the model it is %s", rec.Txn, rec.TookEffect(), rec.WriteTime,
			state)
	}
	if rec.WriteTime == 0 {
		return ""
	}
	if int(rec.ReadTime) != m.began[i] || int(rec.WriteTime) != m.committed[i] {
		return fmt.Sprintf("%s read at %d and wrote at %d, by the model at %d and %d", rec.Txn, rec.ReadTime,
			rec.WriteTime, m.began[i], m.committed[i])
	}
	for _, cell := range rec.ReadSet {
		from := -1
		for _, p := range m.from[i] {
			if slices.Contains(cells(m.ops[p].writes), cell) && (from < 0 || m.committed[p] > m.committed[from]) {
				from = p
			}
		}
		if rec.ReadValues[cell] != m.value(from) {
			return fmt.Sprintf("%s read %s = %s, by the model %s", rec.Txn, cell, rec.ReadValues[cell], m.value(from))
		}
	}
	left := cells(m.ops[i].writes)
	if m.ops[i].backward && m.kind != runtimes.Sequencer && m.kind != runtimes.Saga {
		slices.Reverse(left)
	}
	for k, e := range rec.CO {
		if k >= len(left) || e.Cell != left[k] {
			return fmt.Sprintf("%s: effect %d to leave was on %s, by the model they leave as %v", rec.Txn, k, e.Cell, left)
		}
	}
	if len(rec.CO) != len(left) {
		return fmt.Sprintf("%s: %d effects left, by the model %v", rec.Txn, len(rec.CO), left)
	}
	return ""
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
			for s := range schedules(b.ops, b.product) {
				if n++; n%b.step != 0 {
					continue
				}
				ran++
				what, result := differs(k, s, runtimes.New(k))
				if what != "" {
					t.Fatalf("%s: %s\n%s", k, what, s)
				}
				for _, kind := range four() {
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
		for _, kind := range four() {
			if !excludes(k.Excludes(), kind) && witness[kind] == "" {
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
			s := drawn(uint64(seed))
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
	for s := range schedules(2, false) {
		if n++; n%step != 0 {
			continue
		}
		if r := s.run(runtimes.At(4), nil); r.Fired() != "" {
			t.Fatalf("%s under all guards\n%s", r.Fired(), s)
		}
	}
}

// staleAreReaders holds that default snapshot isolation lets A1 through in operations that write nothing, and in no
// others.
func staleAreReaders(t *testing.T, s schedule, r *scenarios.Result) {
	t.Helper()
	for _, f := range r.Report.Findings {
		if f.Kind == anomaly.A1 && len(r.Records[f.Records[0]].WriteSet) > 0 {
			t.Errorf("an operation that writes is stale\n%s", s)
		}
	}
}

// TestMutants holds that each part of each runtime's check is missed when it is taken out.
func TestMutants(t *testing.T) {
	for _, m := range runtimes.Mutants() {
		caught, excluded := "", false
		for s := range mutantSchedules() {
			what, result := differs(m.Of, s, m.New())
			for _, kind := range four() {
				excluded = excluded || excludes(m.Of.Excludes(), kind) && result.Has(kind)
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
