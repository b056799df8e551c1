package up

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// maxShownLine is how much of a line is kept together; the rest is shown as a line of its own.
const maxShownLine = 64 << 10

// lastLines is how long a program's output is read on once it has ended: something outside its group may have it open.
const lastLines = time.Second

// prefixed is a stream whose lines carry a name.
type prefixed struct {
	w    io.Writer
	name string
}

// newPrefixed puts the nth name of a list before lines, as wide as the widest, and in a colour of its own if there are
// colours.
func newPrefixed(w io.Writer, name string, width, n int, colour bool) *prefixed {
	name = fmt.Sprintf("%-*s | ", width, name)
	if colour {
		colours := []int{36, 33, 32, 35, 34, 31}
		name = fmt.Sprintf("\x1b[%dm%s\x1b[0m", colours[n%len(colours)], name)
	}
	return &prefixed{w, name}
}

// Write writes one line, as a logger does.
func (p *prefixed) Write(line []byte) (int, error) {
	return len(line), p.show(strings.TrimSuffix(string(line), "\n"))
}

func (p *prefixed) show(line string) error {
	_, err := io.WriteString(p.w, p.name+line+"\n")
	return err
}

// pipe carries a program's output to a stream, line by line.
type pipe struct {
	write *os.File // the program's end
	read  *os.File
	ended chan struct{}
}

func newPipe(to *prefixed) (*pipe, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for a program's output: %w", err)
	}
	p := &pipe{write: write, read: read, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.copy(to)
	}()
	return p, nil
}

func (p *pipe) copy(to *prefixed) {
	in := bufio.NewReaderSize(p.read, maxShownLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 && to.show(strings.TrimRight(string(line), "\r\n")) != nil {
			_, _ = io.Copy(io.Discard, in) // the output is closed: the program goes on nonetheless
			return
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// close waits until what was written is shown.
func (p *pipe) close() {
	_ = p.write.Close()
	_ = p.read.SetReadDeadline(time.Now().Add(lastLines))
	<-p.ended
	_ = p.read.Close()
}
