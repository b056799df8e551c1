package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that was left to it is collected when it ends; a signal ends it well.
func TestPause(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `sleep 1000 & echo $!; exec "$0" pause`, os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	left, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, done func() bool) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for !done() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatal(what)
			}
		}
	}
	until("the shell has not made way", func() bool { // it might collect the process itself
		runs, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
		return err != nil || filepath.Base(runs) == filepath.Base(os.Args[0])
	})
	if err := syscall.Kill(left, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(fmt.Sprintf("process %d is still there, as a zombie", left), func() bool {
		return errors.Is(syscall.Kill(left, 0), syscall.ESRCH)
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}
