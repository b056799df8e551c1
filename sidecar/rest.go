package sidecar

import (
	"context"
	"time"
)

// rest begins no further call and lets those that are being made end: one that is cut off may be one that nobody will
// ever know of. What is left to settle the next start goes on with.
func (s *session) rest(ctx context.Context) {
	if s.engine == nil {
		return
	}
	s.lease.close()
	for s.engine.Calls() > 0 && sleep(ctx, stopPoll) {
	}
	if n := s.engine.Calls(); n > 0 {
		s.log.Warn("calls are cut off: without a key nobody will know of them", "count", n)
	}
}

const (
	stopPoll  = 2 * time.Millisecond
	stopGrace = 100 * time.Millisecond
)
