package explore

import (
	"os"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
)

// TestPlainRows walks the world of each row twice: whole and without a violation as the rules are, and to a violation
// with that one rule switched off.
func TestPlainRows(t *testing.T) {
	for _, row := range PlainRows() {
		t.Run(row.Name, func(t *testing.T) {
			if os.Getenv("HENCE_EXPLORE_ALL") == "" && (row.Large || testsize.Small()) {
				t.Logf("only to the violation: set HENCE_EXPLORE_ALL=1 for the whole world")
			} else if r := row.Run(0); !r.Complete || r.Ends == 0 {
				t.Fatal(r)
			} else {
				t.Log(r)
			}
			r := row.Run(row.Weaken)
			t.Logf("%.2000s", r)
			if r.Violation == nil || !strings.Contains(r.Violation.What, row.Wrong) {
				t.Fatalf("without the rule it must find %q", row.Wrong)
			}
			checkScript(t, Config{Weaken: row.Weaken}, r.Violation.Trace)
		})
	}
}
