package adapters

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/hence-dev/hence/gate"
)

const newFileMode fs.FileMode = 0o644

// plan says what the call will change, before it changes anything; nil when a compensation finds nothing to undo.
func (j *fileJob) plan() (*marker, error) {
	m := &marker{Request: fingerprint(j.call)}
	if j.op == gate.OpRestore {
		return j.planRestore(m)
	}
	if j.call.ForbidOnly {
		undone, err := j.store.marker(j.call.Compensates)
		if err != nil {
			return nil, unsent("reading the undone key's note", err)
		}
		came, err := j.store.came(undone)
		if err != nil {
			return nil, unknown("closing the undone key: %v", errors.Join(err, j.forbid()))
		}
		if !came {
			return nil, j.forbid()
		}
	}
	for _, name := range []string{j.path, j.to} {
		if name == "" {
			continue
		}
		if err := j.store.plainPath(name); err != nil {
			return nil, err
		}
	}
	old, err := j.store.keep(j.path)
	if err != nil {
		return nil, err
	}
	if old.Absent && (j.op == gate.OpMove || j.op == gate.OpDelete) {
		return nil, refusal{why: j.path + " does not exist"}
	}
	said := map[string]any{"path": j.path}
	switch j.op {
	case gate.OpDelete:
		m.Changes = []change{{Path: j.path, Before: old, After: state{Absent: true}}}
	case gate.OpMove:
		if m.Changes, err = j.planMove(old); err != nil {
			return nil, err
		}
		said["to"] = j.to
	default:
		after, err := j.written(old)
		if err != nil {
			return nil, err
		}
		m.Changes = []change{{Path: j.path, Before: old, After: after}}
		said["bytes"] = after.Size
	}
	r := restored{Dirs: j.store.missingDirs(m.Changes)}
	for _, c := range slices.Backward(m.Changes) {
		r.Changes = append(r.Changes, change{Path: c.Path, Before: c.After.bare(), After: c.Before})
	}
	m.Answer = gate.Answer{Result: toJSON(said), Saved: r.json()}
	return m, nil
}

// planMove writes the new place first and then clears the old one: at every moment one of them has the content.
func (j *fileJob) planMove(old state) ([]change, error) {
	there, err := j.store.keep(j.to)
	if err != nil {
		return nil, err
	}
	return []change{
		{Path: j.to, Before: there, After: old},
		{Path: j.path, Before: old, After: state{Absent: true}},
	}, nil
}

// written is the state after a write or an append.
func (j *fileJob) written(old state) (state, error) {
	content, mode := j.content, newFileMode
	if !old.Absent {
		mode = old.Mode
	}
	if j.op == gate.OpAppend && !old.Absent {
		before, err := j.store.content(old)
		if err != nil {
			return state{}, err
		}
		content = slices.Concat(before, content)
	}
	if len(content) > MaxFile {
		return state{}, refusal{why: fmt.Sprintf("%s would be longer than %d bytes", j.path, MaxFile)}
	}
	return j.store.stateOf(content, mode)
}

// planRestore takes what the undone call saved, or what its note says when its answer was lost.
func (j *fileJob) planRestore(m *marker) (*marker, error) {
	var r restored
	saved := j.call.Saved
	if len(saved) == 0 && j.call.Compensates != "" {
		undone, err := j.store.marker(j.call.Compensates)
		if err != nil {
			return nil, unsent("reading the undone key's note", err)
		}
		if undone == nil || undone.Answer.Saved == nil {
			return nil, j.forbid()
		}
		saved = undone.Answer.Saved
	}
	if err := decodeSaved(saved, &r); err != nil {
		return nil, err
	}
	for _, c := range r.Changes {
		if path.Clean(c.Path) != c.Path || !fs.ValidPath(c.Path) || c.Path == "." {
			return nil, notSent("what was saved names %.80q, which is no file below the root", c.Path)
		}
		if err := j.store.plainPath(c.Path); err != nil {
			return nil, err
		}
		now, err := j.store.state(c.Path)
		if err != nil {
			return nil, unsent("reading "+c.Path, err)
		}
		if !now.same(c.Before) && !now.same(c.After) {
			return nil, refusal{why: c.Path + " was changed since by something else: it is left as it is"}
		}
	}
	m.Changes, m.RemoveDirs = r.Changes, r.Dirs
	m.Answer = gate.Answer{Detail: fmt.Sprintf("restored %d files", len(r.Changes))}
	return m, nil
}

// plainPath refuses a path with a link in it: it would be a second name for a file, which no scope shows.
func (s *store) plainPath(name string) error {
	for at := name; at != "."; at = path.Dir(at) {
		info, err := s.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return refusal{why: fmt.Sprintf("%s: %v", name, err)}
		case info.Mode()&fs.ModeSymlink != 0:
			return refusal{why: fmt.Sprintf("%s leads over the link %s: name the file itself", name, at)}
		case at == name && !info.Mode().IsRegular():
			return refusal{why: name + " is no plain file"}
		case at != name && !info.IsDir():
			return refusal{why: at + " is no directory"}
		}
	}
	return nil
}

// missingDirs are the directories that have to be made, innermost first.
func (s *store) missingDirs(changes []change) []string {
	var out []string
	for _, c := range changes {
		if c.After.Absent {
			continue
		}
		for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
			if _, err := s.root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				break
			}
			out = append(out, dir)
		}
	}
	return out
}
