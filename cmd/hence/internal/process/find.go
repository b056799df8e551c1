package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrNotFound is returned by Find and Run when there is no such program. Shells exit with 127 then.
var ErrNotFound = errors.New("not found")

// ErrNotExecutable is returned by Find and Run when the program is there and cannot be run. Shells exit with 126 then.
var ErrNotExecutable = errors.New("cannot be executed")

// Find returns the path of a program as a shell in a folder would find it: a name with a slash is a path from there,
// any other is looked for in the PATH of env.
func Find(name, dir string, env []string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("an empty program name: %w", ErrNotFound)
	}
	if strings.Contains(name, "/") {
		path := under(dir, name)
		if err := executable(path); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return path, nil
	}
	kept := ErrNotFound
	for _, folder := range filepath.SplitList(variable(env, "PATH")) {
		path := under(dir, filepath.Join(folder, name))
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, ErrNotExecutable) {
			kept = err
		}
	}
	return "", fmt.Errorf("%s: %w in PATH", name, kept)
}

// under makes a path absolute, seen from a folder; "" is the current one.
func under(dir, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return ErrNotFound
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotExecutable, err)
	case info.IsDir():
		return fmt.Errorf("%w: it is a folder", ErrNotExecutable)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%w: its mode is %#o, run chmod +x %s", ErrNotExecutable, info.Mode().Perm(), path)
	}
	return nil
}

// variable is the last value of a name in an environment.
func variable(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}
