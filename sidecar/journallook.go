package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// JournalLook is what LookAtJournal finds. The zero value is a journal that is not there yet.
type JournalLook struct {
	Path    string
	Bytes   int64 // zero: there is none
	Locked  bool  // a process has it open; then it was not read
	Damaged error // a record before the last one cannot be read: the sidecar would begin anew, open transactions lost
}

// LookAtJournal says how an agent's journal in a folder is, without changing it. An error says that it cannot be
// looked at: the folder or a file is not readable.
func LookAtJournal(dir, workspace, agent string) (JournalLook, error) {
	look := JournalLook{Path: filepath.Join(dir, "journal-"+workspace+"-"+agent)}
	info, err := os.Stat(look.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return look, nil
	}
	if err != nil {
		return look, fmt.Errorf("look at the journal: %w", err)
	}
	look.Bytes = info.Size()
	lock, err := lockFile(look.Path + ".lock")
	if errors.Is(err, ErrJournalLocked) {
		look.Locked = true
		return look, nil
	}
	if err != nil {
		return look, err
	}
	defer lock.Close()
	file, err := os.Open(look.Path)
	if err != nil {
		return look, fmt.Errorf("read the journal: %w", err)
	}
	defer file.Close()
	if _, _, err := scanJournal(file, func([]byte) error { return nil }); errors.Is(err, errCorrupt) {
		look.Damaged = err
	} else if err != nil {
		return look, fmt.Errorf("read the journal: %w", err)
	}
	return look, nil
}
