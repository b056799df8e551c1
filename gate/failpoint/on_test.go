//go:build failpoints

package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestKill dies at the second hit and has both written down.
func TestKill(t *testing.T) {
	if os.Getenv(envKill) != "" {
		Hit(AppendBefore)
		Hit(AppendBefore)
		os.Exit(0)
	}
	log := filepath.Join(t.TempDir(), "hits")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), envKill+"=append.before:2", envLog+"="+log)
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("ended with %v, want to be killed", err)
	}
	got, err := os.ReadFile(log)
	if want := "append.before 1\nappend.before 2\n"; err != nil || string(got) != want {
		t.Fatalf("the log has %q, %v; want %q", got, err, want)
	}
}

// TestBadEnvironment refuses points that are none.
func TestBadEnvironment(t *testing.T) {
	for _, kill := range []string{"nowhere:1", "append.before", "append.before:0"} {
		if _, err := load(kill, ""); err == nil {
			t.Errorf("%q was taken", kill)
		}
	}
}
