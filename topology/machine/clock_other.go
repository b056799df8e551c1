//go:build !linux

package machine

import "time"

// steady is the time with its monotonic reading, which may stand still while the machine sleeps: whether a lease is
// over is asked of the wall clock, too, and what must pass first passes later.
func steady() time.Time { return time.Now() }

// SteadyBoot names the boot under which Steady is one time in every process; empty: it is none between processes.
func SteadyBoot() string { return "" }
