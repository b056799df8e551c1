package tenlines

import (
	"strings"
	"testing"
)

func TestChanged(t *testing.T) {
	for _, c := range []struct {
		before, after string
		want          int
	}{{"", "", 0}, {"a b c", "a b c", 0}, {"a b c", "a x c", 2}, {"a b c", "b c", 1}, {"", "a b", 2},
		{"a b c d", "x a c d y", 3}, {"a b", "b a", 2}} {
		if got := Changed(strings.Fields(c.before), strings.Fields(c.after)); got != c.want {
			t.Errorf("%q to %q: %d lines, wanted %d", c.before, c.after, got, c.want)
		}
	}
}
