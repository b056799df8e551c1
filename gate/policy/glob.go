package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A glob is a tool's name in which `*` stands for any text and `?` for one character.

func isGlob(pattern string) bool { return strings.ContainsAny(pattern, "*?") }

// match reports whether a glob matches a name.
func match(pattern, name string) bool { return meets([]rune(pattern), []rune(name), false) }

// overlap reports whether some name is matched by both globs.
func overlap(a, b string) bool { return meets([]rune(a), []rune(b), true) }

// meets walks both texts at once. Row i of reach says after which prefixes of b the first i characters of a can stand.
// Wildcards of b count only when bothGlobs is set.
func meets(a, b []rune, bothGlobs bool) bool {
	wild := func(r rune) bool { return bothGlobs && r == '*' }
	reach := make([]bool, len(b)+1)
	reach[0] = true
	for j := 0; j < len(b) && wild(b[j]); j++ {
		reach[j+1] = true
	}
	for _, x := range a {
		next := make([]bool, len(b)+1)
		next[0] = reach[0] && x == '*'
		for j, y := range b {
			switch {
			case x == '*' || wild(y): // the run is empty, or takes one more
				next[j+1] = reach[j+1] || next[j]
			case x == '?' || x == y || bothGlobs && y == '?':
				next[j+1] = reach[j]
			}
		}
		reach = next
	}
	return reach[len(b)]
}

func checkName(tool string) error {
	switch {
	case tool == "":
		return errors.New("the tool has no name")
	case len(tool) > maxName:
		return fmt.Errorf("the tool's name is longer than %d bytes", maxName)
	case !utf8.ValidString(tool) || strings.ContainsFunc(tool, unicode.IsControl):
		return fmt.Errorf("the tool's name %.80q has characters that no name has", tool)
	}
	return nil
}
