package child

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestStart holds that the end is seen after the output is read, and that nothing is sent to another process then.
func TestStart(t *testing.T) {
	cmd := exec.Command("sh", "-c", "echo hello; exit 3")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said []byte
	p, err := Start(cmd, func() { said, _ = io.ReadAll(out) })
	if err != nil {
		t.Fatal(err)
	}
	state, err := p.Result()
	var exit *exec.ExitError
	if string(said) != "hello\n" || state.ExitCode() != 3 || !errors.As(err, &exit) {
		t.Errorf("%q, %v, %v", said, state, err)
	}
	if err := p.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to what has ended: %v", err)
	}
	if _, err := Start(exec.Command(filepath.Join(t.TempDir(), "none")), nil); err == nil {
		t.Error("nothing was started without an error")
	}
}

// TestKillWithContext holds that what a command has started ends with it.
func TestKillWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "sh", "-c", "sleep 1000 & echo up; wait")
	KillWithContext(cmd, time.Second)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(cmd, func() {
		_, _ = out.Read(make([]byte, 3)) // both are there
		cancel()
		_, _ = io.Copy(io.Discard, out) // ends when neither has it open
	})
	if err != nil {
		t.Fatal(err)
	}
	if state, _ := p.Result(); state == nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", state)
	}
}

// TestLastWords holds what is left of a file.
func TestLastWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := LastWords(path, 9); got != "" {
		t.Errorf("no file says %q", got)
	}
	if err := os.WriteFile(path, []byte("first words\nlast words \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := LastWords(path, 7); got != "words" {
		t.Errorf("it says %q", got)
	}
}
