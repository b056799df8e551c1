package sbus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestMergeByRegions(t *testing.T) {
	for _, x := range []struct{ base, mine, theirs, want string }{
		{"a\n", "a\nb\n", "a\nc\n", "a\nc\nb\n"},
		{"a", "a\nb", "a\nc", "a\nc\nb"},
		{"", "b", "c", "c\nb"},
		{"a\n", "a\nb\n", "a\nb\n", "a\nb\n"},
		{"# one\n1\n# two\n2\n", "# one\n1\nmine\n# two\n2\n", "# one\n1\n# two\n2\ntheirs\n",
			"# one\n1\nmine\n# two\n2\ntheirs\n"},
		{"# one\n1\n", "# one\n1\n# mine\nm\n", "# one\n1\n# theirs\nt\n", "# one\n1\n# theirs\nt\n# mine\nm\n"},
		// A region that only theirs has rewritten goes with additions elsewhere.
		{"# one\n1\n# two\n2\n", "# one\n1\n# two\n2\nm\n", "# one\nx\n# two\n2\n", "# one\nx\n# two\n2\nm\n"},
		// Not additive, or of one region both.
		{"a\n", "b\n", "a\nc\n", "-"}, {"a\n", "a\nb\n", "c\n", "-"},
		{"# one\n1\n", "", "# one\n1\n2\n", "-"}, {"# one\n1\n", "# one\n1\nm\n", "# two\n", "-"},
		{"# one\n# one\n", "# one\n# one\nm\n", "# one\n# one\nt\n", "-"},
	} {
		got, ok := merge(x.base, x.mine, x.theirs)
		if !ok {
			got = "-"
		}
		if got != x.want {
			t.Errorf("%q and %q on %q: %q, want %q", x.mine, x.theirs, x.base, got, x.want)
		}
	}
}

// Whatever two have added, a merge has all lines of both, each region's in the order of each.
func TestMergeLosesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	grow := func(base []region, by string) (out []region) {
		out = slices.Clone(base)
		for i := range rng.IntN(4) {
			line := fmt.Sprint(by, i, "\n")
			if rng.IntN(3) == 0 {
				out = append(out, region{fmt.Sprint("# ", by, i, " head"), "\n" + line})
				continue
			}
			out[rng.IntN(len(base))].body += line
		}
		return out
	}
	text := func(list []region) (out string) {
		for _, r := range list {
			out += r.header + r.body
		}
		return out
	}
	for range 2000 {
		base := []region{{"", "top\n"}, {"# a", "\n"}, {"# b", "\nbody\n"}}
		mine, theirs := text(grow(base, "m")), text(grow(base, "t"))
		got, ok := merge(text(base), mine, theirs)
		if !ok {
			t.Fatalf("%q and %q do not merge", mine, theirs)
		}
		for _, all := range []string{mine, theirs} {
			for line := range strings.Lines(all) {
				if strings.Count(got, line) != 1 {
					t.Fatalf("%q and %q: %q has %q %d times", mine, theirs, got, line, strings.Count(got, line))
				}
			}
		}
	}
}

func TestClasses(t *testing.T) {
	yes, no := true, false
	for _, x := range []struct {
		n      int
		met    int // one in so many; zero: none
		hinted bool
		honest *bool
		want   string
	}{
		{30, 0, true, &yes, classDedicated}, {300, 30, true, &yes, classDedicated}, {300, 3, true, &yes, classCommutative},
		{300, 3, false, nil, classContended}, {300, 3, true, &no, classContended}, {300, 3, true, nil, classContended},
	} {
		var n nature
		for i := range x.n {
			n.note(x.met > 0 && i%x.met == 0, x.hinted, x.honest)
		}
		if n.class() != x.want || n.Attempts > recent {
			t.Errorf("%+v: %s of %+v", x, n.class(), n)
		}
	}
	var n nature // what was long ago counts little
	for i := range 3000 {
		n.note(i < 1000, false, nil)
	}
	if n.class() != classDedicated {
		t.Errorf("it stays %s: %+v", n.class(), n)
	}
}
