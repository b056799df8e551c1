package trace

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// What is here walks over JSON that is known to be valid, without copies and without reflection: a trace has millions
// of lines of one shape. What is not of that shape is left to encoding/json, which also says what is wrong with it.

// fast reads a value into a field of the usual shapes. It reports false, with the field as it was or emptied, for
// what encoding/json has to look at.
func fast(text []byte, into any) bool {
	switch into := into.(type) {
	case *string:
		s, is := plainText(text)
		*into = s
		return is
	case *uint64:
		n, err := strconv.ParseUint(string(text), 10, 64)
		*into = n
		return err == nil
	case *[]ID:
		return list(text, into, func(element []byte) (ID, bool) {
			s, is := plainText(element)
			return ID(s), is
		})
	case *[]string:
		return list(text, into, func(element []byte) (string, bool) { return plainText(element) })
	case *[]Effect:
		return list(text, into, effect)
	case *map[string]Value:
		*into = map[string]Value{}
		is := members(text, func(name string, value []byte) bool {
			v, err := canonical(value)
			(*into)[name] = v
			return err == nil
		})
		if !is {
			*into = nil
		}
		return is
	}
	return false
}

func effect(text []byte) (e Effect, is bool) {
	n := 0
	is = elements(text, func(element []byte) bool {
		n++
		switch n {
		case 1:
			e.Cell, is = plainText(element)
			return is
		case 2:
			v, err := canonical(element)
			e.Value = v
			return err == nil
		}
		return false
	})
	return e, is && n == 2
}

func list[T any](text []byte, into *[]T, one func([]byte) (T, bool)) bool {
	all := []T{}
	is := elements(text, func(element []byte) bool {
		v, is := one(element)
		all = append(all, v)
		return is
	})
	if is {
		*into = all
	}
	return is
}

// plainText is a JSON text that has no escapes.
func plainText(text []byte) (string, bool) {
	if len(text) < 2 || text[0] != '"' || bytes.IndexByte(text, '\\') >= 0 || !utf8.Valid(text) {
		return "", false
	}
	return string(text[1 : len(text)-1]), true
}

// elements visits the elements of a list until one is refused; it reports whether it is a list and none was.
func elements(text []byte, visit func([]byte) bool) bool {
	if text[0] != '[' {
		return false
	}
	for text = space(text[1:]); text[0] != ']'; {
		if text[0] == ',' {
			text = space(text[1:])
		}
		n := extent(text)
		if !visit(text[:n]) {
			return false
		}
		text = space(text[n:])
	}
	return true
}

// members visits the members of an object until one is refused; it reports whether it is an object and none was.
func members(text []byte, visit func(name string, value []byte) bool) bool {
	if text[0] != '{' {
		return false
	}
	for text = space(text[1:]); text[0] != '}'; {
		if text[0] == ',' {
			text = space(text[1:])
		}
		n := extent(text)
		name, is := plainText(text[:n])
		if !is && json.Unmarshal(text[:n], &name) != nil {
			return false
		}
		text = space(text[n:])
		text = space(text[1:]) // the colon
		n = extent(text)
		if !visit(name, text[:n]) {
			return false
		}
		text = space(text[n:])
	}
	return true
}

func space(text []byte) []byte {
	for text[0] == ' ' || text[0] == '\t' || text[0] == '\r' || text[0] == '\n' {
		text = text[1:]
	}
	return text
}

// extent is how long the value is with which a text begins.
func extent(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case b == '{' || b == '[':
			depth++
			continue
		case (b == '}' || b == ']') && depth > 0:
			depth--
		case depth > 0:
			continue
		default: // a number or a word: up to what ends it
			for i < len(text) && bytes.IndexByte([]byte(" \t\r\n,]}"), text[i]) < 0 {
				i++
			}
			return i
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(text)
}
