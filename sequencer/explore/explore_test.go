package explore

import (
	"fmt"
	"strings"
	"testing"
)

// TestRows walks each row's configurations twice: whole and without a violation as the rules are, and to a violation
// with that one rule switched off.
func TestRows(t *testing.T) {
	for _, row := range Rows() {
		t.Run(row.Name, func(t *testing.T) {
			for i, cfg := range row.Configs {
				cfg.Name = fmt.Sprintf("row %s, configuration %d", row.Name, i+1)
				r := Run(cfg)
				t.Log(r)
				if !r.Complete {
					t.Fatal("the walk with all rules on is not complete and free of violations")
				}
				cfg.Weaken, cfg.Careless = row.Weaken, row.Careless
				cfg.Replay = true
				r = Run(cfg)
				t.Log(r)
				if r.Violation == nil || !strings.Contains(r.Violation.What, row.Wrong) {
					t.Fatalf("without the rule it must find %q", row.Wrong)
				}
			}
		})
	}
}
