package demo

import (
	"strings"
	"testing"
	"time"
)

// TestReportHolds holds that each finding alone makes an enforcing run fail, and that an observing one only counts.
func TestReportHolds(t *testing.T) {
	good := Report{Mode: modeEnforce, ReplayEqual: true}
	if !good.Holds() {
		t.Error("a run without findings does not hold")
	}
	for name, spoil := range map[string]func(*Report){
		"a lost update":           func(r *Report) { r.LostUpdates = 1 },
		"a missing commit":        func(r *Report) { r.AcknowledgedMissing = 1 },
		"a replay that differs":   func(r *Report) { r.ReplayEqual = false },
		"all three in their turn": func(r *Report) { r.LostUpdates, r.AcknowledgedMissing, r.ReplayEqual = 2, 3, false },
	} {
		r := good
		spoil(&r)
		if r.Holds() {
			t.Errorf("%s: the run holds", name)
		}
		if !strings.Contains(r.conclusion(), "NOT") {
			t.Errorf("%s: people read %q", name, r.conclusion())
		}
		if r.Mode = modeObserve; !r.Holds() {
			t.Errorf("%s: the run does not hold although it only observes", name)
		}
	}
	for _, mode := range []string{modeEnforce, modeObserve} {
		if r := (Report{Mode: mode, ReplayEqual: true, Planned: Planned{Against: 1}}); r.Holds() {
			t.Errorf("%s: a plan was not kept, and the run holds", mode)
		}
	}
}

// TestReportCounts holds that tasks are counted once, attempts by their ends, and the loading of the data not at all.
func TestReportCounts(t *testing.T) {
	r := &run{cfg: &Config{Order: "locked", Observe: true}, plan: &plan{}}
	for _, a := range []*Attempt{
		{Task: -1, N: 2, End: EndAborted, Code: "limit"},
		{Task: 0, N: 1, End: EndAborted, Code: "stale_read", WaitNS: time.Millisecond},
		{Task: 0, N: 2, End: EndInterrupted},
		{Task: 0, N: 3, End: EndCommitted, Would: "stale_read", WaitNS: 3 * time.Millisecond},
		{Task: 1, N: 1, End: EndCommitted, WaitNS: 2 * time.Millisecond, Planned: []PlannedRecord{{End: plannedMade},
			{End: plannedNever}, {End: plannedPassed}, {End: plannedMade}, {}}},
	} {
		r.records.add(a)
	}
	rep := r.report(&verdict{hash: "h", effects: &effectsFound{}, differs: []string{"shard:/x"}}, time.Second)
	if rep.Committed != 2 || rep.Retries != 2 || rep.Interrupted != 1 || rep.Refused["stale_read"] != 1 ||
		len(rep.Refused) != 1 || rep.Would["stale_read"] != 1 || rep.ReplayEqual || rep.DurationMs != 1000 {
		t.Errorf("got %+v", rep)
	}
	if rep.Planned != (Planned{Turns: 1, Made: 2, Never: 1, Passed: 1}) {
		t.Errorf("planned turns: %+v", rep.Planned)
	}
	if rep.SealToDecisionMs != (Quantiles{P50: 2, P99: 3}) {
		t.Errorf("seal to decision: %+v", rep.SealToDecisionMs)
	}
	var table strings.Builder
	if err := rep.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 (stale_read 1)", "differs in shard:/x", "Observed only", "p99 3.00 ms"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}

func TestQuantile(t *testing.T) {
	var values []time.Duration
	for i := range 100 {
		values = append(values, time.Duration(100-i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v of 1 to 100: %d, want %d", q, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("quantile of nothing")
	}
}
