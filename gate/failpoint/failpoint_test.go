package failpoint

import (
	"slices"
	"testing"
)

// TestAll lists every point once.
func TestAll(t *testing.T) {
	all := All()
	slices.Sort(all)
	if len(slices.Compact(all)) != len(All()) {
		t.Fatalf("a point is listed twice in %v", All())
	}
	Hit(CallBeforeCall) // without the environment, in any build, nothing happens
}
