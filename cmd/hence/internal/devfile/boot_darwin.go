package devfile

import "syscall"

// boot names the time since the system was started.
func boot() string {
	id, _ := syscall.Sysctl("kern.bootsessionuuid")
	return trimmed(id)
}
