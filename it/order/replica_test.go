package order

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/traffic"
)

// gapMost is how long a transaction may take when one of two groups has just ended: less than a group needs to notice.
const gapMost = 3 * time.Second

// TestTwoGroups lets a second group decide beside the first one and ends one of them in the middle of the traffic,
// then the other: no agent waits for a group, and there is one chain.
func TestTwoGroups(t *testing.T) {
	servers := harness.Start(t)
	first := harness.Deploy(t, servers)
	second := first.Replica(t, "b")
	rec := traffic.NewRecorder()
	sidecars := first.Sidecars(t, 6)
	plan := traffic.Plan{Transactions: 25, Scopes: 60, Reads: 2, Writes: 1, Think: time.Millisecond, Seed: 6}
	one := traffic.Plan{Transactions: 1, Scopes: 60, Reads: 2, Writes: 1, Seed: 7}
	run(t, sidecars, plan, rec)

	first.StopProcessors()
	gapFirst := harness.Timed(func() { run(t, sidecars[:1], one, rec) })
	run(t, sidecars, plan, rec)

	first.StartProcessors(t)
	run(t, sidecars, plan, rec)
	second.StopProcessors()
	gapSecond := harness.Timed(func() { run(t, sidecars[:1], one, rec) })
	run(t, sidecars, plan, rec)

	attempts := rec.Attempts()
	harness.Holds(t, attempts, harness.DecisionsOf(t, servers, first.Workspace, attempts))
	t.Logf("%s; the next transaction took %v after the first group ended, %v after the second", rec.Figures(),
		gapFirst.Round(time.Millisecond), gapSecond.Round(time.Millisecond))
	if gapFirst > gapMost {
		t.Errorf("the next transaction took %v, more than %v", gapFirst, gapMost)
	}
}
