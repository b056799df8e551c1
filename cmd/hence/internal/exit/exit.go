// Package exit carries an exit code from where a command ends to where the process does.
package exit

import "fmt"

// Error ends a command with an exit code of its own; Err is printed if there is one.
type Error struct {
	Code int // 0 to 255
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("exit code %d: %v", e.Code, e.Err) }

// Unwrap returns what is printed; nil: nothing is.
func (e *Error) Unwrap() error { return e.Err }
