package sequencer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseScope(t *testing.T) {
	deep := "t:" + strings.Repeat("/s", MaxScopeSegments)
	tests := []struct{ name, text, want string }{
		{"canonical", "shard:/orders/17", "shard:/orders/17"},
		{"root", "shard:/", "shard:/"},
		{"type in upper case", "Shard:/Orders", "shard:/Orders"},
		{"type with all it may hold", "A-1_b.c:/x", "a-1_b.c:/x"},
		{"longest type", strings.Repeat("T", MaxScopeTypeBytes) + ":/x", strings.Repeat("t", MaxScopeTypeBytes) + ":/x"},
		{"trailing slash", "shard:/a/", "shard:/a"},
		{"double slashes", "shard://a///b//", "shard:/a/b"},
		{"dot", "shard:/./a/./b/.", "shard:/a/b"},
		{"dot dot", "shard:/a/b/../c", "shard:/a/c"},
		{"dot dot to the root", "shard:/a/..", "shard:/"},
		{"dot dot over a star", "shard:/a/*/..", "shard:/a"},
		{"three dots are a name", "shard:/a/...", "shard:/a/..."},
		{"escaped dots", "shard:/a/b/%2e%2E/%2e/c", "shard:/a/c"},
		{"half escaped dots", "shard:/a/b/.%2e", "shard:/a"},
		{"escaped unreserved", "shard:/%61%2d%5F%7e%39", "shard:/a-_~9"},
		{"escape in lower case", "shard:/a%c3%a9", "shard:/a%C3%A9"},
		{"raw UTF-8", "shard:/aé", "shard:/a%C3%A9"},
		{"escaped and raw halves", "shard:/\xc3%a9", "shard:/%C3%A9"},
		{"reserved, raw and escaped", "mail:/a@b+c%40%2b", "mail:/a%40b%2Bc%40%2B"},
		{"colon in a segment", "url:/http:%2F%2Fx", "url:/http%3A%2F%2Fx"},
		{"escaped slash stays inside", "file:/a%2fb/c", "file:/a%2Fb/c"},
		{"escaped slash and dots", "file:/a%2F..%2Fb", "file:/a%2F..%2Fb"},
		{"escaped percent is decoded once", "file:/%2541", "file:/%2541"},
		{"control characters", "file:/a\x00b\nc%7F", "file:/a%00b%0Ac%7F"},
		{"space and number sign", "shard:/#W 1", "shard:/%23W%201"},
		{"star", "shard:/a/*/b", "shard:/a/*/b"},
		{"star at the end", "shard:/a/*", "shard:/a/*"},
		{"escaped star", "shard:/a/%2a", "shard:/a/%2A"},
		{"escaped star in a name", "shard:/a%2Ab", "shard:/a%2Ab"},
		{"subtree", "shard:/a/**", "shard:/a"},
		{"subtree of the root", "shard:/**", "shard:/"},
		{"subtree with a slash", "shard:/a/**//.", "shard:/a"},
		{"two stars and a subtree", "shard:/*/*/**", "shard:/*/*"},
		{"most segments", deep, deep},
		{"most segments and a subtree", deep + "/**", deep},
		{"deep on the way only", deep + "/x/../../y", deep[:len(deep)-1] + "y"},
		{"longest", "t:/" + strings.Repeat("x", MaxScopeBytes-3), "t:/" + strings.Repeat("x", MaxScopeBytes-3)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseScope(test.text)
			if err != nil || string(got) != test.want {
				t.Fatalf("ParseScope(%q) = %q, %v; want %q", test.text, got, err, test.want)
			}
		})
	}
}

func TestParseScopeErrors(t *testing.T) {
	tests := []struct {
		name, text string
		want       error
	}{
		{"empty", "", ErrScopeForm},
		{"no colon", "shard/orders", ErrScopeForm},
		{"no path", "shard:", ErrScopeForm},
		{"no leading slash", "shard:orders/17", ErrScopeForm},
		{"no type", ":/orders", ErrScopeType},
		{"type begins with a digit", "7up:/orders", ErrScopeType},
		{"slash in the type", "a/b:/orders", ErrScopeType},
		{"tilde in the type", "a~:/orders", ErrScopeType},
		{"escape in the type", "%61:/orders", ErrScopeType},
		{"star in the type", "*:/orders", ErrScopeType},
		{"letter beyond ASCII in the type", "\u212aey:/orders", ErrScopeType},
		{"type not UTF-8", "a\xff:/orders", ErrScopeType},
		{"type too long", strings.Repeat("t", MaxScopeTypeBytes+1) + ":/x", ErrScopeType},
		{"above the root", "shard:/..", ErrScopeAbove},
		{"above the root after coming back", "shard:/a/../../b", ErrScopeAbove},
		{"above the root, escaped", "shard:/a/%2e%2e/%2E%2E", ErrScopeAbove},
		{"escape cut off", "shard:/a%2", ErrScopeEscape},
		{"escape cut off by a slash", "shard:/a%/2f", ErrScopeEscape},
		{"escape not hexadecimal", "shard:/a%zz", ErrScopeEscape},
		{"bad escape in a segment that is removed", "shard:/%zz/../a", ErrScopeEscape},
		{"raw bytes not UTF-8", "shard:/\xff", ErrScopeUTF8},
		{"escaped bytes not UTF-8", "shard:/%C3", ErrScopeUTF8},
		{"UTF-8 cut by a name", "shard:/%C3a%A9", ErrScopeUTF8},
		{"UTF-8 cut by a slash", "shard:/%C3/%A9", ErrScopeUTF8},
		{"UTF-8 too long for its character", "shard:/%C0%AF", ErrScopeUTF8},
		{"surrogate", "shard:/%ED%A0%80", ErrScopeUTF8},
		{"star inside a name", "shard:/a*b", ErrScopeStar},
		{"three stars", "shard:/***", ErrScopeStar},
		{"star beside an escaped star", "shard:/*%2A", ErrScopeStar},
		{"subtree inside", "shard:/**/a", ErrScopeStar},
		{"subtree twice", "shard:/a/**/**", ErrScopeStar},
		{"climb out of a subtree", "shard:/a/**/..", ErrScopeStar},
		{"too many stars", "shard:/*/*/*", ErrScopeStars},
		{"too deep", "t:" + strings.Repeat("/s", MaxScopeSegments+1), ErrScopeDeep},
		{"too long", "t:/" + strings.Repeat("x", MaxScopeBytes-2), ErrScopeLong},
		{"too long once escaped", "t:/" + strings.Repeat("@", MaxScopeBytes/2), ErrScopeLong},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseScope(test.text)
			if got != "" || !errors.Is(err, test.want) || !errors.Is(err, ErrScope) {
				t.Fatalf("ParseScope(%q) = %q, %v; want %v", test.text, got, err, test.want)
			}
			if Scope(test.text).valid() {
				t.Fatalf("%q is refused but valid", test.text)
			}
			if len(err.Error()) > 900 {
				t.Fatalf("error of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestScopeValid holds the quick check against what it abbreviates.
func TestScopeValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := scopeTexts().Draw(t, "text")
		want, err := canonicalScope(text)
		if got := Scope(text).valid(); got != (err == nil && string(want) == text) {
			t.Fatalf("valid(%q) = %v, but its canonical form is %q, %v", text, got, want, err)
		}
		if err == nil && !want.valid() {
			t.Fatalf("canonical form %q of %q is not valid", want, text)
		}
		if got, gotErr := ParseScope(text); got != want || (gotErr == nil) != (err == nil) {
			t.Fatalf("ParseScope(%q) = %q, %v; want %q, %v", text, got, gotErr, want, err)
		}
		if again, err := canonicalScope(string(want)); want != "" && (err != nil || again != want) {
			t.Fatalf("canonical form %q becomes %q, %v", want, again, err)
		}
	})
}

func TestScopeParts(t *testing.T) {
	tests := []struct {
		scope       Scope
		kind        string
		segments    []string
		shard, star bool
	}{
		{"shard:/", "shard", nil, true, false},
		{"shard:/a%2Fb/%2A", "shard", []string{"a%2Fb", "%2A"}, true, false},
		{"shards:/a/*", "shards", []string{"a", "*"}, false, true},
		{"", "", nil, false, false},
	}
	for _, test := range tests {
		s := test.scope
		if s.Type() != test.kind || !slices.Equal(s.Segments(), test.segments) ||
			s.IsShard() != test.shard || s.HasStar() != test.star {
			t.Errorf("%q: %q %q %v %v", s, s.Type(), s.Segments(), s.IsShard(), s.HasStar())
		}
	}
}

func TestScopeOverlapsAndCovers(t *testing.T) {
	tests := []struct {
		a, b                    Scope
		overlap, covers, inside bool // inside: b covers a
	}{
		{"t:/a", "t:/a", true, true, true},
		{"t:/a", "t:/a/b", true, true, false},
		{"t:/", "t:/a/b", true, true, false},
		{"t:/a", "t:/ab", false, false, false},
		{"t:/a", "tt:/a", false, false, false},
		{"t:/", "tt:/", false, false, false},
		{"t:/*", "t:/a", true, true, false},
		{"t:/*", "t:/*", true, true, true},
		{"t:/*", "t:/", true, false, true},
		{"t:/*", "t:/a/b", true, true, false},
		{"t:/*/x", "t:/a", true, false, false},
		{"t:/*/x", "t:/a/y", false, false, false},
		{"t:/*/x", "t:/a/*", true, false, false},
		{"t:/%2A", "t:/a", false, false, false},
		{"t:/*", "t:/%2A", true, true, false},
		{"t:/a%2Fb", "t:/a/b", false, false, false},
		{"", "t:/a", false, false, false},
		{"", "", false, false, false},
	}
	for _, test := range tests {
		if test.a.Overlaps(test.b) != test.overlap || test.b.Overlaps(test.a) != test.overlap {
			t.Errorf("%q, %q: overlap is not %v", test.a, test.b, test.overlap)
		}
		if test.a.Covers(test.b) != test.covers || test.b.Covers(test.a) != test.inside {
			t.Errorf("%q, %q: cover is not %v, %v", test.a, test.b, test.covers, test.inside)
		}
	}
}

func TestScopeRelationsEqualTheirDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := scopes().Draw(t, "a"), scopes().Draw(t, "b"), scopes().Draw(t, "c")
		if got := a.Overlaps(b); got != slowOverlaps(a, b) || got != b.Overlaps(a) {
			t.Fatalf("%q overlaps %q: %v, the other way %v", a, b, got, b.Overlaps(a))
		}
		if got := a.Covers(b); got != slowCovers(a, b) || got && !a.Overlaps(b) {
			t.Fatalf("%q covers %q: %v, overlaps %v", a, b, got, a.Overlaps(b))
		}
		if a.Covers(b) && b.Covers(c) && !a.Covers(c) {
			t.Fatalf("%q covers %q covers %q, but the first not the last", a, b, c)
		}
		if a.Covers(b) && b.Covers(a) && a != b {
			t.Fatalf("%q and %q cover each other", a, b)
		}
		if a.Covers(b) && b.Overlaps(c) && !a.Overlaps(c) {
			t.Fatalf("%q covers %q, which overlaps %q, but it does not itself", a, b, c)
		}
	})
}

func TestScopeHotPathsDoNotAllocate(t *testing.T) {
	a, b := Scope("shard:/retail/*/%C3%A9/items"), Scope("shard:/retail/orders/%C3%A9")
	allocs := testing.AllocsPerRun(100, func() {
		if !a.valid() || !a.Overlaps(b) || b.Covers(a) || !b.IsShard() || b.HasStar() || b.Type() != "shard" {
			t.Fatal("wrong answer")
		}
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}

func FuzzParseScope(f *testing.F) {
	for _, text := range []string{"shard:/a/b", "T:/%2e%2E/x", "t:/*/**", "t:/%C3%A9/\x00", "t://a/./../b/", "a*:/x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScope(text)
		if err != nil {
			if s != "" || !errors.Is(err, ErrScope) {
				t.Fatalf("ParseScope(%q) = %q, %v", text, s, err)
			}
			return
		}
		if again, err := canonicalScope(string(s)); err != nil || again != s {
			t.Fatalf("ParseScope(%q) = %q, which becomes %q, %v", text, s, again, err)
		}
		if !s.valid() || !s.Overlaps(s) || !s.Covers(s) || len(s.Segments()) > MaxScopeSegments {
			t.Fatalf("ParseScope(%q) = %q, which does not hold together", text, s)
		}
	})
}

// scopeTexts draws texts of which most are nearly scopes.
func scopeTexts() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{
		"a", "B", "é", "\xc3", "%C3%A9", "%c3", "%A9", "%E2%82%AC", "%2F", "%2f", "%2A", "%2a", "%41", "%", "%4", "%00",
		".", "..", "%2E", "*", "**", "/", "/", "/", "//", "@", "~", " ", ":", "\n",
	})
	return rapid.Custom(func(t *rapid.T) string {
		start := rapid.SampledFrom([]string{"t:/", "t:/", "t:/", "T:/", "shard:/", "t:", "", ":/", "t~:/"}).Draw(t, "start")
		return start + strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
	})
}

// scopes draws scopes of which many overlap.
func scopes() *rapid.Generator[Scope] {
	segment := rapid.SampledFrom([]string{"a", "a", "b", "ab", "%2A", "%21", "*"})
	return rapid.Custom(func(t *rapid.T) Scope {
		segments := rapid.SliceOfN(segment, 0, 4).Draw(t, "segments")
		stars := 0
		for i, s := range segments {
			if s == star {
				if stars++; stars > MaxScopeStars {
					segments[i] = "a"
				}
			}
		}
		s := Scope(rapid.SampledFrom([]string{"t", "t", "t", "ta"}).Draw(t, "type") + ":/" + strings.Join(segments, "/"))
		if !s.valid() {
			t.Fatalf("drew %q, which is no scope", s)
		}
		return s
	})
}

func slowOverlaps(a, b Scope) bool {
	x, y := a.Segments(), b.Segments()
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] && x[i] != star && y[i] != star {
			return false
		}
	}
	return a.Type() == b.Type()
}

func slowCovers(a, b Scope) bool {
	x, y := a.Segments(), b.Segments()
	if a.Type() != b.Type() || len(x) > len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] && x[i] != star {
			return false
		}
	}
	return true
}
