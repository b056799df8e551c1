package sim

import (
	"flag"
	"runtime/debug"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/testsize"
)

var (
	seedFlag      = flag.Uint64("seed", 1, "the schedule that TestSeed runs")
	firstFlag     = flag.Uint64("first", 1, "the first seed of TestSchedules")
	schedulesFlag = flag.Int("schedules", 0, "how many schedules TestSchedules runs; 0: 10,000, and 500 as a sample")
)

// TestSeed repeats one schedule; the message of a violation says which.
func TestSeed(t *testing.T) {
	rep, err := Run(*seedFlag, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", rep)
}

// TestSchedules runs many schedules: none may break an invariant, and over all of them each rare branch is reached.
func TestSchedules(t *testing.T) {
	n := *schedulesFlag
	switch {
	case n == 0 && testsize.Small():
		n = 500
	case n == 0:
		n = 5_000
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a schedule leaves much garbage and little behind
	start := time.Now()
	sum, err := Batch(*firstFlag, n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s%.0f schedules a second", &sum, float64(n)/time.Since(start).Seconds())
	if sum.Voids*10 > n {
		t.Errorf("%d of %d schedules are void: hardly anything committed in them", sum.Voids, n)
	}
	if missing := sum.Missing(); n >= 5_000 && len(missing) > 0 {
		t.Errorf("no schedule of %d has reached %v", n, missing)
	}
}

// TestSameSeedSameHash: a schedule is nothing but its seed.
func TestSameSeedSameHash(t *testing.T) {
	seen := map[sequencer.Hash]uint64{}
	for seed := uint64(1); seed <= 40; seed++ {
		a, err := Run(seed, Options{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Run(seed, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a.Hash != b.Hash {
			t.Fatalf("seed %d: %x, and then %x", seed, a.Hash, b.Hash)
		}
		if other, found := seen[a.Hash]; found {
			t.Fatalf("seeds %d and %d have one hash", other, seed)
		}
		seen[a.Hash] = seed
	}
}

// TestFindsWeakenedRules: with one rule of the fold switched off there is a schedule that shows what it is for. A
// simulator that cannot fail is worth nothing.
func TestFindsWeakenedRules(t *testing.T) {
	for _, tc := range []struct {
		name   string
		weaken sequencer.Weaken
		within int
	}{
		{"1a older only", sequencer.WeakenOlderOnly, 300},
		{"1b piecewise", sequencer.WeakenPiecewise, 300},
		{"1c wait-die", sequencer.WeakenWaitDie, 300},
		{"1e shard writes claim nothing", sequencer.WeakenShardNoClaim, 300},
		{"2 dirty read", sequencer.WeakenDirtyRead, 300},
		{"3a settlement is no write", sequencer.WeakenSettleNoWrite, 300},
		{"5a no base", sequencer.WeakenNoBase, 300},
		{"5b check again", sequencer.WeakenRecheck, 300},
		{"5c read-only unchecked", sequencer.WeakenReadOnly, 300},
		{"5e no floor for expected versions", sequencer.WeakenExpectNoFloor, 1000},
		{"7d read grant covers write", sequencer.WeakenReadCovers, 300},
		{"14 foreign scopes", sequencer.WeakenForeignScopes, 300},
		{"15 registry", sequencer.WeakenRegistryOpen, 1000},
		{"15b pins once", sequencer.WeakenPinsOnce, 300},
		{"16 retraction while observing", sequencer.WeakenObserveRetract, 300},
		{"16b undecided at the switch", sequencer.WeakenObserveKeep, 300},
		{"16c shared while observing", sequencer.WeakenObserveShared, 1000},
		{"18 sidecars without a cap", sequencer.WeakenNoCaps, 300},
		{"19 a silent hook", sequencer.WeakenSilentVeto, 300},
		{"8d a dead lease is confirmed", sequencer.WeakenConfirmDead, 300},
		{"20 one session for all conversations", sequencer.WeakenOneSession, 300},
		{"21 claims of sidecars", sequencer.WeakenClaims, 1000},
		{"21b since when it is granted", sequencer.WeakenGrantSeq, 300},
		{"22 horizon of seqs", sequencer.WeakenHorizonSeqs, 300},
		{"22b restores the newest", sequencer.WeakenRestoreLast, 300},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sum, err := Batch(1, tc.within, Options{Weaken: tc.weaken})
			if err == nil {
				t.Fatalf("%d schedules do without the rule", tc.within)
			}
			t.Logf("after %d schedules: %.300s", sum.Schedules, err)
		})
	}
}

// TestFindsCarelessSidecars: the same for the duties of whoever settles.
func TestFindsCarelessSidecars(t *testing.T) {
	for _, tc := range []struct {
		name     string
		careless Careless
		within   int
	}{
		{"4 claim", CarelessClaim, 300},
		{"13b unknown try", CarelessMaybe, 1000},
		{"13c stop", CarelessStop, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sum, err := Batch(1, tc.within, Options{Careless: tc.careless})
			if err == nil {
				t.Fatalf("%d schedules do without the duty", tc.within)
			}
			t.Logf("after %d schedules: %.300s", sum.Schedules, err)
		})
	}
}
