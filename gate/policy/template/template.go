// Package template expands the templates of a policy over the arguments of a call.
//
// A template is text with placeholders: {order_id} an argument, {to.0.name} a part of one (list indexes count from 0),
// {note?} one that may be absent, {to|mail} one whose spelling is made canonical first; {{ and }} are literal braces.
// Values are text, numbers or booleans. Whole numbers have one spelling however they are written (17, 17.0 and 1.7e1
// are the same); names that start with $ are not arguments but what the caller adds: the key, the transaction.
package template

import (
	"errors"
	"fmt"
	"strings"
)

// MaxBytes is the length of the longest template and of the longest expansion, in bytes.
const MaxBytes = 64 << 10

// MaxPlaceholders is the greatest number of placeholders in one template.
const MaxPlaceholders = 64

// ErrSyntax is matched by the errors that Parse returns.
var ErrSyntax = errors.New("the template cannot be read")

// ErrValue is matched by the errors of Expand and Value: a value is missing or has no meaning where it stands.
var ErrValue = errors.New("the value does not fit")

// Path names one value: an argument and the steps into it.
type Path []string

// String returns the path as it is written in a template.
func (p Path) String() string { return strings.Join(p, ".") }

// Placeholder is one value that a template asks for.
type Placeholder struct {
	Path     Path
	Optional bool   // {name?}
	Filter   Filter // empty: the value as it is
}

// String returns the placeholder as it is written, with its braces.
func (p Placeholder) String() string {
	text := p.Path.String()
	if p.Optional {
		text += "?"
	}
	if p.Filter != "" {
		text += "|" + string(p.Filter)
	}
	return "{" + text + "}"
}

// Part is a piece of a template: literal text, or a placeholder.
type Part struct {
	Literal     string
	Placeholder *Placeholder
}

// Template is text with placeholders. The zero value expands to nothing.
type Template struct {
	text  string
	parts []Part
}

// Parse reads a template. An error matches ErrSyntax and says what to write instead.
func Parse(text string) (Template, error) {
	t := Template{text: text}
	if len(text) > MaxBytes {
		return Template{}, fmt.Errorf("%w: it is longer than %d bytes", ErrSyntax, MaxBytes)
	}
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			t.parts = append(t.parts, Part{Literal: literal.String()})
			literal.Reset()
		}
	}
	placeholders := 0
	for rest := text; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			literal.WriteByte(rest[0])
			rest = rest[2:]
		case rest[0] == '}':
			return Template{}, fmt.Errorf("%w: a '}' without its '{': write }} for a literal one", ErrSyntax)
		case rest[0] == '{':
			inside, after, found := strings.Cut(rest[1:], "}")
			if !found {
				return Template{}, fmt.Errorf("%w: a '{' without its '}': write {{ for a literal one", ErrSyntax)
			}
			p, err := parsePlaceholder(inside)
			if err != nil {
				return Template{}, err
			}
			if placeholders++; placeholders > MaxPlaceholders {
				return Template{}, fmt.Errorf("%w: it has more than %d placeholders", ErrSyntax, MaxPlaceholders)
			}
			flush()
			t.parts = append(t.parts, Part{Placeholder: &p})
			rest = after
		default:
			i := strings.IndexAny(rest, "{}")
			if i < 0 {
				i = len(rest)
			}
			literal.WriteString(rest[:i])
			rest = rest[i:]
		}
	}
	flush()
	return t, nil
}

func parsePlaceholder(inside string) (Placeholder, error) {
	name, filter, filtered := strings.Cut(inside, "|")
	p := Placeholder{Filter: Filter(filter)}
	if filtered && !p.Filter.known() {
		return p, fmt.Errorf("%w: {%s} names the filter %q: use one of %s", ErrSyntax, inside, filter, filterNames())
	}
	name, p.Optional = strings.CutSuffix(name, "?")
	p.Path = strings.Split(name, ".")
	for i, step := range p.Path {
		if i == 0 {
			step = strings.TrimPrefix(step, "$")
		}
		if !isName(step) {
			return p, fmt.Errorf("%w: {%s} names no value: write {argument} or {argument.part}, in letters, digits, "+
				"'_' and '-'", ErrSyntax, inside)
		}
	}
	return p, nil
}

func isName(text string) bool {
	for i := 0; i < len(text); i++ {
		b := text[i]
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_' || b == '-') {
			return false
		}
	}
	return text != ""
}

// String returns the template as it was written.
func (t Template) String() string { return t.text }

// Parts returns the pieces in order.
func (t Template) Parts() []Part { return t.parts }

// Placeholders returns what the template asks for, in order.
func (t Template) Placeholders() []Placeholder {
	var out []Placeholder
	for _, part := range t.parts {
		if part.Placeholder != nil {
			out = append(out, *part.Placeholder)
		}
	}
	return out
}

// Escape makes a placeholder's value safe for the place where it stands; before is the text that was expanded so far.
type Escape func(p Placeholder, before, value string) (string, error)

// Expand returns the text with every placeholder replaced. A nil escape leaves values as they are. An error matches
// ErrValue and names the placeholder.
func (t Template) Expand(v Values, escape Escape) (string, error) {
	var out strings.Builder
	for _, part := range t.parts {
		if part.Placeholder == nil {
			out.WriteString(part.Literal)
			continue
		}
		text, err := part.Placeholder.expand(v, out.String(), escape)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
		if out.Len() > MaxBytes {
			return "", fmt.Errorf("%w: %s makes the text longer than %d bytes", ErrValue, part.Placeholder, MaxBytes)
		}
	}
	return out.String(), nil
}

func (p Placeholder) expand(v Values, before string, escape Escape) (string, error) {
	value, err := v.find(p)
	if err != nil || value == nil {
		return "", err
	}
	text, err := plain(value)
	if err != nil {
		return "", fmt.Errorf("%w: %s %w", ErrValue, p, err)
	}
	pieces, err := p.Filter.apply(text)
	if err != nil {
		return "", fmt.Errorf("%w: %s is %.80q: %w", ErrValue, p, text, err)
	}
	out := ""
	for i, piece := range pieces {
		if i > 0 {
			out += "/"
		}
		if escape != nil {
			if piece, err = escape(p, before+out, piece); err != nil {
				return "", fmt.Errorf("%w: %s is %.80q: %w", ErrValue, p, text, err)
			}
		}
		out += piece
	}
	return out, nil
}

// Value returns the value itself when the template is one placeholder without a filter and nothing else, and the
// expanded text otherwise. An optional value that is absent is nil.
func (t Template) Value(v Values) (any, error) {
	if len(t.parts) == 1 && t.parts[0].Placeholder != nil && t.parts[0].Placeholder.Filter == "" {
		return v.find(*t.parts[0].Placeholder)
	}
	return t.Expand(v, nil)
}
