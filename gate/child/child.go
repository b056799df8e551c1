// Package child is what starting, watching and ending a child process has in common: tools and hooks that answer once,
// the processes of a demo or of a test, and the programs beside a sidecar.
package child

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// OwnGroup is how a process is started in a group of its own: a signal at the terminal does not reach it, and all that
// it has started can be told at once.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Signal sends a signal to a whole group; one that is gone needs none.
func Signal(group int, s syscall.Signal) { _ = syscall.Kill(-group, s) }

// Alive reports whether something of a group is still there.
func Alive(group int) bool { return syscall.Kill(-group, 0) == nil }

// KillWithContext has the end of the command's context kill the command and all that it has started. Once the command
// has ended, Wait gives what still holds its output open the time of pipes.
func KillWithContext(cmd *exec.Cmd, pipes time.Duration) {
	cmd.SysProcAttr, cmd.WaitDelay = OwnGroup(), pipes
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// Process is a started process that is waited for.
type Process struct {
	PID   int
	ended chan struct{}
	state *os.ProcessState // once ended is closed
	err   error
}

// Start starts a command and waits for it in a goroutine, once drain has read to the end the pipes that the command
// writes to; nil: there are none.
func Start(cmd *exec.Cmd, drain func()) (*Process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{PID: cmd.Process.Pid, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if drain != nil {
			drain() // before Wait, which closes the pipes
		}
		p.err = cmd.Wait()
		p.state = cmd.ProcessState
	}()
	return p, nil
}

// Ended is closed once the process has ended and its output is read.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Result waits for the end. The state is nil where waiting itself failed; the error is that of exec.Cmd.Wait.
func (p *Process) Result() (*os.ProcessState, error) {
	<-p.ended
	return p.state, p.err
}

// Signal sends a signal to the process alone; os.ErrProcessDone: it has ended.
func (p *Process) Signal(s os.Signal) error {
	select {
	case <-p.ended:
		return os.ErrProcessDone // its id may be another's by now
	default:
	}
	process, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	return process.Signal(s)
}

// LastWords is the end of a file that a process has written, for messages: at most so many bytes, without the blanks
// around them; "" when there is nothing.
func LastWords(path string, most int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-most):]))
}
