package it

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
)

// demoBound is how long one run of the demo may take.
const demoBound = 5 * time.Minute

// orders are the order modes that every run is repeated in.
func orders() []string { return []string{"optimistic", "ordered", "locked"} }

// TestCorrectness runs the demo over seeds, numbers of agents and order modes. Its own check must hold, and so must
// the independent ones over what its agents recorded and what the log shows.
func TestCorrectness(t *testing.T) {
	seeds := number(t, "HENCE_IT_SEEDS", onReal(3, sample(3)))
	servers := harness.Start(t)
	for _, agents := range numbers(t, "HENCE_IT_AGENTS", 8) {
		for _, order := range orders() {
			for seed := 1; seed <= seeds; seed++ {
				t.Run(fmt.Sprintf("%d_agents/%s/seed_%d", agents, order, seed), func(t *testing.T) {
					audited(t, servers, "--seed", strconv.Itoa(seed), "--agents", strconv.Itoa(agents), "--order", order)
				})
			}
		}
	}
}

// audited runs an enforcing demo and checks it twice: what it says of itself, and what its records and the log say.
func audited(t *testing.T, servers *harness.Servers, args ...string) harness.Report {
	t.Helper()
	records := filepath.Join(t.TempDir(), "records")
	report, code := harness.Demo(t, henceBinary(t), servers, demoBound, append(args, "--records", records)...)
	t.Log(report)
	if err := report.Holds(); err != nil || code != 0 {
		t.Errorf("exit code %d: %v", code, err)
	}
	if report.Committed != report.Transactions || report.GaveUp != 0 {
		t.Errorf("%d of %d tasks are committed, %d were given up", report.Committed, report.Transactions, report.GaveUp)
	}
	attempts := attemptsOf(t, harness.ReadAttempts(t, records))
	holds(t, attempts, decisionsOf(t, servers, report.Workspace, attempts))
	return report
}

// TestObserveLosesUpdates shows that the demo's work does lose updates when nothing is refused, so that zero lost
// updates in the other runs say something.
func TestObserveLosesUpdates(t *testing.T) {
	report, code := harness.Demo(t, henceBinary(t), harness.Start(t), demoBound, "--mode", "observe")
	t.Log(report)
	if code != 0 || report.LostUpdates == 0 {
		t.Errorf("exit code %d with %d lost updates: want 0 and more than 0", code, report.LostUpdates)
	}
}

// TestRealData settles all tasks of real data by 16 agents at once, in each order mode.
func TestRealData(t *testing.T) {
	whole(t)
	data, servers := realData(t), harness.Start(t)
	for _, order := range orders() {
		t.Run(order, func(t *testing.T) {
			report := audited(t, servers, "--data", data, "--split", "test", "--agents", "16", "--order", order)
			if report.Transactions != 115 {
				t.Errorf("%d tasks, the split has 115", report.Transactions)
			}
		})
	}
}
