//go:build !darwin

package machine

import "os"

func boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it the boot has no name
	return string(id)
}
