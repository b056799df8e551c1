package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/cmd/hence/internal/beside"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/journal"
)

// leastFree is how much of a file system should be free, in bytes: a journal is rewritten at 8 MiB.
const leastFree = 256 << 20

// lookAtFiles looks at what a sidecar keeps on this machine. It returns the folder of its journals; empty: there is no
// use in looking into it.
func (p *Patient) lookAtFiles(found *checkup) (journals string) {
	if p.TokenFile != "" {
		lookAtToken(found, p.TokenFile)
	}
	dir := p.DataDir
	if dir == "" {
		var err error
		if dir, err = beside.CachedJournal(p.Workspace, p.Agent); err != nil {
			found.note("journal", "no journal was checked, give its folder with --data-dir: %v", err)
		}
	}
	if dir != "" && lookAtFolder(found, dir) {
		journals = dir
	}
	found.ok("caches", "tables are in the processors' memory and come from Kafka: there is no cache on disk")
	return journals
}

func lookAtToken(found *checkup, path string) {
	const part = "token"
	_, err := access.ReadToken(path)
	if err == nil {
		found.ok(part, "%s can be read, and written by its owner only", path)
		return
	}
	info, statErr := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && writable(filepath.Dir(path)) == nil:
		found.note(part, "%s is not there yet: it is made at the first start", path)
	case errors.Is(err, fs.ErrNotExist):
		found.problem(part, "mkdir -p "+show.ShellWord(filepath.Dir(path)), "%s cannot be made: its folder is "+
			"missing or cannot be written", path)
	case statErr == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0:
		found.problem(part, "chmod 600 "+show.ShellWord(path),
			"%s can be read by others (mode %#o): a reader of it can act as the agent", path, info.Mode().Perm())
	case errors.Is(err, fs.ErrPermission):
		found.problem(part, "chown $(id -u) "+show.ShellWord(path), "%v", err)
	default:
		found.problem(part, "rm "+show.ShellWord(path)+"  # a new one is made at the next start", "%v", err)
	}
}

// lookAtFolder looks at a journal's folder; false: there is no use in looking further.
func lookAtFolder(found *checkup, dir string) bool {
	const part = "journal"
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		above := existing(dir)
		if err := writable(above); err != nil {
			found.problem(part, fmt.Sprintf("mkdir -p %s && chown $(id -u) %[1]s", show.ShellWord(dir)),
				"%s is not there and cannot be made: %v", dir, err)
		} else {
			found.note(part, "%s is not there yet: it is made at the first start", dir)
		}
		return false
	case err != nil:
		found.problem(part, "chown $(id -u) "+show.ShellWord(dir), "%v", err)
		return false
	case !info.IsDir():
		found.problem(part, "give a folder: --data-dir DIR", "%s is not a folder", dir)
		return false
	}
	if err := writable(dir); err != nil {
		found.problem(part, "chown $(id -u) "+show.ShellWord(dir)+" && chmod 700 "+show.ShellWord(dir),
			"%s is not writable: %v", dir, err)
		return false
	}
	if info.Mode().Perm()&0o022 != 0 {
		found.problem(part, "chmod 700 "+show.ShellWord(dir), "%s can be changed by others (mode %#o)", dir,
			info.Mode().Perm())
	}
	if free, known := freeBytes(dir); known && free < leastFree {
		found.problem(part, "df -h "+show.ShellWord(dir)+"  # and free some", "%d MiB are free where %s lies, %d MiB "+
			"should be", free>>20, dir, leastFree>>20)
	}
	return true
}

// lookAtJournals lists the agent's journals. A sidecar reads that of the cluster's log only: what those of other logs
// say is not true here.
func (p *Patient) lookAtJournals(found *checkup, dir, log string) {
	const part = "journal"
	looks, err := journal.LookAtJournals(dir, p.Workspace, p.Agent)
	if err != nil {
		found.problem(part, "chown -R $(id -u) "+show.ShellWord(dir), "%v", err)
	} else if len(looks) == 0 {
		found.note(part, "%s holds no journal of %s in %s", dir, p.Agent, p.Workspace)
	}
	for _, look := range looks {
		of := "of log " + look.Log
		if look.Log == "" {
			of = "which names no log"
		}
		switch {
		case look.Aside != "":
			found.note(part, "%s, %d bytes, %s, was moved aside (%s): it is kept for inspection, and no sidecar reads it",
				look.Path, look.Bytes, of, look.Aside)
		case look.Damaged != nil:
			found.problem(part, fmt.Sprintf("mv %s %[1]s.damaged-0  # open transactions of %s end with session_lost",
				show.ShellWord(look.Path), p.Agent), "%s: %v", look.Path, look.Damaged)
		case log != "" && look.Log == log:
			found.ok(part, "%s is whole, %d bytes, of this log: the sidecar goes on with it", look.Path, look.Bytes)
		case look.Log == "":
			found.ok(part, "%s is whole, %d bytes, and names no log: an older release has left it, and the next start takes "+
				"it over if the log shows that it is its own", look.Path, look.Bytes)
		case log != "":
			found.note(part, "%s is whole, %d bytes, %s and not of this one: it is not read here", look.Path, look.Bytes, of)
		default:
			found.ok(part, "%s is whole, %d bytes, %s", look.Path, look.Bytes, of)
		}
	}
}

// existing is the nearest folder above a path that is there.
func existing(path string) string {
	for {
		above := filepath.Dir(path)
		if _, err := os.Stat(above); err == nil || above == path {
			return above
		}
		path = above
	}
}

// writable says why nothing can be written to a folder.
func writable(dir string) error {
	probe, err := os.CreateTemp(dir, ".hence-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}
