package explore

import (
	"os"
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
)

// TestPlainRows walks the world of each row whole and without a violation.
func TestPlainRows(t *testing.T) {
	for _, row := range PlainRows() {
		t.Run(row.Name, func(t *testing.T) {
			if os.Getenv("HENCE_EXPLORE_ALL") == "" && (row.Large || testsize.Small()) {
				t.Logf("not walked: set HENCE_EXPLORE_ALL=1 for the whole world")
			} else if r := row.Run(); !r.Complete || r.Ends == 0 {
				t.Fatal(r)
			} else {
				t.Log(r)
			}
		})
	}
}
