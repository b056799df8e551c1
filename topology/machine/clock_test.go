package machine_test

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/topology/machine"
)

// The steady clock runs with the machine's, never backwards, and on Linux means the same in each process.
func TestSteadyClock(t *testing.T) {
	var clock machine.Clock
	one, wall := clock.Steady(), time.Now()
	two, since := clock.Steady(), time.Since(wall)
	if d := two.Sub(one); d < 0 || d > since+time.Second {
		t.Errorf("%v in %v", d, since)
	}
	if boot := machine.SteadyBoot(); boot != "" && (boot != machine.Boot() || one.Year() > 2000) {
		t.Errorf("under boot %s of %s it is %v: no time since the start", boot, machine.Boot(), one)
	}
}
