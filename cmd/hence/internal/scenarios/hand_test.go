package scenarios_test

import (
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/cmd/hence/internal/scenarios"
)

// fires is what a run contains: the kinds that are certain, in the order of reports, and what its runtime refused.
type fires struct {
	kinds    string
	dropped  int // begins that found a lock
	aborted  int // commits that were refused
	cascaded int // operations that were taken back because of another
}

// hand is the table of the paper's seven scenarios under three runtimes, derived from the scripts by hand before any
// of it was run. Why each cell is what it is:
//
//	stale-read       both begin on doc, E commits v1, then R v2: R overwrites what it has not read. The overwriting
//	                 reader and the overwritten writer depend on each other, hence the cycle. A lock on doc is E's when
//	                 R begins: R is dropped. Validation finds the version v1, newer than R's read
//	tool-removed     no lock and no version is on the registry
//	phantom-write    p commits, then j reads it and commits, then p is retracted: each step alone is in order
//	effect-reorder   the effects are one operation's own: no other operation takes part
//	pipeline         each agent begins after the one before it has committed
//	fan-out-merge    the workers read one task together and write cells of their own. Locks are exclusive, so the second
//	                 worker's read conflicts with the first one's
//	single-agent     one after the other
func hand() map[string][3]fires {
	none := fires{}
	stale := "A1 lost-update cycle"
	return map[string][3]fires{ // vanilla, pessimistic (drop), default snapshot isolation
		"stale-read":     {{kinds: stale}, {dropped: 1}, {aborted: 1}},
		"tool-removed":   {{kinds: "A2"}, {kinds: "A2"}, {kinds: "A2"}},
		"phantom-write":  {{kinds: "A3"}, {kinds: "A3"}, {kinds: "A3"}},
		"effect-reorder": {{kinds: "A6"}, {kinds: "A6"}, {kinds: "A6"}},
		"pipeline":       {none, none, none},
		"fan-out-merge":  {none, {dropped: 1}, none},
		"single-agent":   {none, none, none},
	}
}

// TestHand holds that the table has the seven scenarios.
func TestHand(t *testing.T) {
	if len(hand()) != 7 {
		t.Errorf("%d scenarios, not 7", len(hand()))
	}
}

// TestHandRuns holds each run against the table.
func TestHandRuns(t *testing.T) {
	under := []runtimes.Kind{runtimes.Vanilla, runtimes.PessimisticDrop, runtimes.Snapshot}
	for _, s := range scenarios.Seven() {
		for i, want := range hand()[s.Name] {
			r := scenarios.Run(s, runtimes.New(under[i]), scenarios.Options{})
			got := fires{r.Fired(), r.Counts.Dropped, r.Counts.Aborted, r.Counts.Cascaded}
			if got != want {
				t.Errorf("%s under %s: %+v, by hand %+v; refused: %v", s.Name, under[i], got, want, r.Why)
			}
		}
	}
}
