package topology

import (
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/hence-dev/hence/sequencer"
)

// A name can be spelt in several ways that look the same: é is one character (NFC) or an e with an accent behind it
// (NFD). The fold compares bytes, so to it these are two names that never overlap. Everything that takes a name from
// people, from agents or from a policy therefore reads it with the functions here; the fold, and what is stored, stay
// as they are.

// NormalName is the one spelling of a name: Unicode NFC.
func NormalName(text string) string { return norm.NFC.String(text) }

// ParseScope reads a scope as sequencer.ParseScope does and gives each of its names its one spelling. What is stored
// under another spelling is found with sequencer.ParseScope only.
func ParseScope(text string) (sequencer.Scope, error) {
	scope, err := sequencer.ParseScope(text)
	if err != nil {
		return "", err
	}
	return NormalScope(scope)
}

// NormalScope gives each name of a scope its one spelling. It fails with sequencer.ErrScopeLong when the scope becomes
// too long by that; names with few escapes become shorter, if anything.
func NormalScope(scope sequencer.Scope) (sequencer.Scope, error) {
	if IsNormal(scope) {
		return scope, nil
	}
	segments := scope.Segments()
	for i, segment := range segments {
		segments[i] = normalSegment(segment)
	}
	out, err := sequencer.ParseScope(scope.Type() + ":/" + strings.Join(segments, "/"))
	if err != nil {
		return "", fmt.Errorf("in its composed spelling (NFC): %w", err)
	}
	return out, nil
}

// IsNormal reports whether a scope's names have their one spelling.
func IsNormal(scope sequencer.Scope) bool {
	if strings.IndexByte(string(scope), '%') < 0 {
		return true // nothing beyond ASCII
	}
	for _, segment := range scope.Segments() {
		if normalSegment(segment) != segment {
			return false
		}
	}
	return true
}

// normalSegment works on one name at a time: an accent does not join the slash before it.
func normalSegment(segment string) string {
	name, err := url.PathUnescape(segment)
	if err != nil || norm.NFC.IsNormalString(name) {
		return segment
	}
	return EscapeSegment(norm.NFC.String(name))
}

// EscapeSegment writes a name so that it is one segment of a scope, whatever it holds: a slash, a star, a percent sign
// and every other byte that has a meaning there become escapes.
func EscapeSegment(name string) string {
	var out strings.Builder
	for _, b := range []byte(name) {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9',
			b == '-', b == '.', b == '_', b == '~':
			out.WriteByte(b)
		default:
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}
