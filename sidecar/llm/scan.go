package llm

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// scan goes through a text that is valid JSON. It makes strings of its texts and nothing of all else: parsed, each
// "{}," of a list takes a hundred bytes, and a request may have millions of them.
type scan struct {
	in   []byte
	at   int
	each func(text string)
}

// scanned calls each with every text of a message, as texts does; false: it is no JSON, and nothing was called. silent
// reports whether a key's value is no text.
func scanned(in []byte, silent func(key string) bool, each func(text string)) bool {
	if !json.Valid(in) { // nor is what has more than 10,000 levels, each of which is a call here
		return false
	}
	s := &scan{in: in, each: each}
	s.value("", silent)
	return true
}

// value goes through the value of a key, or of a place in a list. silent is nil in what is no text.
func (s *scan) value(key string, silent func(key string) bool) {
	switch s.next() {
	case '"':
		if text := s.quoted(); silent != nil {
			s.text(unquoted(text))
		}
	case '[':
		for s.at++; s.next() != ']'; {
			s.value("", silent)
		}
		s.at++
	case '{':
		if silent != nil && holdsArguments(key) {
			silent = speaking
		}
		for s.at++; s.next() != '}'; {
			name, of := unquoted(s.quoted()), silent
			if silent != nil && silent(name) {
				of = nil
			}
			s.value(name, of)
		}
		s.at++
	default: // a number, or a word such as null
		for s.at < len(s.in) && strings.IndexByte(" \t\r\n,]}", s.in[s.at]) < 0 {
			s.at++
		}
	}
}

// next is the byte at which the next value begins, or the one around it ends. In valid JSON the separators between
// them say nothing more.
func (s *scan) next() byte {
	for strings.IndexByte(" \t\r\n,:", s.in[s.at]) >= 0 {
		s.at++
	}
	return s.in[s.at]
}

// quoted is the text that begins here, with its quotes.
func (s *scan) quoted() []byte {
	from := s.at
	for s.at++; s.in[s.at] != '"'; s.at++ {
		if s.in[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	return s.in[from:s.at]
}

func unquoted(quoted []byte) (text string) {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	_ = json.Unmarshal(quoted, &text) // it is valid
	return text
}

// text is one text, or what is in it.
func (s *scan) text(text string) {
	if !inner(text, s.each) {
		s.each(text)
	}
}

// inner calls each with every text in a text that is JSON itself; false: it is none.
func inner(text string, each func(text string)) bool {
	t := strings.TrimSpace(text)
	return len(t) > 1 && (t[0] == '{' || t[0] == '[') && scanned([]byte(t), speaking, each)
}
