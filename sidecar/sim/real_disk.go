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
	how := d.p.op(doorOpen)
	if how == Fails || d.p.dead.Load() {
		return nil, errStruck
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err = d.p.done(how, err); err != nil {
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
	if f.d.p.dead.Load() {
		return 0, errDead
	}
	how := f.d.p.op(doorWrite)
	switch {
	case how.ends() && !how.after(): // some of it may be there
		n, _ := f.File.Write(p[:f.d.p.n(len(p)+1)])
		return n, errDead
	case f.d.full.Load():
		n, _ := f.File.Write(p[:f.d.p.n(len(p)+1)/2])
		return n, syscall.ENOSPC
	case how == Fails, f.d.p.chance(hitDiskFails, func(x *faults) float64 { return x.disk }):
		n, _ := f.File.Write(p[:f.d.p.n(len(p)+1)])
		return n, syscall.EIO
	}
	n, err := f.File.Write(p)
	return n, f.d.p.done(how, err)
}

// Truncate is part of a disk's interface to a journal.
func (f *file) Truncate(size int64) error {
	if f.d.p.dead.Load() {
		return errDead
	}
	how := f.d.p.op(doorTruncate)
	switch {
	case how.ends() && !how.after():
		return errDead
	case how == Fails, f.d.p.chance(hitDiskFails, func(x *faults) float64 { return x.disk / 4 }):
		return syscall.EIO
	}
	f.synced = min(f.synced, size)
	return f.d.p.done(how, f.File.Truncate(size))
}

// Sync is part of a disk's interface to a journal.
func (f *file) Sync() error {
	if f.d.p.dead.Load() {
		return errDead
	}
	how := f.d.p.op(doorSync)
	switch {
	case how.ends() && !how.after():
		return errDead
	case how == Fails, f.d.p.chance(hitDiskFails, func(x *faults) float64 { return x.disk }):
		return syscall.EIO
	}
	info, err := f.Stat()
	if err == nil {
		f.synced = info.Size()
	}
	return f.d.p.done(how, err)
}

// ReadAt is part of a disk's interface to a journal.
func (f *file) ReadAt(p []byte, at int64) (int, error) {
	if f.d.p.dead.Load() {
		return 0, errDead
	}
	if err := f.d.p.passes(doorRead); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, at)
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
