package topology

import (
	"errors"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// TestNormalScope holds that the spellings of a name become one scope, segment by segment, and that what has one
// spelling stays as it is.
func TestNormalScope(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"shard:/plain/a.b~c", "shard:/plain/a.b~c"},
		{"shard:/caf\u00e9", "shard:/caf%C3%A9"},
		{"shard:/cafe\u0301", "shard:/caf%C3%A9"},
		{"shard:/cafe%cc%81/x", "shard:/caf%C3%A9/x"},
		{"shard:/e%CC%81/*/o%CC%88/**", "shard:/%C3%A9/*/%C3%B6"},
		{"mail:/\u1112\u1161\u11ab", "mail:/%ED%95%9C"},
		{"shard:/a%2Fe%CC%81", "shard:/a%2F%C3%A9"},
		{"shard:/a/%CC%81b", "shard:/a/%CC%81b"},       // an accent stays in its segment
		{"shard:/%E2%84%AA", "shard:/K"},               // the Kelvin sign is K
		{"shard:/%EF%BC%8E%2A", "shard:/%EF%BC%8E%2A"}, // a wide dot is no dot, an escaped star no wildcard
	} {
		got, err := ParseScope(c.text)
		if err != nil || string(got) != c.want {
			t.Errorf("%q is %q (%v), want %q", c.text, got, err, c.want)
		}
		if again, err := NormalScope(got); err != nil || again != got || !IsNormal(got) {
			t.Errorf("%q is %q (%v) when it is read again", got, again, err)
		}
	}
	if IsNormal("shard:/e%CC%81") {
		t.Error("a decomposed name is taken for a composed one")
	}
}

// TestNormalScopeTooLong holds that a name that only fits while it is not composed is refused, not cut.
func TestNormalScopeTooLong(t *testing.T) {
	text := "shard:/" + strings.Repeat("%E0%A5%98", 112) // each becomes two characters in NFC
	if _, err := sequencer.ParseScope(text); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseScope(text); !errors.Is(err, sequencer.ErrScopeLong) {
		t.Fatalf("got %v", err)
	}
	if _, err := ParseScope("no scope"); !errors.Is(err, sequencer.ErrScopeForm) {
		t.Fatalf("got %v", err)
	}
}
