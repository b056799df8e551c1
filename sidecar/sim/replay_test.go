package sim

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/replay"
	"github.com/hence-dev/hence/sequencer/testsize"
)

// TestReplaySchedules decides the logs of simulated sidecars again, with their crashes, adoptions and retractions:
// under their own rules nothing differs, under others every chain of causes ends at the change.
func TestReplaySchedules(t *testing.T) {
	seeds := uint64(20)
	if testsize.Small() {
		seeds = 6
	}
	differ := 0
	for seed := range seeds {
		r := newRun(seed+1, Options{})
		r.all()
		if r.failed != "" {
			t.Fatalf("seed %d: %s", seed+1, r.failed)
		}
		log := &replay.Log{Workspace: workspace}
		for i, in := range r.truth.log {
			log.Records = append(log.Records, replay.Record{Offset: int64(i), Intent: in})
		}
		res, err := replay.Run(log, replay.Change{})
		if err != nil || len(res.Differences) > 0 || res.Chain != res.NowChain || len(res.Supposed) > 0 {
			t.Fatalf("seed %d: under its own rules it differs: %v, %+v", seed+1, err, res.Differences)
		}
		observe, level, order := true, sequencer.L0, sequencer.Locked
		for _, change := range []replay.Change{{Observe: &observe}, {Levels: &level}, {Mode: &order}} {
			res, err := replay.Run(log, change)
			if err != nil {
				t.Fatalf("seed %d: %v", seed+1, err)
			}
			for i, d := range res.Differences {
				if first := res.Differences[d.Cause.First]; d.Cause.Of >= i || first.Cause.Why != replay.CauseRule {
					t.Fatalf("seed %d: %+v follows from %+v", seed+1, d, first)
				}
			}
			differ += len(res.Differences)
		}
	}
	if differ == 0 {
		t.Error("no other rules made a difference")
	}
}
