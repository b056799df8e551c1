package sim

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"
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

// TestHole runs schedules in a binary that it/mutants builds without one rule of the fold (sequencer/holes): one of
// them must show what it is for. A simulator that cannot fail is worth nothing.
func TestHole(t *testing.T) {
	text := os.Getenv("HENCE_TEST_SCHEDULES") // so many may pass before
	if text == "" {
		return // TestHoles of it/mutants runs it
	}
	within, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Batch(1, within, Options{Harm: true})
	if err == nil {
		t.Fatalf("%d schedules do without the rule", within)
	}
	t.Logf("after %d schedules: %.300s", sum.Schedules, err)
}

// TestFindsCarelessSidecars: a schedule shows what each duty of a settling sidecar is for.
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
