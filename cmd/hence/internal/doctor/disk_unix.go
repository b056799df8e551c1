//go:build unix

package doctor

import "syscall"

// freeBytes is what is free for us on the file system of a folder.
func freeBytes(dir string) (free uint64, known bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, false
	}
	return uint64(s.Bavail) * uint64(s.Bsize), true
}
