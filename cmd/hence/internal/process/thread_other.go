//go:build unix && !linux

package process

import "syscall"

func lock() {}

// withParent does nothing: such a wish is known on Linux only.
func withParent(*syscall.SysProcAttr) {}

func adopt() {}
