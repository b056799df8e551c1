package gate

import (
	"cmp"
	"slices"
	"strings"
)

// Nearest returns at most so many known names that a misspelt one may mean, the nearest first.
func Nearest(name string, known []string, most int) []string {
	name = strings.ToLower(name[:min(len(name), maxNearName)])
	var near []string
	cost := map[string]int{}
	for _, k := range known {
		if cost[k] = Distance(name, k); cost[k] <= max(1, len(name)/3) {
			near = append(near, k)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(cost[a], cost[b]) })
	return near[:min(len(near), most)]
}

const maxNearName = 200 // bytes of a name that are compared: it may come from a call

// Distance is how many letters must change to make b of a.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost = 1 + min(last, row[j], row[j+1])
			}
			last, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
