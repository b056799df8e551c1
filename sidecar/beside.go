package sidecar

import (
	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/metrics"
)

// This file is for those who run a sidecar of one agent beside a process that they have started themselves. Of several
// agents, ask each Member.

// Counters are those of now.
func (s *Sidecar) Counters() metrics.Counters { return s.only.Counters() }

// Displaced is that of the one agent; see Member.
func (s *Sidecar) Displaced() sequencer.Seq { return s.only.Displaced() }

// Farewell is that of the one agent; see Member.
func (s *Sidecar) Farewell(ctx context.Context) (left int) { return s.only.Farewell(ctx) }
