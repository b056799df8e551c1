// Package machine has the machine's time: the wall clock, a steady time that counts the machine's sleep, and the name
// of the boot. What takes its time from a clock declares which of these methods it uses, so that a test can drive it.
package machine

import (
	"context"
	"strings"
	"time"

	"github.com/hence-dev/hence/topology/pause"
)

// Clock is the machine's clock.
type Clock struct{}

// Now is the time of day, with a monotonic reading that may stand still while the machine sleeps.
func (Clock) Now() time.Time { return now() }

// Steady is for how long something surely lasts, and no date: it counts while the machine sleeps where the system can
// tell (Linux), and nothing sets it.
func (Clock) Steady() time.Time { return steady() }

// After is time.After.
func (Clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Ticker gives a time about every d until stop is called.
func (Clock) Ticker(d time.Duration) (c <-chan time.Time, stop func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// Sleep is pause.Sleep.
func (Clock) Sleep(ctx context.Context, d time.Duration) error { return pause.Sleep(ctx, d) }

// Within is ctx, ended after d at the latest.
func (Clock) Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// Boot names the time since the system was started; empty: the system has no name for it.
func Boot() string { return strings.Trim(boot(), " \n\x00") }
