package lightcone

import (
	"fmt"
	"math"
	"time"
)

// HoldsForks says whether a place of this configuration must keep causes of what it has not resolved yet: it orders
// forks, it is closed over causes, and it may defer. A place that answers at once, or orders nothing, keeps nothing.
func (c Config) HoldsForks() bool {
	return c.Order != "" && len(c.Closure) > 0 && c.Wait != NoWait
}

// Retention is how long a place keeps what it has, and how long that is needed.
type Retention struct {
	Kept time.Duration // negative: forever
	Open time.Duration // the oldest work that is still undecided: what it rests on must be there
	Lag  time.Duration // how far the slowest reader may be behind
}

// Forever is the Kept of a place that drops nothing by age.
const Forever time.Duration = -1

// Needed is the shortest retention under which nothing is dropped that a decision can still depend on.
func (r Retention) Needed() time.Duration { return r.Open + r.Lag }

// Short says why a retention is too short; empty: it is not.
func (r Retention) Short() string {
	if r.Kept < 0 || r.Kept >= r.Needed() {
		return ""
	}
	return fmt.Sprintf("it keeps %s and must keep %s: work may be open for %s, and a reader %s behind; %s",
		Span(r.Kept), Span(r.Needed()), Span(r.Open), Span(r.Lag), twoHistories)
}

// twoHistories is why nothing can be decided right once the causes are dropped.
const twoHistories = "of two histories, H writes x at seq 5 and H' writes y at seq 5, and in both T reads x at " +
	"seq 4 and seals at seq 7: T must be refused in H and commit in H', and without seq 5 the two cannot be told apart"

// Span is a duration as people write it: days, where it is whole days.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "forever"
	case d == day:
		return "1 day"
	case d > 0 && d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}

// Versions is how many versions are kept at least while forks of objects stay open for so long, when each object is
// written at a rate per second.
func (c Config) Versions(rate float64, open time.Duration, objects int) float64 {
	if !c.HoldsForks() {
		return 0
	}
	return rate * open.Seconds() * float64(objects)
}

// TagBits is the least size of a causal tag of one message, up to a constant, after so many operations. It is a bound
// of Attiya, Ellen and Morrison.
func TagBits(replicas, objects int, operations float64) float64 {
	return float64(min(replicas, objects)) * math.Log2(operations)
}
