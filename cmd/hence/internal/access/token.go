// Package access is what a command needs to be let in: the files of tokens, and whose certificates it takes.
package access

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxToken bounds a token file, in bytes.
const maxToken = 4 << 10

// ReadSecret reads a file of tokens, of most bytes, that others cannot read, or one that a secret was mounted as.
func ReadSecret(path string, most int64) ([]byte, error) { return readSecret("token", path, most) }

// ReadKey reads the file of a private key, as ReadSecret does.
func ReadKey(path string, most int64) ([]byte, error) { return readSecret("key", path, most) }

func readSecret(kind, path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the %s file: %w", kind, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at the %s file: %w", kind, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the %s file %s is not a regular file: name a file%s", kind, path, orNone(kind))
	case info.Size() > most:
		return nil, fmt.Errorf("the %s file %s has %d bytes, at most %d: it holds one %[1]s", kind, path, info.Size(), most)
	}
	if err := checkOpenness(kind, path, info.Mode().Perm(), isMounted(f, info)); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, fmt.Errorf("read the %s file: %w", kind, err)
	}
	return data, nil
}

// ReadToken reads a file that holds one token, as ReadSecret does.
func ReadToken(path string) (string, error) {
	data, err := ReadSecret(path, maxToken)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("the token file %s is empty: write a token into it, or remove it to have one created", path)
	}
	return token, nil
}

// orNone is what else may be named: a token that is not there is made.
func orNone(kind string) string {
	if kind == "token" {
		return ", or one that does not exist yet"
	}
	return ""
}

// checkOpenness says why a file of secrets is too open. One that is ours to change is for its owner alone. The mode of
// a mounted secret is its mounter's choice: often all of a container may read it, or a group, and that is taken, but
// no other user may be able to write it.
func checkOpenness(kind, path string, mode fs.FileMode, mounted bool) error {
	switch {
	case mode&0o022 != 0 && mounted:
		return fmt.Errorf("the %s file %s can be written by others (mode %#o): have it mounted with mode 400 or 440",
			kind, path, mode)
	case mode&0o077 != 0 && !mounted:
		return fmt.Errorf("the %s file %s is open to others (mode %#o): run chmod 600 %[2]s", kind, path, mode)
	case mode&0o004 != 0:
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Warn("every user of this machine or container can read the "+
			kind+" file: mount it with mode 400 or 440", "file", path, "mode", mode.String())
	}
	return nil
}

// isMounted says whether a file's mode is not ours to change: it belongs to another user, or its mount is read-only.
func isMounted(f *os.File, info fs.FileInfo) bool {
	if of, ok := info.Sys().(*syscall.Stat_t); ok && int(of.Uid) != os.Geteuid() {
		return true
	}
	return info.Mode().Perm()&0o077 != 0 && errors.Is(f.Chmod(info.Mode()), syscall.EROFS) // else it changes nothing
}

// KeepToken reads a token file, and makes it first when it is missing. It appears whole or not at all, and of several
// processes that make one at once all get the same token. Who made it says so: the file may have been lost.
func KeepToken(logger *slog.Logger, path string) (string, error) {
	token, err := ReadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	whole, err := os.CreateTemp(filepath.Dir(path), ".token-*") // with mode 600
	if err != nil {
		return "", fmt.Errorf("make the token file: %w; its folder must be there and writable: mkdir -p %s", err,
			filepath.Dir(path))
	}
	defer os.Remove(whole.Name())
	_, err = fmt.Fprintln(whole, rand.Text())
	if err = errors.Join(err, whole.Sync(), whole.Close()); err != nil {
		return "", fmt.Errorf("write the token file: %w", err)
	}
	err = os.Link(whole.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the token file: %w", err)
	}
	if err == nil {
		logger.Warn("the token file is missing: a new token is created, and an older one gets 401", "file", path)
	}
	return ReadToken(path)
}

// operatorTokenName is the operator's token in a sidecar's data folder. It is not beside the agent's token: that file
// is often on a volume which the agent reads.
const operatorTokenName = "operator-token"

// KeepOperatorToken reads the operator's token in a sidecar's data folder; folder and token are made when missing.
func KeepOperatorToken(logger *slog.Logger, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	path := filepath.Join(dir, operatorTokenName)
	token, err := KeepToken(slog.New(slog.DiscardHandler), path) // a new one is nothing to warn of
	if err == nil {
		logger.Info("changing rules, retracting and handling residue need the operator token", "file", path)
	}
	return token, err
}
