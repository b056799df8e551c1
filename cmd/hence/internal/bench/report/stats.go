package report

import (
	"math"
	"slices"
)

// Median is the middle value, or the mean of the two in the middle; 0 of no values.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Quantile is the value below or at which a share q of the sorted values lies; 0 of no values.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// Drift is how far two measurements of the same thing are apart, as a share of the smaller one. Nothing at all was
// disturbed without bound.
func Drift(before, after float64) float64 {
	if before <= 0 || after <= 0 {
		return math.Inf(1)
	}
	return max(before, after)/min(before, after) - 1
}

// VoidAbove is the drift of the bare loop, measured before and after a run, above which the run does not count.
const VoidAbove = 0.15

// Slope is how much y changes for each x, by least squares; 0 of less than two places.
func Slope(x, y []float64) float64 {
	n := float64(len(x))
	var meanX, meanY, above, below float64
	for i := range x {
		meanX, meanY = meanX+x[i]/n, meanY+y[i]/n
	}
	for i := range x {
		above += (x[i] - meanX) * (y[i] - meanY)
		below += (x[i] - meanX) * (x[i] - meanX)
	}
	if below == 0 {
		return 0
	}
	return above / below
}
