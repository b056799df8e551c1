package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/sequencer"
)

// typos are the texts that one mistake makes of a word: a letter too few, too many, wrong, or swapped with the next.
func typos(word string) []string {
	const letters = "aeirsv_x"
	var out []string
	for i := range len(word) + 1 {
		for _, r := range letters {
			out = append(out, word[:i]+string(r)+word[i:])
			if i < len(word) {
				out = append(out, word[:i]+string(r)+word[i+1:])
			}
		}
		if i < len(word) {
			out = append(out, word[:i]+word[i+1:])
		}
		if i+1 < len(word) {
			out = append(out, word[:i]+word[i+1:i+2]+word[i:i+1]+word[i+2:])
		}
	}
	return out
}

// For every class with one typo or two, the hint is no less safe than any other class that is as near, or one letter
// farther, and where a less safe one may be meant it says when each of them runs.
func TestClassHintsAreSafe(t *testing.T) {
	safest := []sequencer.Class{sequencer.ClassIrreversible, sequencer.ClassBufferable, sequencer.ClassReversible,
		sequencer.ClassKnownOutcome, sequencer.ClassRead}
	seen := map[string]bool{}
	check := func(text string) {
		if seen[text] {
			return
		}
		seen[text] = true
		fix := classFix(text)
		_, rest, ok := strings.Cut(fix, `write "`)
		if !ok {
			return
		}
		name, _, _ := strings.Cut(rest, `"`)
		hinted := slices.IndexFunc(safest, func(c sequencer.Class) bool { return c.String() == name })
		for i, c := range safest {
			if i < hinted && spelling.Distance(text, c.String()) <= max(1, len(text)/3) &&
				spelling.Distance(text, c.String()) <= spelling.Distance(text, name)+1 {
				t.Errorf("%q: %s; %s is safer, %d away and not %d", text, fix, c, spelling.Distance(text, c.String()),
					spelling.Distance(text, name))
			}
		}
	}
	for _, c := range safest {
		for _, one := range typos(c.String()) {
			if len(one) > 5 && nearClasses(one) == nil { // of a short word two letters are half
				t.Errorf("%q: nothing is near", one)
			}
			check(one)
			for _, two := range typos(one) {
				check(two)
			}
		}
	}
	if len(seen) < 50_000 {
		t.Errorf("only %d texts", len(seen))
	}
	for text, want := range map[string]string{
		"ireversible":    `write "irreversible" (it waits for the commit), unless "reversible" (it runs at once) is meant`,
		"IRREVERSABLE":   `write "irreversible"`,
		"reversable":     `write "reversible"`,
		"known-outcome":  `write "known_outcome"`,
		"transactional?": "use one of irreversible, bufferable, reversible, known_outcome, read",
	} {
		if got := classFix(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A key that may be one of two is not guessed.
func TestHintsNameAllThatAreAsNear(t *testing.T) {
	if got := keyFix("keye", []string{"tool", "key", "keyed"}); got != `write "key" or "keyed"` {
		t.Error(got)
	}
	if got := keyFix("keyedd", []string{"tool", "key", "keyed"}); got != `write "keyed"` {
		t.Error(got)
	}
}
