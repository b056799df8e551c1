package sequencer_test

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	largest "github.com/hence-dev/hence/sequencer/hostile"
)

// maxGrowth is by how much the visits of a step may grow when its record, or what it decides, doubles: linear, and
// somewhat more where a list is sorted.
const maxGrowth = 2.2

// fixedVisits are what any step may look at, whatever its size.
const fixedVisits = 64

// TestVisitsAreLinear: for the largest legal record of each kind, in each of the ways in which it can be large, twice
// as much of it costs at most maxGrowth times as much.
func TestVisitsAreLinear(t *testing.T) {
	for _, c := range largest.Largest() {
		half, _, _ := visitsOf(t, c, largest.Half)
		full, least, took := visitsOf(t, c, largest.Full)
		growth := float64(full) / float64(max(half, fixedVisits))
		t.Logf("%-45s %9d %9d  x %.2f  %v", c, half, full, growth, took.Round(10*time.Microsecond))
		if growth > maxGrowth {
			t.Errorf("%s: %d visits for half of it, %d for all: x %.2f", c, half, full, growth)
		}
		if full < least {
			t.Errorf("%s: %d visits for %d scopes and outcomes: the counter is blind", c, full, least)
		}
	}
}

// visitsOf is what the fold looks at in the step of a record, and what it must have looked at least.
func visitsOf(t *testing.T, c largest.Case, share int) (visits, least int, took time.Duration) {
	t.Helper()
	before, last, err := c.Make(sequencer.Logic, false, share)
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	f := sequencer.New("ws")
	for i, in := range before {
		if _, err := f.Step(int64(i), in); err != nil {
			t.Fatal(err)
		}
	}
	looked, began := f.Visits(), time.Now()
	step, err := f.Step(int64(len(before)), last)
	if err != nil {
		t.Fatal(err)
	}
	return f.Visits() - looked, scopesIn(last) + len(step.Outcomes) - 1, time.Since(began)
}

// scopesIn counts the scopes of a record that is not decided without them.
func scopesIn(in *sequencer.Intent) (n int) {
	switch {
	case in.Seal != nil:
		n = len(in.Seal.Reads) + len(in.Seal.Shards)
		for _, e := range in.Seal.Effects {
			n += len(e.Scopes)
		}
	case in.Settle != nil:
		for _, e := range in.Settle.Effects {
			n += len(e.Scopes)
		}
	case in.Touch != nil:
		n = len(in.Touch.Wants)
	case in.Begin != nil && in.Kind == sequencer.IntentBegin:
		n = len(in.Begin.May)
	}
	return n
}
