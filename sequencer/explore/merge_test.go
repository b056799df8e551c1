package explore

import (
	"strings"
	"testing"
)

// walkMerge walks configurations of the world of writes that merge.
func walkMerge(t *testing.T, cfgs []mergeConfig) {
	t.Helper()
	var reports []Report
	for _, cfg := range cfgs {
		r := newMerge(cfg).run()
		if !r.Complete || r.Ends == 0 || r.Commits == 0 {
			t.Fatalf("%.6000s", r)
		}
		reports = append(reports, r)
	}
	t.Logf("%d configurations: %s", len(cfgs), Sum("3 x 2, merging", reports))
}

// TestMerge walks three transactions that write deltas, contents and reads on two shards, each retracted at any time.
func TestMerge(t *testing.T) {
	walkMerge(t, full(t, "HENCE_EXPLORE_ALL", mergeConfigs(), 12))
}

// TestMergeFaults holds that the world tells who follows the decisions wrongly.
func TestMergeFaults(t *testing.T) {
	for fault, wrong := range map[mergeFault]string{countsTwice: "what stands is", losesDelta: "what stands is",
		forgetsDeltas: "what stands is"} {
		cfg := mergeOf("As", "As", "Ws")
		walkMerge(t, []mergeConfig{cfg})
		cfg.fault = fault
		r := newMerge(cfg).run()
		if r.Violation == nil || !strings.Contains(r.Violation.What, wrong) {
			t.Errorf("fault %d: %s", fault, r)
		} else {
			t.Logf("fault %d: %s", fault, r.Violation.What)
		}
	}
}
