//go:build !linux

package agent

import "time"

// steadyNow is the time with its monotonic reading, which may stand still while the machine sleeps: whether a lease is
// over is asked of the wall clock, too, and what must pass first passes later.
func steadyNow() time.Time { return time.Now() }
