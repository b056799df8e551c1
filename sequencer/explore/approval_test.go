package explore

import (
	"os"
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
)

// TestApprovals walks a transaction whose held effects need a yes, and people who approve and deny them.
func TestApprovals(t *testing.T) {
	var reports []Report
	cfgs, large := approvalConfigs()
	switch {
	case os.Getenv("HENCE_EXPLORE_ALL") != "":
		cfgs = append(cfgs, large...)
	case testsize.Small():
		cfgs = cfgs[:2]
		fallthrough
	default:
		t.Logf("%d configurations, and not %d larger ones: set HENCE_EXPLORE_ALL=1 for all", len(cfgs), len(large))
	}
	for _, cfg := range cfgs {
		r := newApprovals(cfg).run()
		if !r.Complete || r.Ends == 0 || r.Commits == 0 {
			t.Fatalf("%.6000s", r)
		}
		t.Log(r)
		reports = append(reports, r)
	}
	t.Logf("%d configurations: %s", len(cfgs), Sum("approvals", reports))
}
