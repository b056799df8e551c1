// Package testsize says how large the searches of the tests are: seeds, schedules, worlds, hostile records.
package testsize

import (
	"os"
	"runtime/debug"
	"testing"
)

// Env asks for searches of full size, which continuous integration runs in turn.
const Env = "HENCE_TEST_FULL"

// Small reports whether a search takes a sample: with -short, and in a plain "go test ./...", which people run to see
// that a clone works.
func Small() bool { return testing.Short() || os.Getenv(Env) == "" }

// Main runs the tests of a package that searches: a search leaves much garbage and keeps little, and collecting it
// less often takes a third of the processor time off. GOGC, where it is set, is kept.
func Main(m *testing.M) {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(400)
	}
	m.Run()
}
