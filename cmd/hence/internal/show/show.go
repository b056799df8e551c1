// Package show prints for people and programs: tables, lines and JSON in which no text that came from elsewhere acts
// on a terminal.
package show

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"

	"github.com/hence-dev/hence/gate"
)

// Plainly writes a line for people. Texts among the arguments may come from a sink, another agent or a log: none of
// them adds a row, moves the cursor or hides what stands beside it.
func Plainly(w io.Writer, format string, args ...any) error {
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

// Lines is a writer to a terminal that lets nothing but text and line breaks through; each Write takes whole
// characters.
func Lines(w io.Writer) io.Writer { return lines{w} }

type lines struct{ w io.Writer }

// Write implements io.Writer.
func (p lines) Write(b []byte) (int, error) {
	all := strings.Split(string(b), "\n")
	for i, line := range all {
		all[i] = gate.Plain(line)
	}
	if _, err := io.WriteString(p.w, strings.Join(all, "\n")); err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteJSON writes the JSON of a value on one line, with what a terminal would act on written as \u escapes.
func WriteJSON(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
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
	if _, err := io.WriteString(w, out.String()+"\n"); err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	return nil
}

// Several counts a thing: "1 copy", "3 copies".
func Several(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "y"):
		thing = strings.TrimSuffix(thing, "y") + "ies"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// ShellWord quotes a text so that a shell takes it as one word.
func ShellWord(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// IsTerminal says whether the output is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Colourful says whether a stream is for people who have not asked for plain text.
func Colourful(w io.Writer) bool { return IsTerminal(w) && os.Getenv("NO_COLOR") == "" }

// OneAtATime lets several, such as progress and logs, write to one stream: each Write is whole. A file does that
// itself; it stays one, since only a file can be a terminal or a program's output.
func OneAtATime(w io.Writer) io.Writer {
	if file, ok := w.(*os.File); ok {
		return file
	}
	return &oneAtATime{w: w}
}

type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer
}

// Write writes all of b before anything else.
func (o *oneAtATime) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(b)
}
