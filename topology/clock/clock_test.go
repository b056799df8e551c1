package clock_test

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/topology/clock"
)

// The steady clock runs with the machine's, never backwards, and on Linux means the same in each process.
func TestSteadyClock(t *testing.T) {
	var machine clock.Machine
	one, wall := machine.Steady(), time.Now()
	two, since := machine.Steady(), time.Since(wall)
	if d := two.Sub(one); d < 0 || d > since+time.Second {
		t.Errorf("%v in %v", d, since)
	}
	if boot := clock.SteadyBoot(); boot != "" && (boot != clock.Boot() || one.Year() > 2000) {
		t.Errorf("under boot %s of %s it is %v: no time since the start", boot, clock.Boot(), one)
	}
}
