package demo

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// How often progress is written: over itself on a terminal, else line by line.
const (
	terminalEvery = 100 * time.Millisecond
	linesEvery    = 2 * time.Second
)

// progress counts what has happened so far and shows it to people.
type progress struct {
	at                                          atomic.Pointer[string]
	tasks, committed, refused, attempts, gaveUp atomic.Int64
}

func (p *progress) stage(name string) { p.at.Store(&name) }

func (p *progress) ended(at *Attempt) {
	p.attempts.Add(1)
	if at.committed() {
		p.committed.Add(1)
	} else {
		p.refused.Add(1)
	}
}

func (p *progress) line() string {
	if p.attempts.Load() == 0 {
		return *p.at.Load()
	}
	if p.tasks.Load() == 0 { // there are as many as people care to watch
		return fmt.Sprintf("%s: %d tasks committed, %d attempts refused", *p.at.Load(), p.committed.Load(), p.refused.Load())
	}
	return fmt.Sprintf("%s: %d of %d tasks committed, %d attempts refused, %d given up",
		*p.at.Load(), p.committed.Load(), p.tasks.Load(), p.refused.Load(), p.gaveUp.Load())
}

// show writes progress until the returned function is called, which waits for the end of it.
func (p *progress) show(w io.Writer, terminal bool) (stop func()) {
	if w == nil {
		return func() {}
	}
	done := make(chan struct{})
	var shower sync.WaitGroup
	shower.Go(func() {
		if terminal {
			p.overwrite(w, done)
		} else {
			p.lines(w, done)
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		shower.Wait()
	})
}

func (p *progress) overwrite(w io.Writer, done <-chan struct{}) {
	const clear = "\r\x1b[K"
	ticker := time.NewTicker(terminalEvery)
	defer ticker.Stop()
	for {
		fmt.Fprint(w, clear+p.line())
		select {
		case <-ticker.C:
		case <-done:
			fmt.Fprint(w, clear)
			return
		}
	}
}

func (p *progress) lines(w io.Writer, done <-chan struct{}) {
	ticker := time.NewTicker(linesEvery)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-ticker.C:
		case <-done:
			return
		}
		if line := p.line(); line != last {
			fmt.Fprintln(w, line)
			last = line
		}
	}
}
