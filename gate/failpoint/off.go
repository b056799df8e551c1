//go:build !failpoints

package failpoint

// Enabled says whether this build can be killed at a point.
const Enabled = false

// Hit does nothing in this build.
func Hit(Point) {}
