package tables

import (
	"fmt"
	"math"
	"strconv"

	"github.com/hence-dev/hence/sequencer/anomaly"
)

// normal is the 97.5 % quantile of the normal distribution, and power its 80 % quantile.
const (
	normal = 1.96
	power  = .8416
)

// of is a share as it is printed: k of n.
func of(k, n int) string { return fmt.Sprintf("%d of %d", k, n) }

// percent is a share with its exact interval of 95 %.
func percent(k, n int) string {
	if n == 0 {
		return "none"
	}
	low, high := anomaly.ClopperPearson(k, n)
	return fmt.Sprintf("%d of %d (%s %%, %s to %s)", k, n, digits(100*float64(k)/float64(n)), digits(100*low),
		digits(100*high))
}

// covers says whether the exact interval of 95 % has a share.
func covers(k, n int, share float64) bool {
	low, high := anomaly.ClopperPearson(k, n)
	return n > 0 && low <= share && share <= high
}

// digits are three of a number.
func digits(v float64) string {
	if v == 0 || math.Abs(v) >= 100 {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	places := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	if places > 6 {
		return strconv.FormatFloat(v, 'e', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', places, 64)
}

// fit is a straight line through points, by least squares: where it starts, its slope, and the half widths of their
// intervals of 95 % by the normal distribution.
func fit(x, y []float64) (start, slope, aroundStart, aroundSlope float64) {
	n := float64(len(x))
	var meanX, meanY, xx, xy float64
	for i := range x {
		meanX, meanY = meanX+x[i]/n, meanY+y[i]/n
	}
	for i := range x {
		xx += (x[i] - meanX) * (x[i] - meanX)
		xy += (x[i] - meanX) * (y[i] - meanY)
	}
	slope = xy / xx
	start = meanY - slope*meanX
	rest := 0.0
	for i := range x {
		d := y[i] - start - slope*x[i]
		rest += d * d
	}
	spread := math.Sqrt(rest / max(1, n-2))
	return start, slope, normal * spread * math.Sqrt(1/n+meanX*meanX/xx), normal * spread / math.Sqrt(xx)
}
