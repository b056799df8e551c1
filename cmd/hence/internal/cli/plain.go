package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/hence-dev/hence/gate"
)

// plainly writes a line for people. Texts among the arguments may come from a sink, another agent or a log: none of
// them adds a row, moves the cursor or hides what stands beside it.
func plainly(w io.Writer, format string, args ...any) error {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = gate.Plain(a)
		case error:
			args[i] = gate.Plain(a.Error())
		}
	}
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// plainLines is a writer to a terminal that lets nothing but text and line breaks through.
type plainLines struct{ w io.Writer }

// Write takes whole characters.
func (p plainLines) Write(b []byte) (int, error) {
	lines := strings.Split(string(b), "\n")
	for i, line := range lines {
		lines[i] = gate.Plain(line)
	}
	if _, err := io.WriteString(p.w, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(b), nil
}

// plainJSON is the JSON of a value on one line, with what a terminal would act on written as \u escapes.
func plainJSON(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, r := range string(data) {
		switch {
		case !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r):
			out.WriteRune(r)
		case r > 0xffff:
			a, b := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, a, b)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String() + "\n"), nil
}
