// Package spelling guesses which known name a misspelt one was meant to be.
package spelling

import (
	"cmp"
	"slices"
	"strings"
)

// maxName bounds what is compared, in bytes: a name may come from a request.
const maxName = 200

// Nearest returns the known name that differs least from a name; "" when none is near, see Near. A name that begins
// one known name only is near to it.
func Nearest(name string, known []string) string {
	if near := Near(name, known, 1); len(near) > 0 {
		return near[0]
	}
	if len(name) < 3 {
		return ""
	}
	begun := ""
	for _, k := range known {
		if strings.HasPrefix(strings.ToLower(k), strings.ToLower(name)) {
			if begun != "" {
				return ""
			}
			begun = k
		}
	}
	return begun
}

// Near returns at most so many known names that a misspelt one may mean, the nearest first: about one letter in four
// may be missing, too much, other, or have changed places with its neighbour.
func Near(name string, known []string, most int) []string {
	name = strings.ToLower(name[:min(len(name), maxName)])
	var near []string
	cost := map[string]int{}
	for _, k := range known {
		if cost[k] = Distance(name, strings.ToLower(k)); cost[k] <= max(1, len(name)/4) {
			near = append(near, k)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(cost[a], cost[b]) })
	return near[:min(len(near), most)]
}

// Distance is how many such changes make b of a.
func Distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			row[j] = min(last[j-1]+other, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
