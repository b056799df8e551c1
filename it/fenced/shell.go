package fenced

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hence-dev/hence/gate/child"
)

// endBound is how long a command may take to end after Ctrl-C.
const endBound = 20 * time.Second

// Shell is one bash with -euo pipefail. What a block sets is there for the next one.
type Shell struct {
	dir     string
	cmd     *exec.Cmd
	in      io.WriteCloser
	lines   chan string // what the shell itself prints: our marks
	blocks  int
	running []*Running
	over    bool
}

// Running is a command that goes on in the background.
type Running struct {
	Block    Block
	pid      int
	out, err string // files
}

// NewShell starts a shell in a folder, with nothing in its environment but env. Close must be called.
func NewShell(dir string, env []string) (*Shell, error) {
	if err := os.MkdirAll(filepath.Join(dir, ".blocks"), 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for the shell: %w", err)
	}
	s := &Shell{dir: dir, lines: make(chan string)}
	s.cmd = exec.Command("bash", "--norc", "--noprofile", "-euo", "pipefail")
	s.cmd.Dir, s.cmd.Env, s.cmd.WaitDelay = dir, env, endBound
	s.cmd.SysProcAttr = child.OwnGroup()
	out, in := io.Pipe()
	s.cmd.Stdout = in
	stdin, err := s.cmd.StdinPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start bash: %w", err)
	}
	s.in = stdin
	go func() { // ends with the shell; Close waits for lines to be closed
		_ = s.cmd.Wait()
		in.Close()
	}()
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			s.lines <- scan.Text()
		}
	}()
	return s, nil
}

// ErrBlock is returned by Run and End when a block did not end as it must.
var ErrBlock = errors.New("the block did not end as it must")

// Run runs a block to its end and returns what it printed on its standard output. A block that must end with another
// code than 0 runs in a subshell: what it sets is gone.
func (s *Shell) Run(b Block, bound time.Duration) (string, error) {
	want, err := b.Exit()
	if err != nil {
		return "", err
	}
	script, out, words, err := s.write(b)
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("source %q </dev/null >%q 2>%q; echo 0", script, out, words)
	if want != 0 {
		line = fmt.Sprintf("set +e; (set -e; source %q) </dev/null >%q 2>%q; code=$?; set -e; echo $code",
			script, out, words)
	}
	said, err := s.say(line, bound)
	switch {
	case err != nil:
	case said != strconv.Itoa(want):
		err = fmt.Errorf("it ended with %s instead of %d", said, want)
	default:
		text, err := os.ReadFile(out)
		return string(text), err
	}
	return "", fmt.Errorf("%s: %w: %w\n%s\nit said:\n%s%s", b.Where(), ErrBlock, err, b.Text, tail(out), tail(words))
}

// Start runs a block in the background.
func (s *Shell) Start(b Block) (*Running, error) {
	script, out, words, err := s.write(b)
	if err != nil {
		return nil, err
	}
	line := fmt.Sprintf("set -m; source %q </dev/null >%q 2>%q & set +m; echo $!", script, out, words)
	said, err := s.say(line, endBound)
	if err != nil {
		return nil, fmt.Errorf("%s: start it: %w", b.Where(), err)
	}
	r := &Running{Block: b, out: out, err: words}
	if r.pid, err = strconv.Atoi(said); err != nil {
		return nil, fmt.Errorf("%s: the shell says %q instead of a process", b.Where(), said)
	}
	s.running = append(s.running, r)
	return r, nil
}

// Out is what a running command has printed on its standard output so far.
func (r *Running) Out() string { return read(r.out) }

// Words is what it has printed on its standard error.
func (r *Running) Words() string { return read(r.err) }

// Alive says whether it still runs.
func (r *Running) Alive() bool { return child.Alive(r.pid) }

// Paste runs the export lines that a command has printed, as a reader pastes them.
func (s *Shell) Paste(r *Running) error {
	var lines []string
	for line := range strings.Lines(r.Out()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "export ") {
			lines = append(lines, line)
		}
	}
	b := r.Block
	b.Text, b.Marks = strings.Join(lines, "\n")+"\n", nil
	_, err := s.Run(b, endBound)
	return err
}

// End sends Ctrl-C to a running command, waits for its end and judges its exit code.
func (s *Shell) End(r *Running) error {
	s.running = slices.DeleteFunc(s.running, func(other *Running) bool { return other == r })
	child.Signal(r.pid, syscall.SIGINT) // it may have ended
	timer := time.AfterFunc(endBound, func() { child.Signal(r.pid, syscall.SIGKILL) })
	defer timer.Stop()
	said, err := s.say(fmt.Sprintf("code=0; wait %d || code=$?; echo $code", r.pid), endBound*2)
	if err == nil && said != "0" && said != "130" {
		err = fmt.Errorf("after Ctrl-C it ended with %s: %w", said, ErrBlock)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s%s", r.Block.Where(), err, tail(r.out), tail(r.err))
	}
	return nil
}

// Close ends everything that still runs, the last started first, and then the shell.
func (s *Shell) Close() error {
	var errs []error
	for i := len(s.running) - 1; i >= 0; i-- {
		if s.over { // they cannot be waited for any more
			child.Signal(s.running[i].pid, syscall.SIGKILL)
			continue
		}
		errs = append(errs, s.End(s.running[i])) // which takes it off the list
	}
	s.in.Close()
	timer := time.AfterFunc(endBound, func() { child.Signal(s.cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	for range s.lines {
	}
	return errors.Join(errs...)
}

// write puts a block into a file, and names files for what it will print.
func (s *Shell) write(b Block) (script, out, words string, err error) {
	if s.over {
		return "", "", "", fmt.Errorf("%s: the shell has ended with an earlier block", b.Where())
	}
	s.blocks++
	base := filepath.Join(s.dir, ".blocks", strconv.Itoa(s.blocks))
	script, out, words = base+".sh", base+".out", base+".err"
	if err = os.WriteFile(script, []byte(b.Text), 0o644); err != nil {
		err = fmt.Errorf("%s: %w", b.Where(), err)
	}
	return script, out, words, err
}

// say has the shell run a line that prints one line, and returns that.
func (s *Shell) say(line string, bound time.Duration) (string, error) {
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.over = true
		return "", fmt.Errorf("the shell has ended: %w", err)
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case said, ok := <-s.lines:
		if !ok {
			s.over = true
			return "", fmt.Errorf("a command failed: %v", s.cmd.ProcessState)
		}
		return said, nil
	case <-timer.C:
		s.over = true
		child.Signal(s.cmd.Process.Pid, syscall.SIGKILL)
		return "", fmt.Errorf("it is not done after %v", bound)
	}
}

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// tail is the end of a file, for messages.
func tail(path string) string {
	if words := child.LastWords(path, 3000); words != "" {
		return words + "\n"
	}
	return ""
}
