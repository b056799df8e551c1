package sequencer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The bounds of a scope; a text beyond one of them is refused by ParseScope.
const (
	// MaxScopeBytes is the length of the longest scope, as written and in its canonical form, in bytes.
	MaxScopeBytes = 1024
	// MaxScopeTypeBytes is the length of the longest type of a scope, in bytes.
	MaxScopeTypeBytes = 32
	// MaxScopeSegments is the greatest number of segments in a path.
	MaxScopeSegments = 16
	// MaxScopeStars is the greatest number of `*` segments in a path.
	MaxScopeStars = 2
)

// star is the segment that stands for any one segment. A literal star is always written %2A.
const star = "*"

var (
	// ErrScope is matched by every error that ParseScope returns.
	ErrScope = errors.New("invalid scope")
	// ErrScopeForm is returned by ParseScope when the text is not `type:/path`.
	ErrScopeForm = errors.New("write it as type:/path, for example shard:/orders/17, or type:/ for all of a type")
	// ErrScopeType is returned by ParseScope when the part before the colon is no type.
	ErrScopeType = errors.New("the type before the first colon must be a letter followed by letters, digits, " +
		"'-', '_' or '.', at most 32 bytes")
	// ErrScopeAbove is returned by ParseScope when `..` climbs above the root of the type.
	ErrScopeAbove = errors.New("'..' climbs above the root: remove it or write the full path")
	// ErrScopeEscape is returned by ParseScope when a percent sign is not followed by two hexadecimal digits.
	ErrScopeEscape = errors.New("a '%' must be followed by two hexadecimal digits: write a literal percent sign as %25")
	// ErrScopeUTF8 is returned by ParseScope when a segment is not UTF-8 once its escapes are decoded.
	ErrScopeUTF8 = errors.New("not valid UTF-8 after decoding: encode the name as UTF-8 and escape those bytes")
	// ErrScopeStar is returned by ParseScope when a star stands where it has no meaning.
	ErrScopeStar = errors.New("'*' must be a segment of its own and '**' the last one: write a literal star as %2A")
	// ErrScopeStars is returned by ParseScope when the path has more than MaxScopeStars wildcards.
	ErrScopeStars = errors.New("at most 2 segments may be '*': name the others, or end the scope earlier")
	// ErrScopeDeep is returned by ParseScope when the path has more than MaxScopeSegments segments.
	ErrScopeDeep = errors.New("at most 16 segments: end the scope earlier, it names everything below it")
	// ErrScopeLong is returned by ParseScope when the text is longer than MaxScopeBytes, or becomes so by escaping.
	ErrScopeLong = errors.New("at most 1024 bytes, escapes included: shorten it, or use a hash of the long name")
)

// Scope is the canonical text of a hierarchical resource name, `type:/seg/seg`. It names the resource at its path and
// everything below it; a `*` segment stands for any one segment.
//
// Two canonical scopes with the same decoded segments are the same text: a segment keeps A-Z a-z 0-9 - . _ ~ as they
// are and every other byte as an upper-case escape. The converse is not true: `a:/x` and `a:/*` overlap though their
// texts differ, so compare with Overlaps and Covers, and with == only to find the same written scope again.
type Scope string

// ParseScope returns the canonical form of a scope. The type is lower-cased, empty and `.` segments are dropped, `..`
// removes the segment before it, escapes are normalised (before dots are looked at, so an escaped `..` climbs too;
// %2F stays inside its segment and %2A is no wildcard), and a final `**` is dropped because a scope names its subtree
// anyway. An error matches ErrScope and the one of the ErrScope... errors that says what to write instead.
func ParseScope(text string) (Scope, error) {
	if s := Scope(text); s.valid() {
		return s, nil
	}
	s, err := canonicalScope(text)
	if err != nil {
		return "", fmt.Errorf("%w %.80q: %w", ErrScope, text, err)
	}
	return s, nil
}

func canonicalScope(text string) (Scope, error) {
	if len(text) > MaxScopeBytes {
		return "", ErrScopeLong
	}
	kind, path, found := strings.Cut(text, ":")
	if !found {
		return "", ErrScopeForm
	}
	kind = lowerASCII(kind)
	if !isScopeType(kind) {
		return "", ErrScopeType
	}
	if !strings.HasPrefix(path, "/") {
		return "", ErrScopeForm
	}
	segments, err := canonicalPath(path)
	if err != nil {
		return "", err
	}
	s := Scope(kind + ":/" + strings.Join(segments, "/"))
	if len(s) > MaxScopeBytes {
		return "", ErrScopeLong
	}
	return s, nil
}

func canonicalPath(path string) ([]string, error) {
	var segments []string
	subtree := false
	for written := range strings.SplitSeq(path, "/") {
		segment, err := canonicalPiece(written)
		if err != nil {
			return nil, fmt.Errorf("segment %.80q: %w", written, err)
		}
		switch {
		case segment == "" || segment == ".":
			continue
		case subtree:
			return nil, ErrScopeStar
		case segment == "**":
			subtree = true
		case segment == ".." && len(segments) == 0:
			return nil, ErrScopeAbove
		case segment == "..":
			segments = segments[:len(segments)-1]
		default:
			segments = append(segments, segment)
		}
	}
	stars := 0
	for _, segment := range segments {
		if segment == star {
			stars++
		}
	}
	if len(segments) > MaxScopeSegments {
		return nil, ErrScopeDeep
	}
	if stars > MaxScopeStars {
		return nil, ErrScopeStars
	}
	return segments, nil
}

// canonicalPiece normalises what stands between two slashes; `*`, `**` and the dots come back as they are.
func canonicalPiece(written string) (string, error) {
	if written == star || written == "**" {
		return written, nil
	}
	if strings.Contains(written, star) {
		return "", ErrScopeStar
	}
	name := make([]byte, 0, len(written))
	for i := 0; i < len(written); i++ {
		b := written[i]
		if b == '%' {
			var ok bool
			if b, ok = unescape(written[i:]); !ok {
				return "", ErrScopeEscape
			}
			i += 2
		}
		name = append(name, b)
	}
	if !utf8.Valid(name) {
		return "", ErrScopeUTF8
	}
	var out strings.Builder
	for _, b := range name {
		if isUnreserved(b) {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String(), nil
}

// valid reports whether s is its own canonical form.
func (s Scope) valid() bool {
	kind, path, ok := s.split()
	if !ok || len(s) > MaxScopeBytes || !isScopeType(kind) {
		return false
	}
	segments, stars := 0, 0
	for more := path != ""; more; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		segments++
		if segment == star {
			stars++
		} else if !isScopeSegment(segment) {
			return false
		}
	}
	return segments <= MaxScopeSegments && stars <= MaxScopeStars
}

// Type returns the part before the colon, in lower case.
func (s Scope) Type() string {
	kind, _, _ := s.split()
	return kind
}

// Segments returns the path as canonical (still escaped) segments; the root of a type has none.
func (s Scope) Segments() []string {
	_, path, _ := s.split()
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// IsShard reports whether s names content that Hence itself keeps.
func (s Scope) IsShard() bool { return strings.HasPrefix(string(s), "shard:/") }

// HasStar reports whether a segment of s is a wildcard.
func (s Scope) HasStar() bool { return strings.IndexByte(string(s), '*') >= 0 }

// Overlaps reports whether some resource is named by both: same type, and up to the end of the shorter path each
// pair of segments is equal or has a `*`. It is symmetric but not transitive: `a:/x` and `a:/y` both overlap `a:/`.
func (s Scope) Overlaps(o Scope) bool {
	kind, a, ok := s.split()
	if !ok || !strings.HasPrefix(string(o), string(s[:len(kind)+2])) {
		return false
	}
	b := string(o[len(kind)+2:])
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, "/")
		y, b, _ = strings.Cut(b, "/")
		if x != y && x != star && y != star {
			return false
		}
	}
	return true
}

// Covers reports whether s names every resource that o can name. A `*` of o is covered only by a `*` of s.
func (s Scope) Covers(o Scope) bool {
	kind, a, ok := s.split()
	if !ok || !strings.HasPrefix(string(o), string(s[:len(kind)+2])) {
		return false
	}
	b := string(o[len(kind)+2:])
	for a != "" {
		if b == "" {
			return false
		}
		var x, y string
		x, a, _ = strings.Cut(a, "/")
		y, b, _ = strings.Cut(b, "/")
		if x != y && x != star {
			return false
		}
	}
	return true
}

// split returns the type and the path without its leading slash; ok is false when s is not of the form `type:/path`.
func (s Scope) split() (kind, path string, ok bool) {
	i := strings.IndexByte(string(s), ':')
	if i < 1 || i+1 >= len(s) || s[i+1] != '/' {
		return "", "", false
	}
	return string(s[:i]), string(s[i+2:]), true
}

// isScopeType reports whether text is a canonical (lower-case) type.
func isScopeType(text string) bool {
	if text == "" || len(text) > MaxScopeTypeBytes || text[0] < 'a' || text[0] > 'z' {
		return false
	}
	for i := 1; i < len(text); i++ {
		b := text[i]
		if !isUnreserved(b) || b == '~' || 'A' <= b && b <= 'Z' {
			return false
		}
	}
	return true
}

// isScopeSegment reports whether text is a canonical segment other than `*`.
func isScopeSegment(text string) bool {
	if text == "" || text == "." || text == ".." {
		return false
	}
	var char [utf8.UTFMax]byte // the bytes so far of a character beyond ASCII; all of them are escapes
	held := 0
	for i := 0; i < len(text); i++ {
		b := text[i]
		if b != '%' {
			if held > 0 || !isUnreserved(b) {
				return false
			}
			continue
		}
		b, ok := unescape(text[i:])
		if !ok || isUnreserved(b) || isLowerHex(text[i+1]) || isLowerHex(text[i+2]) {
			return false
		}
		i += 2
		char[held] = b
		held++
		if utf8.FullRune(char[:held]) {
			if !utf8.Valid(char[:held]) {
				return false
			}
			held = 0
		}
	}
	return held == 0
}

// isUnreserved reports whether b stands for itself in a canonical segment (the unreserved characters of RFC 3986).
func isUnreserved(b byte) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		return true
	}
	return b == '-' || b == '.' || b == '_' || b == '~'
}

func isLowerHex(b byte) bool { return 'a' <= b && b <= 'f' }

// unescape decodes the escape that text begins with.
func unescape(text string) (b byte, ok bool) {
	if len(text) < 3 {
		return 0, false
	}
	for _, digit := range []byte(text[1:3]) {
		switch {
		case '0' <= digit && digit <= '9':
			b = b<<4 | (digit - '0')
		case 'a' <= digit && digit <= 'f':
			b = b<<4 | (digit - 'a' + 10)
		case 'A' <= digit && digit <= 'F':
			b = b<<4 | (digit - 'A' + 10)
		default:
			return 0, false
		}
	}
	return b, true
}

// lowerASCII folds A-Z only: strings.ToLower would turn other letters, the Kelvin sign among them, into ASCII ones.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}
