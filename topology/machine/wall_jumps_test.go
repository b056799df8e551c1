//go:build failpoints

package machine

import (
	"testing"
	"time"
)

// A jump moves the date and not what lies between two readings.
func TestJumped(t *testing.T) {
	first := time.Now()
	for _, by := range []time.Duration{49 * time.Hour, -49 * time.Hour, time.Second} {
		then := jumped(first, by)
		if then.Sub(first) != 0 || then.Round(0).Sub(first.Round(0)) != by {
			t.Errorf("by %v: %v after %v", by, then, first)
		}
	}
}
