package sidecar

import (
	"context"

	"github.com/hence-dev/hence/sidecar/metrics"
)

// This file is for those who run a sidecar beside a process that they have started themselves.

// Counters are those of now.
func (s *Sidecar) Counters() metrics.Counters { return s.metrics.Counters() }

// Farewell ends what the agent's process has left behind: it aborts each transaction that is still open, and waits
// until all that was decided is settled, or ctx ends. It returns how many transactions are undecided or unsettled
// then; the next start of this sidecar goes on with them. Call it while Run runs, when nothing asks for the agent any
// more.
func (s *Sidecar) Farewell(ctx context.Context) (left int) { return s.session.Farewell(ctx) }
