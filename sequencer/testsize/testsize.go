// Package testsize says how large the searches of the tests are: seeds, schedules, worlds, hostile records.
package testsize

import (
	"os"
	"testing"
)

// Env asks for searches of full size, as continuous integration runs them.
const Env = "HENCE_TEST_FULL"

// Small reports whether a search takes a sample: with -short, and in a plain "go test ./...", which people run to see
// that a clone works.
func Small() bool { return testing.Short() || os.Getenv(Env) == "" }
