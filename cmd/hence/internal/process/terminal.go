package process

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hence-dev/hence/gate/child"
)

// terminal is the controlling terminal of this process, shared with the program that runs. Its methods do nothing on
// nil: then there is none.
//
// The terminal sends Ctrl-C to its foreground group only. While that is the program's, this process does not see the
// signal; while it is this process's, it passes the signal on. So it arrives once. The program gets the foreground at
// its start when it both reads from and writes to the terminal, and otherwise when it first asks for it (the kernel
// stops it then): in "hence run ... | less" the foreground belongs to less as well.
type terminal struct {
	file  *os.File
	own   int  // this process's group
	given bool // the program has had the foreground
	jobs  chan os.Signal
}

// openTerminal returns nil when this process has no terminal.
func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{file: file, own: syscall.Getpgrp(), jobs: make(chan os.Signal, 4)}
}

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close()
	}
}

// foreground is the group that the terminal listens to; 0 when that cannot be known.
func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// give makes a group the foreground. The kernel would stop a process that does this from the background, unless it
// ignores the signal.
func (t *terminal) give(group int) {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group) // a group that is gone needs none
}

// handOver lets the program start in the foreground.
func (t *terminal) handOver(a *syscall.SysProcAttr, spec Spec) {
	if t != nil && t.foreground() == t.own && isTerminal(spec.In) && isTerminal(spec.Out) {
		a.Foreground, a.Ctty, t.given = true, int(t.file.Fd()), true
	}
}

func isTerminal(f *os.File) bool {
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}

// takeBack takes the terminal back from a group that has ended.
func (t *terminal) takeBack(group int) {
	if t != nil && t.foreground() == group {
		t.give(t.own)
	}
}

// jobSignals are the signals of job control, to be given to job.
func (t *terminal) jobSignals() (<-chan os.Signal, func()) {
	if t == nil {
		return nil, func() {}
	}
	signal.Notify(t.jobs, syscall.SIGTSTP, syscall.SIGCONT)
	return t.jobs, func() { signal.Stop(t.jobs) }
}

// stopped is called when the program's group was stopped.
func (t *terminal) stopped(group int, by syscall.Signal) {
	if t == nil {
		return
	}
	if (by == syscall.SIGTTIN || by == syscall.SIGTTOU) && t.foreground() == t.own {
		t.give(group)
		t.given = true
		child.Signal(group, syscall.SIGCONT)
		return
	}
	if t.underShell() {
		_ = syscall.Kill(0, syscall.SIGSTOP) // the shell must see its job stopped: that is this process's group
	} else if by == syscall.SIGTSTP {
		child.Signal(group, syscall.SIGCONT) // it could not be continued: without this process the kernel would not stop it
	}
}

// underShell says whether a process sees this process's group stop and can continue it: a shell with job
// control gives each job a group, and stays in the session.
func (t *terminal) underShell() bool {
	session, err := unix.Getsid(0)
	if err != nil || session == t.own {
		return false
	}
	parents, err := unix.Getsid(os.Getppid())
	return err == nil && parents == session
}

// job is called with a signal of job control that this process got.
func (t *terminal) job(group int, s os.Signal) {
	if s == syscall.SIGTSTP {
		child.Signal(group, syscall.SIGTSTP)
		return
	}
	if t.given && t.foreground() == t.own {
		t.give(group)
	}
	child.Signal(group, syscall.SIGCONT)
}
