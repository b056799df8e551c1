package anomaly

import "math"

// Materiality is advice beside an A1, never instead of it: how often such a finding changed the decision of an agent
// in the role of the reader, when it was asked again with the value that it had missed. A policy may act on P alone;
// what is detected stays detected.
type Materiality struct {
	Role     string  `json:"role"`
	Changed  int     `json:"changed"` // decisions that changed
	Asked    int     `json:"asked"`
	P        float64 `json:"p"`    // Changed / Asked
	Low      float64 `json:"low"`  // 95 % Clopper–Pearson interval
	High     float64 `json:"high"` //
	Measured string  `json:"measured"`
}

// The roles of a reader.
const (
	Assessor    = "assessor"    // judges what it read
	Consumer    = "consumer"    // what it read is one of several inputs
	Producer    = "producer"    // writes independently of what it read
	Categorical = "categorical" // decides between few classes by what it read
)

// MaterialityOf is the published estimate for a role of the reader; known is false for a role without one.
func MaterialityOf(role string) (m Materiality, known bool) {
	for _, one := range []Materiality{
		{Role: Assessor, Changed: 43, Asked: 43, Measured: "a reviewer that read before the write"},
		{Role: Consumer, Changed: 18, Asked: 33, Measured: "an engineer, judged"},
		{Role: Producer, Changed: 0, Asked: 100, Measured: "an editor, judged"},
		{Role: Categorical, Changed: 150, Asked: 200, Measured: "triage into three classes, controlled staleness"},
	} {
		if one.Role == role {
			return Estimate(one), true
		}
	}
	return Materiality{}, false
}

// Roles are those with an estimate.
func Roles() []string { return []string{Assessor, Consumer, Producer, Categorical} }

// Estimate fills P and its interval from the counts of m.
func Estimate(m Materiality) Materiality {
	m.P = float64(m.Changed) / float64(m.Asked)
	m.Low, m.High = ClopperPearson(m.Changed, m.Asked)
	return m
}

// ClopperPearson is the exact two-sided 95 % interval of a probability of which k of n tries were hits.
func ClopperPearson(k, n int) (low, high float64) {
	const tail = 0.025
	high = 1
	if k > 0 { // the p at which k or more hits have probability 2.5 %
		low = root(func(p float64) bool { return 1-atMost(k-1, n, p) < tail })
	}
	if k < n { // the p at which k or fewer have it
		high = root(func(p float64) bool { return atMost(k, n, p) > tail })
	}
	return low, high
}

// root is the greatest p for which a condition holds that holds below one point.
func root(below func(float64) bool) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		if middle := (low + high) / 2; below(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// atMost is the probability of at most k hits in n tries.
func atMost(k, n int, p float64) (sum float64) {
	if p <= 0 {
		return 1
	}
	for i := range k + 1 {
		sum += math.Exp(choose(n, i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

func choose(n, k int) float64 {
	of := func(n int) float64 { v, _ := math.Lgamma(float64(n) + 1); return v }
	return of(n) - of(k) - of(n-k)
}
