package process

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell is a script in sh, with its output.
type shell struct {
	*bufio.Reader
	signals chan os.Signal
	pid     chan int
	ended   chan struct{}
	status  Status
	err     error
	stop    context.CancelFunc
}

const bound = 30 * time.Second

func startShell(t *testing.T, grace time.Duration, script string) *shell {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &shell{Reader: bufio.NewReader(r), signals: make(chan os.Signal), pid: make(chan int, 1),
		ended: make(chan struct{}), stop: cancel}
	go func() {
		defer close(s.ended)
		defer w.Close()
		s.status, s.err = Run(ctx, Spec{Command: []string{"sh", "-c", script}, Env: os.Environ(), Out: w, Err: os.Stderr,
			Signals: s.signals, Grace: grace, Started: func(pid int) { s.pid <- pid }})
	}()
	t.Cleanup(func() {
		select {
		case s.signals <- os.Kill:
		case <-s.ended:
		}
		cancel()
		<-s.ended
		_ = r.Close()
	})
	return s
}

func (s *shell) line(t *testing.T) string {
	t.Helper()
	line, err := s.ReadString('\n')
	if err != nil {
		t.Fatalf("the script said nothing: %v", err)
	}
	return strings.TrimSpace(line)
}

func (s *shell) end(t *testing.T) Status {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(bound):
		t.Fatal("it does not end")
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.status
}

// How a program ends is how a shell would tell it.
func TestStatus(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0":                     0,
		"exit 3":                     3,
		"kill -TERM $$":              143,
		"kill -KILL $$":              137,
		"kill -SEGV $$":              139,
		"ulimit -c 0; kill -ABRT $$": 134,
	} {
		s := startShell(t, time.Second, script)
		if got := s.end(t); got.Code() != want || got.Killed {
			t.Errorf("%s: %v, code %d, want %d", script, got, got.Code(), want)
		}
	}
}

// Each signal reaches the program once. It starts nothing: a dash that does may miss one that comes with its vfork.
func TestSignalsArriveOnce(t *testing.T) {
	script := `
		seen() { echo "$1"; }
		for s in INT HUP QUIT USR1 USR2; do trap "seen $s" $s; done
		trap 'echo TERM; exit 7' TERM
		echo ready
		while :; do :; done`
	s := startShell(t, time.Minute, script)
	s.line(t)
	for _, c := range []struct {
		signal syscall.Signal
		name   string
	}{{syscall.SIGUSR1, "USR1"}, {syscall.SIGUSR2, "USR2"}, {syscall.SIGHUP, "HUP"}, {syscall.SIGINT, "INT"},
		{syscall.SIGQUIT, "QUIT"}, {syscall.SIGUSR1, "USR1"}} {
		s.signals <- c.signal
		if got := s.line(t); got != c.name {
			t.Fatalf("signal %v: the program saw %s", c.signal, got)
		}
	}
	s.stop() // the context's end is a SIGTERM
	if got := s.line(t); got != "TERM" {
		t.Errorf("the program saw %s", got)
	}
	if got := s.end(t); got.Code() != 7 {
		t.Errorf("%v", got)
	}
}

// A program that ignores being told is killed after the grace, with everything in its group, also when it was stopped.
func TestGrace(t *testing.T) {
	for name, before := range map[string]string{"ignores": "", "is stopped": "kill -STOP $$;"} {
		s := startShell(t, 50*time.Millisecond, `
			trap "" TERM INT
			(trap "" TERM INT; echo $$; sleep 1000) &
			sleep 1000 & echo $!; `+before+` wait; wait; sleep 1000`)
		s.line(t)
		s.line(t)
		s.signals <- syscall.SIGTERM
		if got := s.end(t); got.Code() != 137 || !got.Killed {
			t.Errorf("%s: %v", name, got)
		}
		if err := syscall.Kill(-<-s.pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s: something of the group is left: %v", name, err)
		}
	}
}

// What a program leaves running in its group ends with it.
func TestSweep(t *testing.T) {
	for name, left := range map[string]string{
		"obedient": "sleep 1000 & ",
		"deaf":     `(trap "" TERM; echo deaf; sleep 1000) & read line;`,
	} {
		if name == "deaf" {
			left = `mkfifo "$F"; (trap "" TERM; echo deaf > "$F"; while :; do sleep 1; done) & read line < "$F";`
		}
		t.Setenv("F", filepath.Join(t.TempDir(), "fifo"))
		s := startShell(t, 100*time.Millisecond, left+" exit 4")
		if got := s.end(t); got.Code() != 4 {
			t.Errorf("%s: %v", name, got)
		}
		if err := syscall.Kill(-<-s.pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s: something of the group is left: %v", name, err)
		}
	}
}

// What cannot be run is told apart as shells do.
func TestNotRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "echo", 0o644)
	write("nothing", "\x00\x01", 0o755)
	write("lost", "#!/no/such/interpreter\n", 0o755)
	write("fine", "#!/bin/sh\nexit 5\n", 0o755)
	for _, c := range []struct {
		name string
		code int
		why  string
	}{
		{"no-such-program", 127, "in PATH"}, {"./none", 127, "not found"}, {"./plain/x", 127, "not found"},
		{"./plain", 126, "chmod +x"}, {"plain", 126, "chmod +x"}, {"./", 126, "a folder"},
		{"./nothing", 126, "#!"}, {"./lost", 127, "#!"}, {"", 127, "empty program name"},
		{"./fine", 5, ""}, {"fine", 5, ""},
	} {
		status, err := Run(t.Context(), Spec{Command: []string{c.name}, Dir: dir, Grace: time.Second,
			Env: []string{"PATH=/nowhere:" + dir}})
		code, ok := Code(err)
		if err == nil {
			code, ok = status.Code(), true
		}
		if !ok || code != c.code || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%q: code %d, %v; want %d and %q", c.name, code, err, c.code, c.why)
		}
	}
}
