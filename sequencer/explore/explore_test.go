package explore

import (
	"os"
	"testing"
	"time"
)

func TestScratch(t *testing.T) {
	start := time.Now()
	var reports []Report
	n := 0
	cfgs := PairConfigs()
	if os.Getenv("TRIPLES") != "" {
		cfgs = TripleConfigs()
	}
	for i, cfg := range cfgs {
		if i%17 != 0 && os.Getenv("ALL") == "" {
			continue
		}
		r := Run(cfg)
		reports = append(reports, r)
		n++
		if r.Violation != nil {
			t.Fatal(r)
		}
		if r.States > 20000 {
			t.Log(r)
		}
	}
	t.Log(n, len(cfgs), time.Since(start), Sum("all", reports))
}
