package process

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock ties the calling goroutine to its thread for good.
func lock() { runtime.LockOSThread() }

// withParent lets the program be told when this process is killed.
func withParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }

// adopt lets programs whose parents have ended become children of this process, so that their ends are seen here. Not
// everywhere does the first process of the machine or of the container collect them.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
