package topology_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/hostile"
	"github.com/hence-dev/hence/topology"
)

// TestLargestRecords: of the largest legal record of each kind, what is decided travels, and the row stays.
func TestLargestRecords(t *testing.T) { largestRecords(t, false) }

// TestLargestRecordsOfWidestRules is the same where the rules allow as much as rules may.
func TestLargestRecordsOfWidestRules(t *testing.T) { largestRecords(t, true) }

func largestRecords(t *testing.T, wide bool) {
	for _, c := range hostile.Largest() {
		if wide && c.Sidecars {
			continue // the widest rules leave no space for them
		}
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			before, last, err := c.Make(sequencer.Logic, wide, hostile.Full)
			if err != nil {
				t.Fatal(err)
			}
			s := newSiege(0, sequencer.Logic, harmless)
			s.check = func(*siege, sequencer.Applied) error { return nil }
			for i, in := range before {
				if err := s.apply(in); err != nil {
					t.Fatalf("record %d before it, %s: %v", i, in.Kind, err)
				}
			}
			b, err := topology.EncodeIntent(last)
			if err != nil {
				t.Fatal(err)
			}
			var step sequencer.Applied
			var row int
			s.check = func(s *siege, a sequencer.Applied) error {
				step = a
				for i := range a.Outcomes {
					if err := travels(&a.Outcomes[i]); err != nil {
						return err
					}
				}
				st := s.replica.State()
				whole, _ := topology.EncodeReplica(&st)
				row = len(whole)
				return s.stays()
			}
			began := time.Now()
			if _, err := s.read(b); err != nil {
				t.Error(err)
			}
			t.Log(sizes(b, step, row, time.Since(began)))
			for _, kind := range c.Made {
				if !slices.ContainsFunc(step.Outcomes, func(o sequencer.Outcome) bool { return o.Kind == kind }) {
					t.Errorf("nothing is %s", kind)
				}
			}
		})
	}
}

// TestLargestRecordsOfOlderLogic: under an older logic what is decided about them may be too large to be written; that
// is an error, and no panic.
func TestLargestRecordsOfOlderLogic(t *testing.T) {
	for _, c := range hostile.Largest() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			before, last, err := c.Make(sequencer.Logic-1, false, hostile.Full)
			if err != nil {
				t.Logf("that logic does not take what leads up to it: %v", err)
			}
			s := newSiege(0, sequencer.Logic-1, written)
			for _, in := range append(before, last) {
				if err := s.apply(in); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func sizes(record []byte, a sequencer.Applied, row int, took time.Duration) string {
	said, largest := map[string]int{}, 0
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		if said[fmt.Sprintf("%s %s", o.Kind, o.Code)]++; o.Kind == sequencer.OutcomeRefused {
			said[o.Detail]++
		}
		if b, err := topology.EncodeCloudEvent(o, hostileAt(), ""); err == nil {
			largest = max(largest, len(b))
		}
	}
	return fmt.Sprintf("record %d B, largest decision %d B, row %d B, checked in %v: %v", len(record), largest, row,
		took.Round(time.Millisecond), said)
}
