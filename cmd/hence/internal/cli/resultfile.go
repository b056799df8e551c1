package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// resultFile is a file that a command makes. It takes the place of what was there once it is whole, so that a command
// that fails leaves a former result as it is. A device or a pipe is written as it comes.
type resultFile struct {
	io.Writer
	file *os.File
	path string // empty: written as it comes
}

// createResult opens a file before the work that it is for: one that cannot be written must not cost that work.
func createResult(path string) (*resultFile, error) {
	to := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		to = real
	}
	var file *os.File
	was, err := os.Stat(to)
	if err == nil && !was.Mode().IsRegular() {
		file, err = os.OpenFile(to, os.O_WRONLY, 0)
		to = ""
	} else {
		file, err = os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-*") // with mode 600
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // its own path may be one that nobody gave
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return &resultFile{Writer: file, file: file, path: to}, nil
}

// end closes the file, and puts it in its place unless the work has failed.
func (r *resultFile) end(failed error) error {
	err := errors.Join(failed, r.file.Close())
	switch {
	case r.path == "":
	case err == nil:
		err = os.Rename(r.file.Name(), r.path)
	default:
		err = errors.Join(err, os.Remove(r.file.Name()))
	}
	return err
}
