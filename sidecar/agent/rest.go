package agent

import (
	"context"
	"time"

	"github.com/hence-dev/hence/sidecar/view"
)

// rest begins no further call and lets those that are being made end: one that is cut off may be one that nobody will
// ever know of. What is left to settle the next start goes on with.
func (s *Agent) rest(ctx context.Context) {
	if s.engine == nil {
		return
	}
	s.lease.close()
	for s.engine.Calls() > 0 && view.Sleep(ctx, StopPoll) {
	}
	if n := s.engine.Calls(); n > 0 {
		s.log.Warn("calls are cut off: without a key nobody will know of them", "count", n)
	}
}

const (
	StopPoll  = 2 * time.Millisecond
	StopGrace = 100 * time.Millisecond
)
