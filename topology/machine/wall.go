//go:build !failpoints

package machine

import "time"

// now is the machine's time of day: only a build for tests can have another one.
func now() time.Time { return time.Now() }
