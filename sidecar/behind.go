package sidecar

import (
	"context"
	"math"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// measureEvery is how often it is asked how far the decisions are, and how long an answer may take.
const (
	measureEvery = 5 * time.Second
	measureWait  = 2 * time.Second
)

// newest is a log that knows how far its decisions are, from elsewhere than the view does.
type newest interface {
	Newest(ctx context.Context, workspace string) (sequencer.Seq, error)
}

// measure keeps the lag of the view until ctx ends.
func (s *Sidecar) measure(ctx context.Context) {
	log, ok := s.events.(newest)
	if !ok {
		return
	}
	beat, stop := s.clock.Ticker(measureEvery)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat:
		}
		s.metrics.Behind.Set(s.behind(ctx, log))
	}
}

// behind is by how many seqs the view is behind; what is decided while it is asked may show as one or two.
func (s *Sidecar) behind(ctx context.Context, log newest) float64 {
	ctx, cancel := context.WithTimeout(ctx, measureWait)
	defer cancel()
	at, err := log.Newest(ctx, s.config.Workspace)
	if err != nil {
		return math.NaN()
	}
	if seen := s.view.At(); at > seen {
		return float64(at - seen)
	}
	return 0
}
