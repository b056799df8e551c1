package machine

import "syscall"

func boot() string {
	id, _ := syscall.Sysctl("kern.bootsessionuuid") // without it the boot has no name
	return id
}
