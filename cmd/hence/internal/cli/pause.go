package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// pauseCmd is the configuration of "hence pause".
type pauseCmd struct{}

// Help is what "hence pause --help" says beyond the flags.
func (c *pauseCmd) Help() string {
	return `It holds a container's network namespace open, so that an agent and its sidecar that both join it can be
restarted, each alone, without losing their addresses. It uses no CPU and no network, reaps orphaned processes, and
ends with exit code 0 on SIGTERM or SIGINT.`
}

// Run sleeps until the context ends. Children of this process are only such as others have left to it.
func (c *pauseCmd) Run(ctx context.Context) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		reap()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil
		}
	}
}

// reap collects every child that has ended, so that none stays as a zombie.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
