package gate

import (
	"strings"
	"unicode"
)

// Plain is text that came from elsewhere, as it may be shown: on one line, and without what moves a cursor, hides
// other text or turns its order around. What is taken out leaves U+FFFD behind, line breaks and tabs a space.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp):
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}
