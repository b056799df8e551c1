// Package devfile is how other commands of the same user find a "hence dev" that runs: a file below the user's state
// folder says where it is and what its callers must show. Its process holds a lock on it for as long as it runs, so a
// file that a killed process has left behind is told from one that holds, whatever became of its process number. The
// folder may be shared with other machines or containers, whose loopback is another one: the file names its own.
package devfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// File is what a running "hence dev" says of itself.
type File struct {
	PID           int       `json:"pid"`
	Started       time.Time `json:"started"`
	URL           string    `json:"url"`
	Token         string    `json:"token"`
	OperatorToken string    `json:"operator_token,omitempty"` // unless the token has both roles
	Brokers       []string  `json:"brokers"`
	NATS          string    `json:"nats"`
	Agent         string    `json:"agent"`
	Workspace     string    `json:"workspace"`
	Policy        string    `json:"policy,omitempty"` // an absolute path
	Machine       Machine   `json:"machine"`          // Publish sets it

	Path string `json:"-"` // of the file itself
}

// Found is what a state folder has.
type Found struct {
	Running   *File  // of those that run here, the one that was started last; nil: none does
	Gone      []File // their process has ended without taking them away
	Elsewhere []File // of another machine or container: their address means something else here
}

const (
	prefix  = "dev-"
	suffix  = ".json"
	maxSize = 64 << 10 // bytes of one file
)

// Folder is where Hence keeps what is about this user on this machine: below XDG_STATE_HOME, else where the system
// keeps such things. It need not be there yet.
func Folder() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) { // a relative one is to be ignored
		return filepath.Join(dir, "hence"), nil
	}
	home, err := os.UserHomeDir()
	switch {
	case err != nil:
		return "", fmt.Errorf("find the user's state folder, name one in XDG_STATE_HOME: %w", err)
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "hence"), nil
	}
	return filepath.Join(home, ".local", "state", "hence"), nil
}

// Publish writes the file of this process and holds its lock until it is withdrawn. What killed processes have left
// is removed.
func Publish(folder string, f File) (withdraw func() error, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	found, err := Find(folder)
	if err != nil {
		return nil, err
	}
	f.Machine = here()
	for _, left := range found.Gone {
		_ = os.Remove(left.Path) // the next start tries again
	}
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the context file: %w", err)
	}
	file, err := os.CreateTemp(folder, ".dev-*") // with mode 600, and not read before it is whole and locked
	if err != nil {
		return nil, fmt.Errorf("make the context file: %w", err)
	}
	path := filepath.Join(folder, prefix+strings.TrimPrefix(filepath.Base(file.Name()), ".dev-")+suffix)
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		_, err = file.Write(append(text, '\n'))
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the context file: %w", err), os.Remove(file.Name()), file.Close())
	}
	return func() error { return errors.Join(os.Remove(path), file.Close()) }, nil // the lock goes with the file
}

// Find looks at every context file of a folder.
func Find(folder string) (found Found, err error) {
	paths, err := filepath.Glob(filepath.Join(escaped(folder), prefix+"*"+suffix))
	if err != nil {
		return Found{}, fmt.Errorf("look for context files: %w", err)
	}
	at := here()
	for _, path := range paths {
		f, live, err := read(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has just ended
		case err != nil:
			return Found{}, err
		case !live && f.Machine.locksWith(at):
			found.Gone = append(found.Gone, *f)
		case !f.Machine.is(at):
			found.Elsewhere = append(found.Elsewhere, *f)
		case found.Running == nil || f.Started.After(found.Running.Started):
			found.Running = f
		}
	}
	return found, nil
}

// escaped is a folder's name as a pattern that means just it.
func escaped(folder string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(folder)
}

// read reads one file; live: the process that wrote it still runs. A file that others could have written or read is
// refused: it says whom to send a token to.
func read(path string) (f *File, live bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, false, fmt.Errorf("read the context file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("look at the context file: %w", err)
	}
	of, known := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || known && int(of.Uid) != os.Geteuid() {
		return nil, false, fmt.Errorf("the context file %s is accessible to others (mode %s): remove it and start hence "+
			"dev again", path, info.Mode())
	}
	lock := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	text, err := io.ReadAll(io.LimitReader(file, maxSize))
	f = &File{}
	if err == nil {
		err = json.Unmarshal(text, f)
	}
	f.Path, live = path, errors.Is(lock, syscall.EWOULDBLOCK)
	if err != nil && live {
		return nil, false, fmt.Errorf("the context file %s cannot be read: %w: start hence dev again", path, err)
	}
	return f, live, nil // one that was cut off is of a process that is gone
}
