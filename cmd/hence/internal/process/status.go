package process

import (
	"errors"
	"fmt"
	"syscall"
)

// The exit codes that shells give to programs that did not run.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
	codeSignalled     = 128 // and the signal's number
)

// Status is how a program ended.
type Status struct {
	Exit   int            // of a program that ended by itself
	Signal syscall.Signal // that ended it; 0: none did
	Killed bool           // by Run, because it did not end within the grace
}

// Code is the exit code of a shell that ran the program.
func (s Status) Code() int {
	if s.Signal != 0 {
		return codeSignalled + int(s.Signal)
	}
	return s.Exit
}

// String says it in words.
func (s Status) String() string {
	switch {
	case s.Killed:
		return "killed, because it did not end in time"
	case s.Signal != 0:
		return fmt.Sprintf("ended by signal %d (%s)", int(s.Signal), s.Signal)
	}
	return fmt.Sprintf("exit code %d", s.Exit)
}

// Code is the exit code of a shell for an error of Find or Run; ok is false for those that a shell does not know.
func Code(err error) (code int, ok bool) {
	switch {
	case errors.Is(err, ErrNotExecutable):
		return codeNotExecutable, true
	case errors.Is(err, ErrNotFound):
		return codeNotFound, true
	}
	return 0, false
}
