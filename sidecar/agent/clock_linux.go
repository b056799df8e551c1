package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// steadyNow is the time since the machine was started, its sleep included: a lease goes on in the log while it sleeps.
// Under one boot id it means the same in each process.
func steadyNow() time.Time {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return time.Now() // a kernel of before 2.6.39
	}
	return time.Unix(t.Unix())
}
