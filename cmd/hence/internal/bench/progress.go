package bench

import (
	"fmt"
	"io"
)

// Progress says on one line of w what is measured; clear takes the line away at the end.
func Progress(w io.Writer, terminal bool) (say func(format string, args ...any), clear func()) {
	p := progress{w, terminal}
	return p.say, p.clear
}

// progress says on one line what is measured.
type progress struct {
	w        io.Writer
	terminal bool
}

func (p progress) say(format string, args ...any) {
	if p.w == nil {
		return
	}
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
		return
	}
	fmt.Fprintf(p.w, format+"\n", args...)
}

func (p progress) clear() {
	if p.w != nil && p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
