package adapters

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/topology/pause"
)

// What the adapter keeps below the root: one note for each key, and former contents that are too long for a note.
const (
	storeDir  = ".hence"
	keysDir   = storeDir + "/keys"
	savedDir  = storeDir + "/saved"
	lockName  = storeDir + "/lock"
	maxInline = 16 << 10 // bytes of content that a note itself carries
	maxNote   = 1 << 20
	lockTurn  = 2 * time.Millisecond
)

// store is a root while one call works in it. Its lock orders calls of all processes, so that a note is never read
// between a change and its end, unless a process died there.
type store struct {
	root *os.Root
	lock *os.File
	disk disk
}

// disk is what a test puts in the place of the real one; the zero value is that.
type disk struct {
	before func(step, name string)   // called before each step that changes something
	fsync  func(file *os.File) error // nil: the file's own
}

func openStore(ctx context.Context, dir string, d disk) (*store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the root: %w", err)
	}
	s := &store{root: root, disk: d}
	for _, name := range []string{keysDir, savedDir} {
		if err := s.makeDirs(name, 0o700); err != nil {
			s.close()
			return nil, err
		}
	}
	if s.lock, err = root.OpenFile(lockName, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		s.close()
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := flock(ctx, s.lock); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func flock(ctx context.Context, f *os.File) error {
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for the root's lock: %w", ctx.Err())
		}
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("taking the root's lock: %w", err)
		}
		// A flock that waits by itself cannot be called off when ctx ends.
		_ = pause.Sleep(ctx, lockTurn)
	}
}

func (s *store) close() {
	if s.lock != nil {
		_ = s.lock.Close() // the lock ends with it; nothing was written
	}
	_ = s.root.Close() // read-only handle of a directory
}

// marker is the note of one key. Without a key it lives in memory only.
type marker struct {
	Request     string      `json:"request,omitempty"`
	Changes     []change    `json:"changes,omitempty"`
	RemoveDirs  []string    `json:"remove_dirs,omitempty"`
	Answer      gate.Answer `json:"answer"`
	Done        bool        `json:"done,omitempty"`
	Compensated bool        `json:"compensated,omitempty"`
}

// change is one file's way from one state to another.
type change struct {
	Path   string `json:"path"`
	Before state  `json:"before"`
	After  state  `json:"after"`
}

// state is what is at a path. Content is in the note when short, else in a file of savedDir named by its sum.
type state struct {
	Absent  bool        `json:"absent,omitempty"`
	Sum     string      `json:"sum,omitempty"`
	Size    int         `json:"size,omitempty"`
	Mode    fs.FileMode `json:"mode,omitempty"`
	Content []byte      `json:"content,omitempty"`
}

func (a state) same(b state) bool {
	return a.Absent == b.Absent && a.Sum == b.Sum && (a.Absent || a.Mode == b.Mode)
}

func (a state) bare() state { a.Content = nil; return a }

func keyFile(key string) string {
	sum := sha256.Sum256([]byte(key))
	return keysDir + "/" + hex.EncodeToString(sum[:])
}

// marker returns a key's note, nil when there is none.
func (s *store) marker(key string) (*marker, error) {
	if key == "" {
		return nil, nil
	}
	data, err := s.root.ReadFile(keyFile(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &marker{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("the note %s is damaged: %w", keyFile(key), err)
	}
	return m, nil
}

func (s *store) note(key string, m *marker) error {
	if key == "" {
		return nil
	}
	data := toJSON(m)
	if len(data) > maxNote {
		return fmt.Errorf("its note would be longer than %d bytes", maxNote)
	}
	return s.replace(keyFile(key), data, 0o600)
}

func (s *store) step(step, name string) {
	if s.disk.before != nil {
		s.disk.before(step, name)
	}
}

// sync makes a file, or the names in a directory, durable.
func (s *store) sync(f *os.File, name string) error {
	s.step("sync", name)
	if s.disk.fsync != nil {
		return s.disk.fsync(f)
	}
	return f.Sync()
}

// replace puts content at a path, whole or not at all, and durable when it returns.
func (s *store) replace(name string, content []byte, mode fs.FileMode) error {
	temp := storeDir + "/writing" // one at a time, under the lock
	s.step("write", name)
	// What a crash has left there may be a second name of a file that was put in its place: it is not written into.
	err := s.root.Remove(temp)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clearing %s: %w", temp, err)
	}
	f, err := s.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making a file: %w", err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = s.sync(f, name)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	s.step("rename", name)
	if err := s.root.Rename(temp, name); err != nil {
		return fmt.Errorf("replacing %s: %w", name, err)
	}
	return s.syncDir(path.Dir(name))
}

// syncDir makes the names in a directory durable; of one that is not there any more that of its nearest parent.
func (s *store) syncDir(name string) error {
	d, err := s.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		return s.syncDir(path.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("opening the directory %s: %w", name, err)
	}
	err = s.sync(d, name)
	if closed := d.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("making the directory %s durable: %w", name, err)
	}
	return nil
}

// makeDirs makes a directory and those above it, each durable in its own before there is something in it.
func (s *store) makeDirs(name string, mode fs.FileMode) error {
	if _, err := s.root.Stat(name); name == "." || err == nil {
		return nil
	}
	if err := s.makeDirs(path.Dir(name), mode); err != nil {
		return err
	}
	s.step("mkdir", name)
	if err := s.root.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making %s: %w", name, err)
	}
	return s.syncDir(path.Dir(name))
}

// bring makes changes in order, and removes directories that are empty by then. All of it is durable when it returns;
// again says that some may have been made by a process that was killed before it could see to that.
func (s *store) bring(changes []change, dirs []string, again bool) error {
	for i := range changes {
		if err := s.apply(&changes[i]); err != nil {
			return err
		}
		for dir := changes[i].Path; again && dir != "."; {
			dir = path.Dir(dir)
			if err := s.syncDir(dir); err != nil {
				return err
			}
		}
	}
	for _, dir := range dirs {
		s.step("rmdir", dir)
		_ = s.root.Remove(dir) // one that is not empty is in use by something else
		if err := s.syncDir(path.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// state reads what is at a path, without its content.
func (s *store) state(name string) (state, error) {
	st, _, err := s.look(name)
	return st, err
}

func (s *store) look(name string) (state, []byte, error) {
	info, err := s.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return state{Absent: true}, nil, nil
	}
	if err != nil {
		return state{}, nil, err
	}
	if !info.Mode().IsRegular() {
		return state{}, nil, refusal{why: name + " is no plain file"}
	}
	if info.Size() > MaxFile {
		return state{}, nil, refusal{why: fmt.Sprintf("%s is longer than %d bytes, so its content cannot be kept", name,
			MaxFile)}
	}
	data, err := s.root.ReadFile(name)
	if err != nil {
		return state{}, nil, err
	}
	return state{Sum: sumOf(data), Size: len(data), Mode: modeOf(info)}, data, nil
}

// keep reads what is at a path and keeps its content.
func (s *store) keep(name string) (state, error) {
	st, data, err := s.look(name)
	if err != nil || st.Absent {
		return st, unsentUnlessRefused(name, err)
	}
	return s.stateOf(data, st.Mode)
}

func unsentUnlessRefused(name string, err error) error {
	if no := (refusal{}); errors.As(err, &no) {
		return err
	}
	return unsent("reading "+name, err)
}

// stateOf keeps a content: in the state itself, or in a file of its own.
func (s *store) stateOf(data []byte, mode fs.FileMode) (state, error) {
	st := state{Sum: sumOf(data), Size: len(data), Mode: mode}
	if len(data) <= maxInline {
		st.Content = data
		return st, nil
	}
	name := savedDir + "/" + st.Sum
	if _, err := s.root.Lstat(name); err == nil {
		return st, nil
	}
	return st, unsent("keeping a content", s.replace(name, data, 0o600))
}

func (s *store) content(st state) ([]byte, error) {
	if st.Size <= maxInline {
		if sumOf(st.Content) != st.Sum {
			return nil, notSent("a kept content is not there")
		}
		return st.Content, nil
	}
	if len(st.Sum) != sha256.Size*2 || path.Base(st.Sum) != st.Sum {
		return nil, notSent("a kept content has no name")
	}
	data, err := s.root.ReadFile(savedDir + "/" + st.Sum)
	if err != nil {
		return nil, unsent("reading a kept content", err)
	}
	if sumOf(data) != st.Sum {
		return nil, notSent("the kept content %s is damaged", st.Sum)
	}
	return data, nil
}

// reached says whether a file is where a change brings it.
func (s *store) reached(c *change) (bool, error) {
	now, err := s.state(c.Path)
	if err != nil {
		return false, err
	}
	if now.same(c.After) {
		return true, nil
	}
	if !now.same(c.Before) {
		return false, fmt.Errorf("%s is neither as it was nor as it should become", c.Path)
	}
	return false, nil
}

// apply makes one change; one that is made already is left.
func (s *store) apply(c *change) error {
	done, err := s.reached(c)
	switch {
	case err != nil:
		return err
	case done:
		return nil
	case c.After.Absent:
		s.step("remove", c.Path)
		if err := s.root.Remove(c.Path); err != nil {
			return fmt.Errorf("removing %s: %w", c.Path, err)
		}
		return s.syncDir(path.Dir(c.Path))
	}
	content, err := s.content(c.After)
	if err != nil {
		return err
	}
	if err := s.makeDirs(path.Dir(c.Path), 0o755); err != nil {
		return err
	}
	return s.replace(c.Path, content, c.After.Mode)
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
