package tables

import (
	"cmp"
	"math"
	"slices"
)

// mean is the mean of values, with the half width of its interval of 95 % by the normal distribution.
func mean(values []float64) (m, around float64) {
	n := float64(len(values))
	for _, v := range values {
		m += v
	}
	m /= n // at the end, so that the mean of equal ones is just that
	return m, normal * deviation(values, m) / math.Sqrt(n)
}

// deviation is the standard deviation of a sample with a mean.
func deviation(values []float64, mean float64) float64 {
	rest := 0.0
	for _, v := range values {
		rest += (v - mean) * (v - mean)
	}
	return math.Sqrt(rest / max(1, float64(len(values))-1))
}

// detectable is the smallest mean difference that a test of such pairs finds with a chance of 80 %.
func detectable(differences []float64) float64 {
	_, around := mean(differences)
	return (normal + power) / normal * around
}

// signedRank is the exact test of Wilcoxon over paired differences: the chance, were signs drawn by a coin, that the
// ranks of the positive ones sum to as much as they do or more (above), and to as little or less. Differences of zero
// are left out, equal ones share their rank.
func signedRank(differences []float64) (above, below float64) {
	d := slices.DeleteFunc(slices.Clone(differences), func(v float64) bool { return v == 0 })
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	most, sum := len(d)*(len(d)+1), 0 // ranks count twice, so that shared ones are whole
	chance := make([]float64, most+1) // of each sum
	chance[0] = 1
	for from := 0; from < len(d); {
		to := from
		for to < len(d) && math.Abs(d[to]) == math.Abs(d[from]) {
			to++
		}
		rank := from + 1 + to
		for _, v := range d[from:to] {
			if v > 0 {
				sum += rank
			}
			for s := most; s >= 0; s-- {
				chance[s] /= 2
				if s >= rank {
					chance[s] += chance[s-rank] / 2
				}
			}
		}
		from = to
	}
	for s, p := range chance {
		if s >= sum {
			above += p
		}
		if s <= sum {
			below += p
		}
	}
	return min(1, above), min(1, below)
}

// differs is the two-sided chance of paired differences that are none.
func differs(differences []float64) float64 {
	above, below := signedRank(differences)
	return min(1, 2*min(above, below))
}

// equivalent is the chance of two one-sided tests that the differences lie beyond a margin on either side.
func equivalent(differences []float64, margin float64) float64 {
	higher, lower := slices.Clone(differences), slices.Clone(differences)
	for i := range differences {
		higher[i] += margin
		lower[i] -= margin
	}
	above, _ := signedRank(higher)
	_, below := signedRank(lower)
	return max(above, below)
}

// holm says which of several tests hold at a level for all of them together: the least chance is held to the level
// shared by all, the next to that shared by one less, until one fails.
func holm(chances []float64, level float64) []bool {
	order := positions(len(chances))
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(chances[a], chances[b]) })
	found := make([]bool, len(chances))
	for i, at := range order {
		if chances[at] > level/float64(len(chances)-i) {
			break
		}
		found[at] = true
	}
	return found
}
