package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
)

// Of is whose journal one is: of an agent in a workspace of one log. The same names on another log, after
// "hence dev" was started again or on another cluster, mean other transactions. It is the first record of a journal.
type Of struct{ Log, Workspace, Agent string }

// String names the journal for logs and errors.
func (o Of) String() string {
	if o == (Of{}) {
		return "a log that it does not name"
	}
	return fmt.Sprintf("agent %s in workspace %s of log %s", o.Agent, o.Workspace, o.Log)
}

// journalsDir is the folder in a data folder that holds all journals; below it are log, workspace and agent.
const journalsDir = "journals"

// Path is where the journal lies in a data folder. An id of a log may have a slash; the other names have none.
func (o Of) Path(dir string) string {
	return filepath.Join(dir, journalsDir, url.PathEscape(o.Log), o.Workspace, o.Agent, "journal")
}

// OldPath is where releases that did not name the log had it. Other agents' journals may have the same path.
func (o Of) OldPath(dir string) string {
	return filepath.Join(dir, "journal-"+o.Workspace+"-"+o.Agent)
}

// setAside gives a file that must not be read any more a name that says why, and returns it.
func setAside(path, why string) (to string, err error) {
	for n := 1; ; n++ {
		to = fmt.Sprintf("%s.%s-%d", path, why, n)
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", fmt.Errorf("move the journal aside: %w", err)
		}
	}
	if err := os.Rename(path, to); err != nil {
		return "", fmt.Errorf("move the journal aside: %w", err)
	}
	return to, nil
}

// foreign moves a journal aside whose records must not be used.
func (d *Journal) foreign(j *File, why string, cause error) error {
	to, err := j.moveAside(why)
	d.log.Error("the journal is not used: moved aside. "+WithIt, "path", to, "cause", cause)
	return err
}

// How many journals of an agent are kept that this start does not use: of other logs, and moved aside. Of those that
// are older still, such as show an act of which nothing else may know how it ended.
const (
	keptAside    = 16
	keptEvidence = 64
)

// prune removes the oldest journals of the agent that are neither used here nor held by another process.
func (d *Journal) prune(dir string, of Of) {
	var old []lookedAt
	for _, f := range JournalsIn(dir, of) {
		if f.Path != of.Path(dir) && f.Path != of.OldPath(dir) {
			old = append(old, f)
		}
	}
	slices.SortStableFunc(old, func(a, b lookedAt) int { return b.written.Compare(a.written) })
	evidence := 0
	for _, f := range old[min(keptAside, len(old)):] {
		if evidence < keptEvidence && f.unsure() {
			evidence++
			continue
		}
		if err := f.remove(); err != nil && !errors.Is(err, ErrJournalLocked) {
			d.log.Warn("an old journal could not be removed", "path", f.Path, "cause", err)
		} else if err == nil {
			d.log.Info("an old journal was removed", "path", f.Path, "written", f.written)
		}
	}
}

// remove removes a journal that no process has open.
func (f lookedAt) remove() error {
	lock, err := lockFile(f.Path + ".lock")
	if err != nil {
		return err
	}
	err = errors.Join(os.Remove(f.Path), os.Remove(f.Path+".lock"), lock.Close())
	_ = os.Remove(filepath.Dir(f.Path)) // unless there is more in it
	return err
}

// lookedAt is a journal's file as it was found.
type lookedAt struct {
	Path    string
	bytes   int64
	written time.Time
	Aside   string // why it was moved aside; empty: it was not
}

// JournalsIn are all journals of an agent in a data folder, of whatever log, by path.
func JournalsIn(dir string, of Of) []lookedAt {
	any := filepath.Join(dir, journalsDir, "*", of.Workspace, of.Agent, "journal")
	paths := []string{of.OldPath(dir)}
	for _, pattern := range []string{any, any + ".*-*", of.OldPath(dir) + ".*-*"} {
		found, _ := filepath.Glob(pattern) // fails on a pattern that is none only
		paths = append(paths, found...)
	}
	slices.Sort(paths)
	var out []lookedAt
	for _, path := range slices.Compact(paths) {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || filepath.Ext(path) == ".lock" {
			continue
		}
		f := lookedAt{Path: path, bytes: info.Size(), written: info.ModTime()}
		if why := filepath.Ext(path); why != "" {
			f.Aside = why[1:strings.LastIndexByte(why, '-')]
		}
		out = append(out, f)
	}
	return out
}

// newerThan reports whether a journal of the agent that is not used here was written after the one that is: what the
// agent read last it may have read on another log.
func newerThan(dir string, of Of) bool {
	var own, others time.Time
	for _, f := range JournalsIn(dir, of) {
		switch {
		case f.bytes <= int64(len(Magic)), f.Path == of.OldPath(dir): // empty, or another agent's
		case f.Path == of.Path(dir):
			own = f.written
		case f.written.After(others):
			others = f.written
		}
	}
	return others.After(own)
}

// unsure reports whether a journal shows a call without a key, or an agent's own act, whose outcome it does not know:
// for people, it may be the only trace. So may one that cannot be read.
func (f lookedAt) unsure() bool {
	l, err := ReadLedger(f.Path)
	if err != nil {
		return true
	}
	for _, t := range l.Txs {
		if t.Decided != nil && t.Decided.Final {
			continue
		}
		open := func(p *gate.Progress) bool { return p.Key == "" && p.Started && p.InFlight() }
		if len(t.Own) > 0 && t.Told == nil || slices.ContainsFunc(t.effects, open) {
			return true
		}
	}
	return false
}

// ReadLedger reads a journal without its lock and without changing it. A process may be writing to it: a torn end is
// where it is just now, and what looks damaged is looked at once more.
func ReadLedger(path string) (l *Ledger, err error) {
	for range 2 {
		l = newLedger()
		if err = readInto(l, path); !errors.Is(err, ErrCorrupt) {
			break
		}
	}
	return l, cmp.Or(err, l.Mixed)
}

func readInto(l *Ledger, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	defer file.Close()
	if _, _, err = Scan(file, l.apply); err != nil {
		return fmt.Errorf("read the journal %s: %w", path, err)
	}
	return nil
}
