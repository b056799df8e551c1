// Package spelling guesses which known name a misspelt one was meant to be.
package spelling

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// MaxName bounds what is compared, in bytes: a name may come from a request.
const MaxName = 200

// Nearest returns the known name that differs least from a name; "" when none is near, see Near, or two are as near. A
// name that begins one known name only is near to it.
func Nearest(name string, known []string) string {
	if near := nearest(name, known); len(near) > 0 {
		if len(near) > 1 {
			return "" // which one was meant is not ours to say
		}
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

// Quoted names the known names that a misspelt one is nearest to, all that are as near, quoted; "" when none is near.
func Quoted(name string, known []string) string {
	near := nearest(name, known)
	for i, k := range near {
		near[i] = strconv.Quote(k)
	}
	return strings.Join(near, " or ")
}

// nearest returns the known names that differ least from a name.
func nearest(name string, known []string) []string {
	near, cost := byDistance(name, known)
	n := 0
	for n < len(near) && cost[near[n]] == cost[near[0]] {
		n++
	}
	return near[:n]
}

// Near returns at most so many known names that a misspelt one may mean, the nearest first: about one letter in four
// may be missing, too much, other, or have changed places with its neighbour.
func Near(name string, known []string, most int) []string {
	near, _ := byDistance(name, known)
	return near[:min(len(near), most)]
}

// Similar returns those of Near, and then those that share a word with the name.
func Similar(name string, known []string, most int) []string {
	out, _ := byDistance(name, known)
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < 'a' || r > 'z' })
	for _, k := range known {
		shares := func(w string) bool { return len(w) > 2 && strings.Contains(strings.ToLower(k), w) }
		if !slices.Contains(out, k) && slices.ContainsFunc(words, shares) {
			out = append(out, k)
		}
	}
	return out[:min(len(out), most)]
}

func byDistance(name string, known []string) (near []string, cost map[string]int) {
	name = strings.ToLower(name[:min(len(name), MaxName)])
	cost = map[string]int{}
	for _, k := range known {
		if _, twice := cost[k]; twice {
			continue // else it would be as near as itself
		}
		if cost[k] = Distance(name, strings.ToLower(k)); cost[k] <= max(1, len(name)/4) {
			near = append(near, k)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(cost[a], cost[b]) })
	return near, cost
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
