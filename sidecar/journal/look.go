package journal

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"
)

// JournalLook is one journal that LookAtJournals finds.
type JournalLook struct {
	Path    string
	Bytes   int64
	Written time.Time
	Log     string // the id of the log that it is of; empty: it names none
	Aside   string // why it was moved aside; empty: it was not, and the next sidecar on its log reads it
	Damaged error  // a record before the last one cannot be read: that sidecar would start over, open transactions lost
}

// LookAtJournals says which journals of an agent a folder holds, of whatever log, the one that was written last first,
// without changing anything and without a lock: a sidecar may start, and write, meanwhile. An error says that the
// folder or a file cannot be read; the journals that can be are there all the same.
func LookAtJournals(dir, workspace, agent string) (looks []JournalLook, err error) {
	of := Of{Workspace: workspace, Agent: agent}
	if _, err := os.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("look for journals: %w", err)
	}
	for _, f := range JournalsIn(dir, of) {
		look := JournalLook{Path: f.Path, Bytes: f.bytes, Written: f.written, Aside: f.Aside}
		file, failed := os.Open(f.Path)
		if failed != nil {
			err = cmp.Or(err, fmt.Errorf("read a journal: %w", failed))
			continue
		}
		_ = file.Close()
		var l *Ledger
		l, look.Damaged = ReadLedger(f.Path)
		look.Log = l.Of.Log
		looks = append(looks, look)
	}
	slices.SortStableFunc(looks, func(a, b JournalLook) int { return b.Written.Compare(a.Written) })
	return looks, err
}
