package sim

import (
	"flag"
	"testing"
	"time"
)

var (
	seedFlag      = flag.Uint64("seed", 1, "the schedule that TestSeed runs")
	schedulesFlag = flag.Int("schedules", 10_000, "how many schedules TestSchedules runs")
)

func TestSeed(t *testing.T) {
	rep, err := Run(*seedFlag, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", rep)
}

func TestSchedules(t *testing.T) {
	n := *schedulesFlag
	if testing.Short() {
		n = 500
	}
	start := time.Now()
	sum, err := Batch(1, n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s%.0f schedules a second", &sum, float64(n)/time.Since(start).Seconds())
}
