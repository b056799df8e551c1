package sim

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer/testsize"
)

// longRun is how far a long run has come: it is written after each slice and read before the next.
type longRun struct {
	Next    uint64  `json:"next"`     // seed of the next schedule
	Sweep   uint64  `json:"sweep"`    // seed of the next schedule that is struck at each of its operations
	SweepAt int     `json:"sweep_at"` // its cases that are done
	Seconds float64 `json:"seconds"`  // that all slices have taken
	Slices  int     `json:"slices"`
	Sum     Summary `json:"sum"`
	Failed  []string
}

// TestRealSlice goes on with a long run for HENCE_SIM_SECONDS: three quarters of them with schedules of their own,
// one with schedules that are struck. HENCE_SIM_STATE is the file that says how far it has come, -first the seed that
// the first slice begins at.
func TestRealSlice(t *testing.T) {
	path, seconds := os.Getenv("HENCE_SIM_STATE"), simSeconds(t)
	if path == "" || seconds < 4 {
		t.Skip("a slice of a long run: make sim runs it")
	}
	state := longRun{Next: *firstFlag, Sweep: *firstFlag, Sum: newSummary()}
	if body, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(body, &state); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	start := time.Now()
	plain := batch(t, os.Args[0], ordinary(state.Next, 1<<30, seconds*3/4))
	state.Next += uint64(plain.most * workers)
	hit := batch(t, os.Args[0], swept(state.Sweep, state.SweepAt, 1<<30, 0, seconds/4))
	if hit.base > 0 {
		state.Sweep, state.SweepAt = uint64(hit.base), hit.at
	}
	for _, got := range []found{plain, hit} {
		state.Sum.merge(&got.sum)
		if got.what != "" {
			state.Failed = append(state.Failed, got.one.command())
			keep(t, os.Args[0], got.one, got.what)
			t.Error(got.what)
		}
	}
	testsize.Figure(t, start, "simulated schedules of real agents, every invariant held", plain.sum.Schedules, 0,
		"make sim")
	testsize.Figure(t, start, "the same struck at one of their operations", hit.sum.Schedules, 0, "make sim")
	state.Seconds += time.Since(start).Seconds()
	state.Slices++
	body, err := json.MarshalIndent(&state, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%sin %d slices of %.0f seconds together, %.1f schedules a second; %d failed; the next slice begins at seed "+
		"%d", state.Sum.real(), state.Slices, state.Seconds, float64(state.Sum.Schedules)/state.Seconds,
		len(state.Failed), state.Next)
}
