//go:build !darwin

package devfile

import "os"

// boot names the time since the system was started; empty: the system has no name for it.
func boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return trimmed(string(id))
}
