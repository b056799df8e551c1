//go:build unix

package agent

import (
	"os/exec"
	"syscall"
)

// killAll lets the end of a command's context end everything that the command has started, too.
func killAll(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
