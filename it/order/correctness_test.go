package order

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

// TestCorrectness runs the demo over seeds, numbers of agents and order modes. Its own check must hold, and so must
// the independent ones over what its agents recorded and what the log shows.
func TestCorrectness(t *testing.T) {
	seeds := harness.Number(t, "HENCE_IT_SEEDS", harness.OnReal(3, harness.Sample(3)))
	servers := harness.Start(t)
	for _, agents := range harness.Numbers(t, "HENCE_IT_AGENTS", 8) {
		for _, order := range harness.Orders() {
			for seed := 1; seed <= seeds; seed++ {
				t.Run(fmt.Sprintf("%d_agents/%s/seed_%d", agents, order, seed), func(t *testing.T) {
					harness.Audited(t, servers, "--seed", strconv.Itoa(seed), "--agents", strconv.Itoa(agents), "--order", order)
				})
			}
		}
	}
}

// TestObserveLosesUpdates shows that the demo's work does lose updates when nothing is refused, so that zero lost
// updates in the other runs say something.
func TestObserveLosesUpdates(t *testing.T) {
	report, code := harness.Demo(t, harness.Binary(t), harness.Start(t), harness.DemoBound, "--mode", "observe")
	t.Log(report)
	if code != 0 || report.LostUpdates == 0 {
		t.Errorf("exit code %d with %d lost updates: want 0 and more than 0", code, report.LostUpdates)
	}
}

// TestRealData settles all tasks of real data by 16 agents at once, in each order mode.
func TestRealData(t *testing.T) {
	harness.Whole(t)
	data, servers := harness.RealData(t), harness.Start(t)
	for _, order := range harness.Orders() {
		t.Run(order, func(t *testing.T) {
			report := harness.Audited(t, servers, "--data", data, "--split", "test", "--agents", "16", "--order", order)
			if report.Transactions != 115 {
				t.Errorf("%d tasks, the split has 115", report.Transactions)
			}
		})
	}
}
