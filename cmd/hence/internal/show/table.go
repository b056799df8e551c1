package show

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/hence-dev/hence/gate"
)

// leastColumn is how narrow a column may become before the terminal has to break the line.
const leastColumn = 8

// Table is rows of text, under a head if it has one. On a terminal it is as wide as that, and what is cut off ends
// with …; in a pipe it is whole.
type Table struct {
	Head []string
	Rows [][]string // added by Add
}

// Add adds a row; its texts may come from others, and none of them makes a row of its own.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = gate.Plain(cell)
	}
	t.Rows = append(t.Rows, row)
}

// Write prints the table.
func (t *Table) Write(w io.Writer) error { return t.WriteIn(w, widthOf(w)) }

// WriteIn prints it in so many characters; zero: in as many as it takes.
func (t *Table) WriteIn(w io.Writer, width int) error {
	all := t.Rows
	if t.Head != nil {
		all = append([][]string{t.Head}, t.Rows...)
	}
	var widths []int
	for _, row := range all {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if width > 0 {
		shrink(widths, width-2*(len(widths)-1))
	}
	var b strings.Builder
	for _, row := range all {
		line := ""
		for i, cell := range row {
			cell = cut(cell, widths[i])
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shrink takes from the widest column until all fit.
func shrink(widths []int, into int) {
	for {
		sum, widest := 0, 0
		for i, n := range widths {
			sum += n
			if n > widths[widest] {
				widest = i
			}
		}
		if sum <= into || widths[widest] <= leastColumn {
			return
		}
		widths[widest]--
	}
}

// cut leaves of a text what fits, and says that there was more.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// widthOf is how many characters a line of the terminal has; zero: it is none.
func widthOf(w io.Writer) int {
	if p, ok := w.(lines); ok {
		w = p.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
