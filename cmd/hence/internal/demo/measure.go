package demo

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

const (
	appendEvery = 20 * time.Millisecond
	maxAppends  = 5000
)

// measureAppends times single acknowledged appends until the context ends. What it appends is a tick that no fold
// will ever count, to a workspace of its own: it costs what any intent costs on its way and decides nothing.
func measureAppends(ctx context.Context, c *streams.Client, workspace string) []time.Duration {
	tick := &sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: math.MaxUint64, Weight: 1}}
	var took []time.Duration
	for len(took) < maxAppends {
		start := time.Now()
		if _, err := c.Append(ctx, workspace, tick); err == nil {
			took = append(took, time.Since(start))
		}
		if pause.Sleep(ctx, appendEvery) != nil {
			break
		}
	}
	return took
}

// quantile returns the value below or at which a share q of the values lies; 0 of no values.
func quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// ms gives milliseconds with three decimals.
func ms(d time.Duration) float64 { return math.Round(float64(d)/float64(time.Microsecond)) / 1000 }
