// Package spelling guesses which known name a misspelt one was meant to be.
package spelling

import (
	"slices"
	"strings"
)

// Near returns the known names that a misspelt one may have been meant to be, best first and three at most: those that
// differ least, then those that share a word of it.
func Near(name string, known []string) []string {
	var out []string
	left := slices.Clone(known)
	for best := Nearest(name, left); best != ""; best = Nearest(name, left) {
		out = append(out, best)
		left = slices.DeleteFunc(left, func(k string) bool { return k == best })
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < 'a' || r > 'z' })
	for _, k := range left {
		if slices.ContainsFunc(words, func(w string) bool { return len(w) > 2 && strings.Contains(k, w) }) {
			out = append(out, k)
		}
	}
	return out[:min(len(out), 3)]
}

// Nearest returns the known name that differs least from a name; "" when none is near, or two are as near: about one
// letter in four may be missing, too much, other, or have changed places with its neighbour. A name that is the
// beginning of one known name only is near to it.
func Nearest(name string, known []string) string {
	best, least, tied := "", max(1, len(name)/4)+1, false
	for _, k := range known {
		switch d := distance(strings.ToLower(name), strings.ToLower(k)); {
		case d < least:
			best, least, tied = k, d, false
		case d == least && best != "":
			tied = true
		}
	}
	if tied {
		return "" // which one was meant is not ours to say
	}
	if best != "" || len(name) < 3 {
		return best
	}
	for _, k := range known {
		if strings.HasPrefix(strings.ToLower(k), strings.ToLower(name)) {
			if best != "" {
				return ""
			}
			best = k
		}
	}
	return best
}

// distance is how many such changes make b of a.
func distance(a, b string) int {
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
