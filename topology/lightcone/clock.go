package lightcone

import (
	"math"
	"time"
)

// ClockOrders says whether timestamps of clocks that are off by at most uncertainty, either way, order every cause
// before its effect, when no cause reaches another node sooner than distance. Two equal timestamps must be put in the
// order of causes, and each node's own clock must not go back.
func ClockOrders(uncertainty, distance time.Duration) bool {
	return CommitWait(uncertainty, distance) == 0
}

// CommitWait is how long an answer has to wait so that timestamps keep a relation whose pairs are at least distance
// apart: nothing for causes over a link that is slow enough, twice the uncertainty for real time, where distance is 0.
func CommitWait(uncertainty, distance time.Duration) time.Duration {
	return max(0, 2*uncertainty-distance)
}

// Inversion is the probability that an effect gets a smaller timestamp than its cause: errors are drawn for each
// operation, independent and uniform within the uncertainty.
func Inversion(uncertainty, distance time.Duration) float64 {
	if ClockOrders(uncertainty, distance) {
		return 0
	}
	rest := 1 - float64(distance)/float64(2*uncertainty)
	return rest * rest / 2
}

// InversionNormal is Inversion where errors are normal with a standard deviation: it is never 0.
func InversionNormal(deviation, distance time.Duration) float64 {
	return math.Erfc(float64(distance)/float64(2*deviation)) / 2
}

// Uncertainty is the greatest one under which edges causes are all in order with a probability of at least 1-risk,
// errors as in Inversion.
func Uncertainty(distance time.Duration, edges, risk float64) float64 {
	return float64(distance) / (2 * (1 - math.Sqrt(2*risk/edges)))
}
