package sim

import (
	"testing"
	"time"
)

func TestRealSeed(t *testing.T) {
	rep, err := RunReal(t, *seedFlag, Options{Trace: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", rep)
}

func TestRealSchedules(t *testing.T) {
	n := *schedulesFlag
	if n == 0 {
		n = 20
	}
	start := time.Now()
	sum := newSummary()
	for i := range n {
		rep, err := RunReal(t, *firstFlag+uint64(i), Options{})
		sum.add(rep)
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s%.0f schedules a second", &sum, float64(n)/time.Since(start).Seconds())
}
