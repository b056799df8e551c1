package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// steady is the time since the machine was started, its sleep included: a lease goes on in the log while it sleeps.
func steady() time.Time {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return time.Now() // a kernel of before 2.6.39
	}
	return time.Unix(t.Unix())
}

// SteadyBoot names the boot under which Steady is one time in every process; empty: it is none between processes.
func SteadyBoot() string { return Boot() }
