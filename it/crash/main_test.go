// Package crash kills sidecars and the servers of "hence dev" at every step of a settlement and of a start, and judges
// what agents were told, the sinks did and the journal has.
package crash

import (
	"os"
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

// TestMain is also the agent that the tests of "hence dev" start as a process of its own.
func TestMain(m *testing.M) {
	if rounds := os.Getenv(envDevAgent); rounds != "" {
		os.Exit(playDevAgent(rounds))
	}
	harness.Main(m)
}
