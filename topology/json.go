package topology

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
)

// object appends the members of JSON objects; it keeps the first text that JSON cannot carry.
type object struct {
	b   []byte
	err error
}

func (j *object) open(bracket byte)  { j.b = append(j.b, bracket) }
func (j *object) close(bracket byte) { j.b = append(j.b, bracket) }

// item sets a comma unless it is the first of its object or list.
func (j *object) item() {
	if last := j.b[len(j.b)-1]; last != '{' && last != '[' {
		j.b = append(j.b, ',')
	}
}

// member begins a member; names need no escapes.
func (j *object) member(name string) {
	j.item()
	j.b = append(j.b, '"')
	j.b = append(j.b, name...)
	j.b = append(j.b, '"', ':')
}

// text appends a member unless it is empty.
func (j *object) text(name, value string) {
	if value != "" {
		j.member(name)
		j.quote(value)
	}
}

func (j *object) uint(name string, value uint64) {
	j.member(name)
	j.b = strconv.AppendUint(j.b, value, 10)
}

// some appends a member unless it is zero.
func (j *object) some(name string, value uint64) {
	if value != 0 {
		j.uint(name, value)
	}
}

func (j *object) int(name string, value int64) {
	j.member(name)
	j.b = strconv.AppendInt(j.b, value, 10)
}

// truth appends a member if it is true.
func (j *object) truth(name string, value bool) {
	if value {
		j.member(name)
		j.b = append(j.b, "true"...)
	}
}

// hash appends a member in hexadecimal unless it is all zero.
func (j *object) hash(name string, h sequencer.Hash) {
	if h != (sequencer.Hash{}) {
		j.member(name)
		j.b = append(j.b, '"')
		j.b = hex.AppendEncode(j.b, h[:])
		j.b = append(j.b, '"')
	}
}

// quote appends a JSON string. Nothing is escaped that JSON does not ask for.
func (j *object) quote(s string) {
	const digits = "0123456789abcdef"
	if !utf8.ValidString(s) && j.err == nil {
		j.err = fmt.Errorf("the text %q is not UTF-8", s[:min(len(s), 64)])
	}
	j.b = append(j.b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		j.b = append(j.b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			j.b = append(j.b, '\\', c)
		case '\n':
			j.b = append(j.b, '\\', 'n')
		case '\r':
			j.b = append(j.b, '\\', 'r')
		case '\t':
			j.b = append(j.b, '\\', 't')
		default:
			j.b = append(j.b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	j.b = append(j.b, s[from:]...)
	j.b = append(j.b, '"')
}

// content appends bytes as a string where they are text, else in base64. Text that is mostly control characters counts
// as bytes: its escapes would take six times its size, and a record has a bound.
func (j *object) content(b []byte) {
	controls := 0
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			controls++
		}
	}
	if utf8.Valid(b) && controls <= len(b)/8 {
		j.member("content")
		j.quote(string(b))
		return
	}
	j.member("content_base64")
	j.b = append(j.b, '"')
	j.b = base64.StdEncoding.AppendEncode(j.b, b)
	j.b = append(j.b, '"')
}

// words appends a list of strings unless it is empty.
func words[T ~string](j *object, name string, list []T) {
	objects(j, name, list, func(w T) { j.quote(string(w)) })
}

// objects appends a list unless it is empty.
func objects[T any](j *object, name string, list []T, one func(T)) {
	if len(list) == 0 {
		return
	}
	j.member(name)
	j.open('[')
	for i := range list {
		j.item()
		one(list[i])
	}
	j.close(']')
}

// named is one of the fold's enumerations.
type named interface {
	~uint8
	fmt.Stringer
}

const unknownName = "unknown"

// nameFor is the name of an enumeration's value; one that this version has no name for keeps its number, so that
// a decision can always be written and read back.
func nameFor[T named](v T) string {
	if name := v.String(); name != unknownName {
		return name
	}
	return unknownName + ":" + strconv.Itoa(int(v))
}

// valueFor is the value that nameFor wrote; no name is zero.
func valueFor[T named](name string) (T, error) {
	if name == "" {
		return 0, nil
	}
	if number, ok := strings.CutPrefix(name, unknownName+":"); ok {
		n, err := strconv.ParseUint(number, 10, 8)
		if err != nil {
			return 0, fmt.Errorf("%w: the name %q has no number", ErrMalformed, name)
		}
		return T(n), nil
	}
	for v := range T(64) {
		if v.String() == name && name != unknownName {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%w: %q is no %T", ErrMalformed, name, T(0))
}
