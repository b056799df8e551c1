package sidecar

import (
	"context"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// leaseMargin is how many ticks of a lease may pass faster than the log's time: the first tick after its record may
// come at once and weigh 8, and one is for clocks that differ.
const leaseMargin = 9

// leaseSpare is what a lease leaves of a call at least, beyond the time that the call may take.
const leaseSpare = 500 * time.Millisecond

// lease is how long this sidecar's lease surely still lasts, by its own clock. The log counts it in ticks, and a tick
// comes no sooner than its weight times 250 ms after the one before.
type lease struct {
	now func() time.Time

	mu    sync.Mutex
	until time.Time
}

// sureOf is how long a lease surely lasts from before its record was sent.
func sureOf(r sequencer.Rules) time.Duration {
	return max(0, time.Duration(r.LeaseTicks)-leaseMargin) * tickLength
}

// begin takes over a new lease, whose record was sent at a time.
func (l *lease) begin(sent time.Time, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = sent.Add(lasts)
}

// renew counts a record that was sent at a time and is acknowledged now: only when the lease has lasted until then,
// since one that came too late renews nothing.
func (l *lease) renew(sent time.Time, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := sent.Add(lasts); l.now().Before(l.until) && until.After(l.until) {
		l.until = until
	}
}

// end: the view shows that the lease is over.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Time{}
}

// Left is how long the lease surely still lasts.
func (l *lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.until.Sub(l.now()))
}

// longestCall is what a call may take at most, so that a fresh lease lasts longer.
func (s *session) longestCall() time.Duration {
	return max(0, sureOf(s.view.settings().rules)-leaseSpare)
}

// stretchLease renews the lease unless it lasts longer than a call may take.
func (s *session) stretchLease(ctx context.Context, takes time.Duration) error {
	if s.lease.Left() > takes {
		return nil
	}
	s.mu.Lock()
	live := s.live
	in := s.renewal()
	s.mu.Unlock()
	if live {
		s.promise(ctx, in, s.clock.Now())
	}
	if s.lease.Left() > takes {
		return nil
	}
	return problem(codeNotReady, "the lease is too short for a call that may take %v: the log could not renew it", takes)
}
