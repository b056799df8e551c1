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

// fisher is the two-sided exact test of two shares.
func fisher(a, of, b, from int) (p float64) {
	choose := func(n, k int) float64 {
		whole, _ := math.Lgamma(float64(n + 1))
		part, _ := math.Lgamma(float64(k + 1))
		rest, _ := math.Lgamma(float64(n - k + 1))
		return whole - part - rest
	}
	sum := a + b
	chance := func(k int) float64 { return math.Exp(choose(of, k) + choose(from, sum-k) - choose(of+from, sum)) }
	const rounding = 1e-9
	for k := max(0, sum-from); k <= min(of, sum); k++ {
		if chance(k) <= chance(a)*(1+rounding) {
			p += chance(k)
		}
	}
	return min(1, p)
}
