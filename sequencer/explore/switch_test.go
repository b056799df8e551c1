package explore

import "testing"

// TestSwitches walks two transactions beside each other, and three, in a workspace that observes and enforces in turn.
func TestSwitches(t *testing.T) {
	walk(t, "2 x 2 and 3 x 2, observing", full(t, "HENCE_EXPLORE_ALL", SwitchConfigs(), 6))
}
