package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// journal keeps records as lines of JSON in a file: what was answered is there after a restart. When there are more
// than twice the bound, the older ones are dropped. Its owner's lock is held around every call.
type journal[T any] struct {
	path    string
	bound   int
	file    *os.File
	records []T
}

// openJournal reads what was kept. A torn last line is dropped: its sender was not answered.
func openJournal[T any](dir, name string, bound int) (*journal[T], error) {
	j := &journal[T]{path: filepath.Join(dir, name+".jsonl"), bound: bound}
	file, err := os.Open(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		slog.Warn("the journal is missing: a new or lost volume, the tool starts empty", "tool", name, "file", j.path)
	case err != nil:
		return nil, fmt.Errorf("read the journal: %w", err)
	default:
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 2<<20)
		for lines.Scan() {
			var record T
			if json.Unmarshal(lines.Bytes(), &record) == nil {
				j.records = append(j.records, record)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", j.path, err)
		}
	}
	return j, j.rewrite()
}

// rewrite puts the newest records into a file of their own and then in the place of the old one.
func (j *journal[T]) rewrite() error {
	j.records = append([]T(nil), j.records[max(0, len(j.records)-j.bound):]...)
	next, err := os.OpenFile(j.path+".next", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the journal, is the volume writable for this user: %w", err)
	}
	out := bufio.NewWriter(next)
	enc := json.NewEncoder(out)
	for _, r := range j.records {
		err = errors.Join(err, enc.Encode(r))
	}
	if err = errors.Join(err, out.Flush(), os.Rename(j.path+".next", j.path)); err != nil {
		next.Close()
		return fmt.Errorf("write %s: %w", j.path, err)
	}
	j.close()
	j.file = next
	return nil
}

// add keeps a record; then forgot says that older ones were dropped.
func (j *journal[T]) add(record T) (forgot bool, err error) {
	line, err := json.Marshal(record)
	if err != nil {
		return false, fmt.Errorf("write a record: %w", err)
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return false, fmt.Errorf("keep a record: %w", err)
	}
	j.records = append(j.records, record)
	if len(j.records) <= 2*j.bound {
		return false, nil
	}
	return true, j.rewrite()
}

func (j *journal[T]) close() {
	if j.file != nil {
		_ = j.file.Close() // every record was written when it came
	}
}
