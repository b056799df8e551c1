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

// TestVisitsAreLinear: for the largest legal record of each kind, in each of the ways in which it can be large, twice as
// much of it costs at most maxGrowth times as much.
func TestVisitsAreLinear(t *testing.T) {
	for _, c := range largest.Largest() {
		half, _ := visitsOf(t, c, largest.Half)
		full, took := visitsOf(t, c, largest.Full)
		growth := float64(full) / float64(max(half, fixedVisits))
		t.Logf("%-45s %9d %9d  x %.2f  %v", c, half, full, growth, took.Round(10*time.Microsecond))
		if growth > maxGrowth {
			t.Errorf("%s: %d visits for half of it, %d for all: x %.2f", c, half, full, growth)
		}
	}
}

// visitsOf is what the fold looks at in the step of a record.
func visitsOf(t *testing.T, c largest.Case, share int) (visits int, took time.Duration) {
	t.Helper()
	before, last, err := c.Make(sequencer.Logic, false, share)
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	f := sequencer.New("ws", 0)
	for i, in := range before {
		if _, err := f.Step(int64(i), in); err != nil {
			t.Fatal(err)
		}
	}
	looked, began := f.Visits(), time.Now()
	if _, err := f.Step(int64(len(before)), last); err != nil {
		t.Fatal(err)
	}
	return f.Visits() - looked, time.Since(began)
}
