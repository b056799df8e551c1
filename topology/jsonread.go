package topology

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonReader reads one JSON text, value by value, straight into what the caller has for it. It is as strict as
// encoding/json, which needs twice as long for a decision and has no bound on lists; the tests hold
// the two against each other. A null leaves its value zero.
type jsonReader struct {
	b      []byte
	at     int
	depth  int
	values int // items of all lists so far
	err    error
}

// Bounds of the reader, beside the size of the text.
const (
	maxJSONDepth  = 64
	maxJSONValues = 1 << 17
)

func (r *jsonReader) malformed(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: at byte %d: %s", ErrMalformed, r.at, fmt.Sprintf(format, args...))
	}
}

// peek is the next byte that is no space; zero when there is none or after an error.
func (r *jsonReader) peek() byte {
	for r.err == nil && r.at < len(r.b) {
		switch c := r.b[r.at]; c {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return c
		}
	}
	return 0
}

// expect takes one byte.
func (r *jsonReader) expect(c byte) bool {
	if got := r.peek(); got != c || c == 0 {
		r.malformed("%q where %q belongs", got, c)
		return false
	}
	r.at++
	return true
}

// literal takes a word if it is next.
func (r *jsonReader) literal(word string) bool {
	if r.peek() != word[0] || len(r.b)-r.at < len(word) || string(r.b[r.at:r.at+len(word)]) != word {
		return false
	}
	r.at += len(word)
	return true
}

// null takes a null if it is next, and says true after an error too: there is nothing more to read.
func (r *jsonReader) null() bool { return r.literal("null") || r.err != nil }

// each takes an object or a list; one takes what stands between two commas.
func (r *jsonReader) each(open, end byte, one func()) {
	if r.null() || !r.expect(open) {
		return
	}
	if r.depth++; r.depth > maxJSONDepth {
		r.malformed("more than %d levels", maxJSONDepth)
	}
	if r.peek() == end {
		r.at++
		r.depth--
		return
	}
	for r.err == nil {
		if r.values++; r.values > maxJSONValues {
			r.malformed("more than %d values", maxJSONValues)
		}
		one()
		if r.peek() == end {
			r.at++
			r.depth--
			return
		}
		r.expect(',')
	}
}

// object takes an object; member takes the value of the named member, or skips it.
func (r *jsonReader) object(member func(name string)) {
	r.each('{', '}', func() {
		name := r.raw()
		if r.expect(':') {
			member(string(name))
		}
	})
}

// list takes a list; item takes one value of it.
func (r *jsonReader) list(item func()) { r.each('[', ']', item) }

// text takes a string.
func (r *jsonReader) text() string {
	if r.null() {
		return ""
	}
	return string(r.raw())
}

// raw takes a string; what it returns is part of the text where nothing is escaped.
func (r *jsonReader) raw() []byte {
	if !r.expect('"') {
		return nil
	}
	from := r.at
	for r.at < len(r.b) {
		switch c := r.b[r.at]; {
		case c == '"':
			s := r.b[from:r.at]
			r.at++
			if !utf8.Valid(s) {
				r.malformed("a string is not UTF-8")
			}
			return s
		case c == '\\':
			return r.unescape(append(make([]byte, 0, 2*(r.at-from)+64), r.b[from:r.at]...))
		case c < ' ':
			r.malformed("the control character %#x in a string", c)
			return nil
		}
		r.at++
	}
	r.malformed("a string does not end")
	return nil
}

// unescape takes the rest of a string that begins with s.
func (r *jsonReader) unescape(s []byte) []byte {
	for r.err == nil && r.at < len(r.b) {
		c := r.b[r.at]
		r.at++
		switch {
		case c == '"':
			if !utf8.Valid(s) {
				r.malformed("a string is not UTF-8")
			}
			return s
		case c == '\\':
			s = r.escape(s)
		case c < ' ':
			r.malformed("the control character %#x in a string", c)
		default:
			s = append(s, c)
		}
	}
	r.malformed("a string does not end")
	return nil
}

// escape takes what follows a backslash.
func (r *jsonReader) escape(s []byte) []byte {
	if r.at == len(r.b) {
		return s
	}
	c := r.b[r.at]
	r.at++
	switch c {
	case '"', '\\', '/':
		return append(s, c)
	case 'b':
		return append(s, '\b')
	case 'f':
		return append(s, '\f')
	case 'n':
		return append(s, '\n')
	case 'r':
		return append(s, '\r')
	case 't':
		return append(s, '\t')
	case 'u':
		return utf8.AppendRune(s, r.codePoint())
	}
	r.malformed("the escape \\%c", c)
	return s
}

// codePoint takes four digits, and the second half of a pair if there is one; half a pair is U+FFFD.
func (r *jsonReader) codePoint() rune {
	first := r.hex4(r.at)
	if first < 0 {
		r.malformed("an escape without four digits")
		return utf8.RuneError
	}
	r.at += 4
	if !utf16.IsSurrogate(first) {
		return first
	}
	if r.at+2 <= len(r.b) && r.b[r.at] == '\\' && r.b[r.at+1] == 'u' {
		if c := utf16.DecodeRune(first, r.hex4(r.at+2)); c != utf8.RuneError {
			r.at += 6
			return c
		}
	}
	return utf8.RuneError
}

// hex4 is the number of four hexadecimal digits; -1 when they are none.
func (r *jsonReader) hex4(at int) rune {
	if at+4 > len(r.b) {
		return -1
	}
	var n rune
	for _, c := range r.b[at : at+4] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return n
}

// truth takes true or false.
func (r *jsonReader) truth() bool {
	switch {
	case r.null(), r.literal("false"):
		return false
	case r.literal("true"):
		return true
	}
	r.malformed("%q where true or false belongs", r.peek())
	return false
}

// digits takes the digits of a number without a fraction.
func (r *jsonReader) digits() uint64 {
	from := r.at
	var n uint64
	for r.at < len(r.b) && r.b[r.at] >= '0' && r.b[r.at] <= '9' {
		d := uint64(r.b[r.at] - '0')
		if n > (math.MaxUint64-d)/10 {
			r.malformed("a number is too large")
			return 0
		}
		n = n*10 + d
		r.at++
	}
	if r.at == from || r.at > from+1 && r.b[from] == '0' {
		r.malformed("no whole number")
	}
	if r.at < len(r.b) && (r.b[r.at] == '.' || r.b[r.at]|0x20 == 'e') {
		r.malformed("a number with a fraction or an exponent")
	}
	return n
}

// naturalOf takes an unsigned number.
func naturalOf[T ~uint32 | ~uint64](r *jsonReader) T {
	if r.null() {
		return 0
	}
	r.peek()
	n := r.digits()
	if uint64(T(n)) != n {
		r.malformed("the number %d does not fit its member", n)
	}
	return T(n)
}

// integerOf takes a signed number.
func integerOf[T ~int32 | ~int64](r *jsonReader) T {
	if r.null() {
		return 0
	}
	negative := r.peek() == '-'
	if negative {
		r.at++
	}
	n, limit := r.digits(), uint64(math.MaxInt64)
	if negative {
		limit++
	}
	v := int64(n)
	if negative {
		v = -v
	}
	if n > limit || int64(T(v)) != v {
		r.malformed("the number %d does not fit its member", n)
	}
	return T(v)
}

// skip takes any value.
func (r *jsonReader) skip() {
	switch c := r.peek(); {
	case c == '{':
		r.object(func(string) { r.skip() })
	case c == '[':
		r.list(r.skip)
	case c == '"':
		r.raw()
	case r.literal("null"), r.literal("true"), r.literal("false"):
	default:
		r.skipNumber()
	}
}

func (r *jsonReader) skipNumber() {
	from := r.at
	for r.at < len(r.b) {
		c := r.b[r.at]
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c|0x20 != 'e' {
			break
		}
		r.at++
	}
	if text := r.b[from:r.at]; r.err == nil && !validNumber(text) {
		r.malformed("%.20q is no value", text)
	}
}

// validNumber reports whether a text is a number of JSON's: what strconv reads, less the forms that JSON has not.
func validNumber(text []byte) bool {
	if len(text) == 0 || len(text) > 400 {
		return false
	}
	digits := text
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || digits[0] < '0' || digits[0] > '9' || digits[0] == '0' && len(digits) > 1 &&
		digits[1] >= '0' && digits[1] <= '9' {
		return false
	}
	for i, c := range digits {
		if c == '.' && (i+1 == len(digits) || digits[i+1] < '0' || digits[i+1] > '9') {
			return false
		}
	}
	_, err := strconv.ParseFloat(string(text), 64)
	return err == nil
}

// end holds that nothing follows.
func (r *jsonReader) end() {
	if r.peek() != 0 || r.err == nil && r.at < len(r.b) {
		r.malformed("something follows the value")
	}
}
