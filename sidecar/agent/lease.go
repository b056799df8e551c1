package agent

import (
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/view"
)

// leaseMargin is how many ticks of a lease may pass faster than the log's time: the first tick after its record may
// come at once and weigh 8, and one is for clocks that differ.
const leaseMargin = 9

// leaseSpare is what a lease leaves of a call at least, beyond the time that the call may take.
const leaseSpare = 500 * time.Millisecond

// maxRenewals bounds the renewals that no decision has confirmed yet.
const maxRenewals = 64

// lease is how long this sidecar's lease surely still lasts, by its own clock. The log counts it in ticks, and a tick
// comes no sooner than its weight times 250 ms after the one before. A renewal counts once the view has shown a
// decision that came after it, and not the lease's end: an acknowledgement alone says nothing, since the lease may
// have ended before it in the log.
type lease struct {
	now func() time.Time

	mu      sync.Mutex
	term    int // which lease of this sidecar it is
	closed  bool
	until   time.Time
	pending []renewal // by offset
}

// renewal is one record that renews the lease unless it came too late.
type renewal struct {
	offset int64
	sent   time.Time
	lasts  time.Duration
}

// sureOf is how long a lease surely lasts from before its record was sent.
func sureOf(r sequencer.Rules) time.Duration {
	return max(0, time.Duration(r.LeaseTicks)-leaseMargin) * view.TickLength
}

// begin takes over a new lease, whose record was sent at a time.
func (l *lease) begin(sent time.Time, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term++
	if !l.closed {
		l.until, l.pending = sent.Add(lasts), nil
	}
}

// close ends the lease for good: the sidecar stops, and no later renewal lets a call begin.
func (l *lease) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.pending, l.closed = time.Time{}, nil, true
}

// renew notes a record that was sent at a time and is in the log at an offset.
func (l *lease) renew(offset int64, sent time.Time, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.pending = append(l.pending, renewal{offset, sent, lasts})
	if len(l.pending) > maxRenewals {
		l.pending = l.pending[1:]
	}
}

// confirm: the view has shown a decision on the record at an offset, and not the lease's end before it; sure is how
// long a lease lasts under the rules that it shows. The last renewal counts, also where shorter rules end it sooner.
func (l *lease) confirm(offset int64, sure time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) > 0 && l.pending[0].offset < offset {
		l.until = l.pending[0].sent.Add(min(l.pending[0].lasts, sure))
		l.pending = l.pending[1:]
	}
}

// end: the view shows that the lease is over.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.pending = time.Time{}, nil
}

// Left is how long the lease surely still lasts.
func (l *lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// The wall clock, too, where it is another one: it goes on while a machine sleeps whose monotonic one does not.
	return max(0, min(l.until.Sub(now), l.until.Round(0).Sub(now.Round(0))))
}

// term is one lease, over for good once there is another one: what was begun under it is not gone on with.
type term struct {
	lease *lease
	n     int
}

// Left is how long the lease surely still lasts.
func (t term) Left() time.Duration {
	t.lease.mu.Lock()
	over := t.lease.term != t.n
	t.lease.mu.Unlock()
	if over {
		return 0
	}
	return t.lease.Left()
}
