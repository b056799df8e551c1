package cli

import (
	"encoding/json"
	"testing"
)

// simulate runs "hence sim -o json" and returns its sum without what differs from run to run.
func simulate(t *testing.T, args ...string) Simulated {
	t.Helper()
	code, out, errs := hence(t, append([]string{"sim", "-o", "json"}, args...)...)
	var s Simulated
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != ExitOK {
		t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
	}
	s.DurationMs = 0
	return s
}

// TestSimDependsOnItsSeedsAlone holds that the same seeds give the same hash, in one run or another.
func TestSimDependsOnItsSeedsAlone(t *testing.T) {
	first, again := simulate(t, "--seed", "7", "--schedules", "4"), simulate(t, "--seed", "7", "--schedules", "4")
	if first.Hash != again.Hash || first.Commits != again.Commits || first.Schedules != 4 || first.Violations != 0 {
		t.Errorf("the first run came to %+v, the second one to %+v", first, again)
	}
	if first.Commits == 0 || first.Faults == 0 || len(first.Probes) == 0 {
		t.Errorf("nothing happened: %+v", first)
	}
	if other := simulate(t, "--seed", "8", "--schedules", "4"); other.Hash == first.Hash {
		t.Error("other seeds give the same hash")
	}
}
