package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/hence-dev/hence/gate/child"
	"github.com/hence-dev/hence/topology/pause"
)

// Spec is a program to run.
type Spec struct {
	Command []string // the program, as Find finds it, and its arguments
	Dir     string   // "" is the current folder
	Env     []string // the whole environment
	In      *os.File // nil: nothing to read
	Out     *os.File // nil: what it writes is dropped
	Err     *os.File

	// Signals are passed on to the whole group, each once. One after which a program is expected to end (SIGINT,
	// SIGTERM, SIGHUP, SIGQUIT) begins the grace; os.Kill ends it.
	Signals  <-chan os.Signal
	Grace    time.Duration // from being told to end to being killed
	Terminal bool          // it may use the terminal of this process; for one program at a time
	Started  func(pid int)
}

// Run runs the program and returns when it has ended and nothing of its group is left. When ctx ends first it is told
// by SIGTERM. An error says that it did not run.
func Run(ctx context.Context, spec Spec) (Status, error) {
	path, err := Find(spec.Command[0], spec.Dir, spec.Env)
	if err != nil {
		return Status{}, err
	}
	r := &running{spec: spec, changes: make(chan syscall.WaitStatus), grace: time.NewTimer(spec.Grace)}
	r.grace.Stop()
	defer r.grace.Stop()
	if spec.Terminal {
		r.terminal = openTerminal()
		defer r.terminal.close()
	}
	adopt()
	started := make(chan error)
	go r.wait(path, started) // ends with the program; the last change is its end
	if err := <-started; err != nil {
		return Status{}, err
	}
	if spec.Started != nil {
		spec.Started(r.pid)
	}
	status := r.supervise(ctx)
	r.terminal.takeBack(r.pid)
	r.sweep()
	return status, nil
}

// running is one run of a program. Its process id is its group's, too.
type running struct {
	spec     Spec
	pid      int
	changes  chan syscall.WaitStatus // stops, and at last the end
	grace    *time.Timer
	told     bool // to end
	killed   bool
	terminal *terminal // nil: none
}

// wait starts the program and reports its changes until it has ended.
func (r *running) wait(path string, started chan<- error) {
	lock() // a program that dies with its parent dies with the thread that started it
	cmd := &exec.Cmd{Path: path, Args: r.spec.Command, Dir: r.spec.Dir, Env: r.spec.Env,
		SysProcAttr: child.OwnGroup()}
	if r.spec.In != nil {
		cmd.Stdin = r.spec.In
	}
	if r.spec.Out != nil {
		cmd.Stdout = r.spec.Out
	}
	if r.spec.Err != nil {
		cmd.Stderr = r.spec.Err
	}
	withParent(cmd.SysProcAttr)
	r.terminal.handOver(cmd.SysProcAttr, r.spec)
	if err := cmd.Start(); err != nil {
		started <- notStarted(r.spec.Command[0], err)
		return
	}
	r.pid = cmd.Process.Pid
	_ = cmd.Process.Release() // it is waited for by its id: only so are stops seen
	started <- nil
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(r.pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			panic(fmt.Sprintf("process: wait for %d, which this process started: %v", r.pid, err))
		}
		r.changes <- status
		if !status.Stopped() {
			return
		}
	}
}

func notStarted(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s: %w: it is not a program and has no #! line", name, ErrNotExecutable)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%s: %w: its folder, or the program of its #! line, does not exist: %w", name, ErrNotFound, err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%s: %w: %w", name, ErrNotExecutable, err)
	}
	return fmt.Errorf("start %s: %w", name, err)
}

// supervise passes on what comes until the program has ended.
func (r *running) supervise(ctx context.Context) Status {
	jobs, stop := r.terminal.jobSignals()
	defer stop()
	done := ctx.Done()
	for {
		select {
		case status := <-r.changes:
			if !status.Stopped() {
				return r.ended(status)
			}
			r.terminal.stopped(r.pid, status.StopSignal())
		case s := <-jobs:
			r.terminal.job(r.pid, s)
		case s := <-r.spec.Signals:
			r.tell(s)
		case <-done:
			done = nil
			r.tell(syscall.SIGTERM)
		case <-r.grace.C:
			r.tell(syscall.SIGKILL)
		}
	}
}

func (r *running) ended(status syscall.WaitStatus) Status {
	if status.Signaled() {
		return Status{Signal: status.Signal(), Killed: r.killed && status.Signal() == syscall.SIGKILL}
	}
	return Status{Exit: status.ExitStatus()}
}

// tell passes a signal on to the group.
func (r *running) tell(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	child.Signal(r.pid, sig)
	switch sig {
	case syscall.SIGKILL:
		r.killed = true
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		child.Signal(r.pid, syscall.SIGCONT) // one that is stopped would not hear of it
		if !r.told {
			r.told = true
			r.grace.Reset(r.spec.Grace)
		}
	}
}

// The pauses between looks at a group whose leader has ended.
const (
	sweepLeast = time.Millisecond
	sweepMost  = 50 * time.Millisecond
	killedWait = time.Second // for the kernel to bury what was killed
)

// sweep ends what the program has left running in its group: no other process would.
func (r *running) sweep() {
	child.Signal(r.pid, syscall.SIGTERM)
	child.Signal(r.pid, syscall.SIGCONT)
	if !empties(r.pid, r.spec.Grace) {
		child.Signal(r.pid, syscall.SIGKILL)
		empties(r.pid, killedWait)
	}
}

// empties waits until a group has no member.
func empties(group int, bound time.Duration) bool {
	end := time.Now().Add(bound)
	for pauses := (pause.Doubling{Least: sweepLeast, Most: sweepMost}); ; {
		for left := 1; left > 0; { // those whose parents have ended are this process's children
			left, _ = syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
		}
		if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pauses.Next())
	}
}
