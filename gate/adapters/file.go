package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
)

// MaxFile is the size of the largest file that is written, or whose content is kept, in bytes.
const MaxFile = 64 << 20

type fileAdapter struct {
	spec              gate.FileSpec
	root              string
	path, to, content template.Template
	disk              disk
}

func newFile(d gate.Decl) (gate.Adapter, error) {
	spec, err := readSpec[gate.FileSpec](d)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(d.Env.Root) {
		return nil, fmt.Errorf("the root %q: declare an absolute directory", d.Env.Root)
	}
	if info, err := os.Stat(d.Env.Root); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the root %s is no directory: create it", d.Env.Root)
	}
	switch spec.Op {
	case gate.OpRead, gate.OpWrite, gate.OpAppend, gate.OpMove, gate.OpDelete, gate.OpRestore:
	default:
		return nil, fmt.Errorf("op %q: write read, write, append, move, delete or restore", spec.Op)
	}
	p := &parser{}
	a := &fileAdapter{spec: spec, root: d.Env.Root, path: p.text("path", spec.Path), to: p.text("to", spec.To),
		content: p.text("content", spec.Content)}
	return a, p.err
}

// job is one call with its values filled in.
type fileJob struct {
	store    *store
	call     gate.Call
	op       string
	path, to string
	content  []byte
}

func (a *fileAdapter) open(ctx context.Context, c gate.Call) (*fileJob, error) {
	j := &fileJob{call: c, op: a.spec.Op}
	if a.spec.Op != gate.OpRestore {
		v, err := values(c)
		if err != nil {
			return nil, err
		}
		if err := j.fill(a, v); err != nil {
			return nil, unsent("the file's name or content", err)
		}
	}
	var err error
	if j.store, err = a.store(ctx); err != nil {
		return nil, unsent("opening the root", err)
	}
	return j, nil
}

func (a *fileAdapter) store(ctx context.Context) (*store, error) {
	return openStore(ctx, a.root, a.disk)
}

func (j *fileJob) fill(a *fileAdapter, v template.Values) error {
	var err error
	if j.path, err = inside(a.path, v); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if a.spec.Op == gate.OpMove {
		if j.to, err = inside(a.to, v); err != nil {
			return fmt.Errorf("to: %w", err)
		}
		if j.to == j.path {
			return errors.New("path and to are the same file")
		}
	}
	text, err := a.content.Expand(v, nil)
	j.content = []byte(text)
	return err
}

// inside expands a path and refuses what would leave the root, or reach what the adapter itself keeps there.
func inside(t template.Template, v template.Values) (string, error) {
	text, err := t.Expand(v, nil)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(text, "/") || strings.ContainsRune(text, 0) || slices.Contains(strings.Split(text, "/"), "..") {
		return "", fmt.Errorf("%.80q leads out of the root: write it relative to the root, without '..'", text)
	}
	name := path.Clean(text)
	if name == "." || strings.HasSuffix(text, "/") {
		return "", fmt.Errorf("%.80q names no file", text)
	}
	if first, _, _ := strings.Cut(name, "/"); strings.EqualFold(first, storeDir) {
		return "", fmt.Errorf("%.80q is where the adapter keeps former contents", text)
	}
	return name, nil
}

// Check fills the file's name and content in.
func (a *fileAdapter) Check(c gate.Call) error {
	v, err := values(c)
	if err != nil || a.spec.Op == gate.OpRestore {
		return err
	}
	return unsent("the file's name or content", (&fileJob{}).fill(a, v))
}

// Call does the operation. With a key it is done once: a repetition gets the first one's answer. It refuses before it
// writes, so a refusal proves that nothing happened; what a key's note says holds for all calls under that key.
func (a *fileAdapter) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	j, err := a.open(ctx, c)
	if err != nil {
		return gate.Answer{}, err
	}
	defer j.store.close()
	answer, err := j.do()
	if no := (refusal{}); errors.As(err, &no) {
		return gate.Answer{Refused: true, AboutKey: no.key, Detail: detail(no.why)}, nil
	}
	if err != nil && !errors.Is(err, gate.ErrNotSent) && !errors.Is(err, gate.ErrUnknown) {
		return gate.Answer{}, unknown("%v", err)
	}
	return answer, err
}

func (j *fileJob) do() (gate.Answer, error) {
	if j.op == gate.OpRead {
		return j.read()
	}
	m, err := j.store.marker(j.call.Key)
	if err != nil {
		return gate.Answer{}, unsent("reading the key's note", err)
	}
	again := m != nil
	switch {
	case m == nil:
		plan, err := j.plan()
		if err != nil || plan == nil {
			return gate.Answer{Detail: nothingToUndo}, err
		}
		if err := j.forbid(); err != nil {
			return gate.Answer{}, err
		}
		m = plan
		switch err := j.store.note(j.call.Key, m); {
		case err != nil && j.call.Compensates != "":
			return gate.Answer{}, unknown("noting the key, when that of the undone call is closed: %v", err)
		case err != nil:
			return gate.Answer{}, unsent("noting the key", err)
		}
	case m.Compensated:
		// The key is closed before the files are put back: of a call that came only this one did nothing.
		came, err := j.store.came(m)
		return gate.Answer{}, refusal{"the call with this key was compensated", !came && err == nil}
	case m.Request != fingerprint(j.call):
		return gate.Answer{}, refusal{"the key was used for a call with other arguments", true}
	case m.Done:
		return m.Answer, nil
	}
	return j.act(m, again)
}

// act brings the files to where the note says, from wherever a crash left them. Only what is durable is noted as done.
// Whatever stops it on the way, one half may be done by then: that is no refusal any more.
func (j *fileJob) act(m *marker, again bool) (gate.Answer, error) {
	if err := j.store.bring(m.Changes, m.RemoveDirs, again); err != nil {
		return gate.Answer{}, unknown("%v", err)
	}
	m.Done = true
	if err := j.store.note(j.call.Key, m); err != nil {
		return gate.Answer{}, fmt.Errorf("noting that it is done: %w", err)
	}
	return m.Answer, nil
}

// forbid closes the undone call's key, also one that never came. If that fails, it may be closed all the same.
func (j *fileJob) forbid() error {
	if j.call.Compensates == "" {
		return nil
	}
	m, err := j.store.marker(j.call.Compensates)
	if m == nil {
		m = &marker{}
	}
	m.Compensated = true
	if err == nil {
		err = j.store.note(j.call.Compensates, m)
	}
	if err != nil {
		return unknown("closing the undone key: %v", err)
	}
	return nil
}

func (j *fileJob) read() (gate.Answer, error) {
	if err := j.store.plainPath(j.path); err != nil {
		return gate.Answer{}, err
	}
	info, err := j.store.root.Lstat(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gate.Answer{}, refusal{why: j.path + " does not exist"}
	case err != nil:
		return gate.Answer{}, unsent("reading", err)
	case !info.Mode().IsRegular():
		return gate.Answer{}, refusal{why: j.path + " is no plain file"}
	case info.Size() > MaxAnswer/2:
		return gate.Answer{}, refusal{why: fmt.Sprintf("%s is longer than %d bytes", j.path, MaxAnswer/2)}
	}
	data, err := j.store.root.ReadFile(j.path)
	if err != nil {
		return gate.Answer{}, unsent("reading", err)
	}
	if utf8.Valid(data) {
		return gate.Answer{Result: toJSON(map[string]string{"path": j.path, "content": string(data)})}, nil
	}
	return gate.Answer{Result: toJSON(map[string]any{"path": j.path, "base64": data})}, nil
}

// LookUp reads the key's note, and the files when a crash left it open.
func (a *fileAdapter) LookUp(ctx context.Context, c gate.Call) (gate.Answer, error) {
	if c.Key == "" {
		return gate.Answer{}, gate.ErrNoLookup
	}
	s, err := a.store(ctx)
	if err != nil {
		return gate.Answer{}, fmt.Errorf("looking the call up: %w", err)
	}
	defer s.close()
	m, err := s.marker(c.Key)
	if err != nil {
		return gate.Answer{}, fmt.Errorf("looking the call up: %w", err)
	}
	if m != nil && m.Request != "" && m.Request != fingerprint(c) {
		return gate.Answer{Refused: true, AboutKey: true, Detail: "the key was used for a call with other arguments"}, nil
	}
	came, err := s.came(m)
	switch {
	case err != nil:
		return gate.Answer{}, unknown("looking the call up: %v", err)
	case !came:
		return gate.Answer{Absent: true, Detail: "it is not noted, or what a crash left of it was taken back"}, nil
	}
	return m.Answer, nil
}

// came says whether the call of a note was carried out. One that a crash has cut off is not left as it is: half of it
// is neither there nor absent, and its compensation cannot tell which half. It is taken back; a repetition under its
// key does it as a whole. A restore, which does not know what it replaces, is finished.
func (s *store) came(m *marker) (bool, error) {
	if m == nil || len(m.Changes) == 0 || m.Done {
		return m != nil && m.Done, nil
	}
	n := 0
	for i := range m.Changes {
		done, err := s.reached(&m.Changes[i])
		if err != nil {
			return false, err
		}
		if done {
			n++
		}
	}
	restores := m.Answer.Saved == nil
	switch {
	case n == len(m.Changes), n > 0 && restores:
		return true, s.bring(m.Changes, m.RemoveDirs, true)
	case restores:
		return false, nil
	}
	var r restored
	err := decodeSaved(m.Answer.Saved, &r)
	if err == nil {
		err = s.bring(r.Changes, r.Dirs, true)
	}
	return false, err
}

// restored is what a call's answer saves.
type restored struct {
	Changes []change `json:"changes"`
	Dirs    []string `json:"dirs,omitempty"` // made for it, innermost first
}

func (r restored) json() json.RawMessage { return toJSON(r) }

func modeOf(info os.FileInfo) fs.FileMode { return info.Mode().Perm() }
