package cli

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programBound is how long anything may take that a test waits for.
const programBound = 60 * time.Second

// program is hence in a process of its own.
type program struct {
	cmd   *exec.Cmd
	out   *transcript
	errs  *transcript
	ended chan struct{}
	err   error
}

// startProgram starts the test binary as hence; it is killed with the test.
func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	return startCommand(t, exec.Command(os.Args[0], args...))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{cmd: cmd, out: newTranscript(), errs: newTranscript(), ended: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HENCE_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, asProgram+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		var reading sync.WaitGroup
		reading.Go(func() { p.out.read(out) })
		reading.Go(func() { p.errs.read(errs) })
		reading.Wait()
		p.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.ended
		if t.Failed() {
			t.Logf("hence %v said:\n%s\n%s", cmd.Args[1:], p.out.text(), p.errs.text())
		}
	})
	return p
}

// code waits for the end and returns the exit code.
func (p *program) code(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(programBound):
		t.Fatalf("it does not end: %s", p.errs.text())
	}
	var end *exec.ExitError
	if p.err != nil && !errors.As(p.err, &end) {
		t.Fatal(p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *program) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// transcript collects lines, and lets others wait for one.
type transcript struct {
	mu    sync.Mutex
	more  *sync.Cond
	lines []string
	done  bool
}

func newTranscript() *transcript {
	l := &transcript{}
	l.more = sync.NewCond(&l.mu)
	return l
}

func (l *transcript) read(from io.Reader) {
	in := bufio.NewScanner(from)
	for in.Scan() {
		l.add(in.Text())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
	l.more.Broadcast()
}

func (l *transcript) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	l.more.Broadcast()
}

func (l *transcript) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// await waits for a line that contains a text and returns it.
func (l *transcript) await(t *testing.T, text string) string {
	t.Helper()
	late := time.AfterFunc(programBound, l.more.Broadcast)
	defer late.Stop()
	begun := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for _, line := range l.lines {
			if strings.Contains(line, text) {
				return line
			}
		}
		if l.done || time.Since(begun) >= programBound {
			t.Fatalf("no line says %q:\n%s", text, strings.Join(l.lines, "\n"))
		}
		l.more.Wait()
	}
}

// count is how many lines contain a text.
func (l *transcript) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
