package sim

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hence-dev/hence/sidecar/journal"
)

// disk is what one process writes its journal to. A process that is killed loses nothing that it wrote; a machine that
// loses its power loses what was not synced, from any byte on.
type disk struct {
	b    *bubble
	p    *proc
	mu   sync.Mutex
	open []*file
	full atomic.Bool
}

// file is one open file of a disk.
type file struct {
	*os.File
	d      *disk
	synced int64 // so many bytes outlive the machine
}

var errDead = errors.New("sim: the process is dead")

func (d *disk) opener(path string) (journal.Disk, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	one := &file{File: f, d: d, synced: info.Size()} // what was there before is on the disk by now
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, one)
	return one, nil
}

// Write is part of a disk's interface to a journal.
func (f *file) Write(p []byte) (int, error) {
	switch {
	case f.d.p.dead.Load():
		return 0, errDead
	case f.d.full.Load():
		n, _ := f.File.Write(p[:f.d.p.n(len(p)+1)/2])
		return n, syscall.ENOSPC
	case f.d.p.chance(func(x *faults) float64 { return x.disk }):
		n, _ := f.File.Write(p[:f.d.p.n(len(p)+1)])
		return n, syscall.EIO
	}
	return f.File.Write(p)
}

// Truncate is part of a disk's interface to a journal.
func (f *file) Truncate(size int64) error {
	switch {
	case f.d.p.dead.Load():
		return errDead
	case f.d.p.chance(func(x *faults) float64 { return x.disk / 4 }):
		return syscall.EIO
	}
	f.synced = min(f.synced, size)
	return f.File.Truncate(size)
}

// Sync is part of a disk's interface to a journal.
func (f *file) Sync() error {
	switch {
	case f.d.p.dead.Load():
		return errDead
	case f.d.p.chance(func(x *faults) float64 { return x.disk }):
		return syscall.EIO
	}
	info, err := f.Stat()
	if err == nil {
		f.synced = info.Size()
	}
	return err
}

// lose is the end of the machine's power: of what was not synced, a part is there.
func (d *disk) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.open {
		info, err := f.Stat()
		if err != nil { // it was closed
			continue
		}
		if left := info.Size() - f.synced; left > 0 {
			_ = f.File.Truncate(f.synced + int64(d.p.n(int(left)+1)))
		}
	}
}
