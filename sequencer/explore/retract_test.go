package explore

import "testing"

// TestRetract3x2 walks three transactions on two scopes, one of which is retracted.
func TestRetract3x2(t *testing.T) {
	walk(t, "3 x 2, retraction", full(t, "HENCE_EXPLORE_RETRACT", RetractConfigs(), 4))
}

// TestRetractTwice walks two retractions beside each other.
func TestRetractTwice(t *testing.T) {
	walk(t, "3 x 2, two retractions", full(t, "HENCE_EXPLORE_RETRACT", RetractTwice(), 2))
}
