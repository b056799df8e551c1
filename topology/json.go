package topology

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
)

// Bounds of a decision's text, beside its size.
const (
	maxJSONDepth  = 64
	maxJSONValues = 1 << 17
)

// checkText holds a text to the bounds before encoding/json makes anything of it: that makes a struct of a hundred
// bytes from each "{}," of a list and has no bound on lists, goes 10,000 levels deep, and takes what is not UTF-8
// for U+FFFD. Whether the text is JSON is its business.
func checkText(b []byte) error {
	if len(b) > MaxRecordBytes {
		return fmt.Errorf("%d bytes, at most %d are read", len(b), MaxRecordBytes)
	}
	if !utf8.Valid(b) {
		// It would be read as U+FFFD, and written back as another text under the same hash.
		return fmt.Errorf("the text is not UTF-8")
	}
	values, depth, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++
		case quoted:
		case c == ',':
			values++
		case c == '{' || c == '[':
			values++
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if values > maxJSONValues || depth > maxJSONDepth {
			// Each value becomes a struct, and each level a call: a small text could take all memory or the stack.
			return fmt.Errorf("more than %d values or %d levels", maxJSONValues, maxJSONDepth)
		}
	}
	return nil
}

// hexHash is a hash in hexadecimal; an empty text is the zero hash.
type hexHash sequencer.Hash

// MarshalText writes 64 digits.
func (h hexHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 digits or none.
func (h *hexHash) UnmarshalText(text []byte) error {
	*h = hexHash{}
	if len(text) == 0 {
		return nil
	}
	if len(text) != hex.EncodedLen(len(h)) {
		// A shorter one would match by its zeros.
		return fmt.Errorf("a hash of %d digits", len(text))
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return fmt.Errorf("a hash: %w", err)
	}
	return nil
}

// named is one of the fold's enumerations.
type named interface {
	~uint8
	fmt.Stringer
}

const unknownName = "unknown"

// name is a value of an enumeration that is written by its name.
type name[T named] struct{ value T }

// MarshalText writes the name.
func (n name[T]) MarshalText() ([]byte, error) { return []byte(nameFor(n.value)), nil }

// UnmarshalText reads what MarshalText wrote; an empty text is zero.
func (n *name[T]) UnmarshalText(text []byte) (err error) {
	n.value, err = valueFor[T](string(text))
	return err
}

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
			return 0, fmt.Errorf("the name %q has no number", name)
		}
		return T(n), nil
	}
	for v := range T(64) {
		if v.String() == name && name != unknownName {
			return v, nil
		}
	}
	// Read as zero it would be the first value of the enumeration, which says something.
	return 0, fmt.Errorf("%q is no %T", name, T(0))
}
