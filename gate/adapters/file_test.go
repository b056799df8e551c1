package adapters

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
)

// world is everything below a root but the adapter's own folder.
func world(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, name) // both are absolute
		if err != nil || rel == storeDir {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[rel] = info.Mode().String()
		if d.Type().IsRegular() {
			data, err := os.ReadFile(name)
			out[rel] += " " + string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func put(t *testing.T, root, name, content string, mode fs.FileMode) {
	t.Helper()
	full := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if string(toJSON(got)) != string(toJSON(want)) {
		t.Errorf("%s: the files are %s\nwant %s", what, toJSON(got), toJSON(want))
	}
}

// TestFileUndo does each operation, with and without keys, with short and long contents, and undoes it.
func TestFileUndo(t *testing.T) {
	long := strings.Repeat("long line\n", maxInline)
	for name, spec := range map[string]gate.FileSpec{
		"write new":   {Op: gate.OpWrite, Path: "deep/er/new.txt", Content: "{text}"},
		"write over":  {Op: gate.OpWrite, Path: "old.txt", Content: "{text}"},
		"write long":  {Op: gate.OpWrite, Path: "long.txt", Content: "{text}"},
		"append":      {Op: gate.OpAppend, Path: "old.txt", Content: "{text}"},
		"append long": {Op: gate.OpAppend, Path: "long.txt", Content: "{text}"},
		"append new":  {Op: gate.OpAppend, Path: "x/new.txt", Content: "{text}"},
		"delete":      {Op: gate.OpDelete, Path: "long.txt"},
		"move":        {Op: gate.OpMove, Path: "long.txt", To: "there/moved.txt"},
		"move over":   {Op: gate.OpMove, Path: "long.txt", To: "old.txt"},
	} {
		for _, key := range []string{"", "k"} {
			root := t.TempDir()
			put(t, root, "old.txt", "old\n", 0o600)
			put(t, root, "long.txt", long, 0o755)
			env, before := gate.Env{Root: root}, world(t, root)
			answer := must(t, build(t, gate.KindFile, env, spec), call(key, `{"text":"hello\n"}`))
			if string(toJSON(world(t, root))) == string(toJSON(before)) {
				t.Errorf("%s: nothing changed", name)
			}
			undo := call("", `{}`)
			if key != "" {
				undo.Key, undo.Compensates = "k/undo", key
			}
			undo.Saved = answer.Saved
			must(t, build(t, gate.KindFile, env, gate.FileSpec{Op: gate.OpRestore}), undo)
			equal(t, name, world(t, root), before)
		}
	}
}

// TestFileCrash stops a keyed call behind its note, and before the note that it is done.
func TestFileCrash(t *testing.T) {
	for _, acted := range []bool{false, true} {
		root := t.TempDir()
		env := gate.Env{Root: root}
		put(t, root, "a.txt", "one\n", 0o600)
		a := build(t, gate.KindFile, env, gate.FileSpec{Op: gate.OpAppend, Path: "a.txt", Content: "two\n"})
		answer := must(t, a, call("k", `{}`))
		s, err := openStore(t.Context(), root, disk{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.marker("k")
		if err != nil {
			t.Fatal(err)
		}
		m.Done = false
		if err := s.note("k", m); err != nil {
			t.Fatal(err)
		}
		s.close()
		if !acted {
			put(t, root, "a.txt", "one\n", 0o600)
		}
		if got, err := a.LookUp(t.Context(), call("k", `{}`)); err != nil || got.Absent == acted {
			t.Errorf("acted %t: the look-up says %+v, %v", acted, got, err)
		}
		again := must(t, a, call("k", `{}`))
		if string(again.Saved) != string(answer.Saved) {
			t.Errorf("acted %t: it saves %s, want %s", acted, again.Saved, answer.Saved)
		}
		equal(t, "after the crash", world(t, root), map[string]string{".": "drwxr-xr-x", "a.txt": "-rw------- one\ntwo\n"})
		undo := call("k/undo", `{}`)
		undo.Compensates = "k" // its answer was lost, the note knows
		must(t, build(t, gate.KindFile, env, gate.FileSpec{Op: gate.OpRestore}), undo)
		equal(t, "undone", world(t, root), map[string]string{".": "drwxr-xr-x", "a.txt": "-rw------- one\n"})
	}
}

func TestFileStaysInside(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	put(t, outside, "secret.txt", "secret", 0o644)
	put(t, root, "plain.txt", "plain", 0o644)
	for link, to := range map[string]string{"dir": outside, "file": filepath.Join(outside, "secret.txt"),
		"inner": "plain.txt", "up": "../" + filepath.Base(outside)} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	before := world(t, outside)
	for _, op := range []string{gate.OpRead, gate.OpWrite, gate.OpAppend, gate.OpDelete, gate.OpMove} {
		a := build(t, gate.KindFile, gate.Env{Root: root}, gate.FileSpec{Op: op, Path: "{p}", To: "{to?}"})
		for _, p := range []string{"dir/secret.txt", "file", "inner", "up/secret.txt", "../x", "a/../../x", "/etc/passwd",
			".hence/keys/x", ".HENCE/x", "", ".", "dir", "plain.txt/x"} {
			args := string(toJSON(map[string]string{"p": p, "to": "new.txt"}))
			got, err := a.Call(t.Context(), call("", args))
			if !got.Refused && !errors.Is(err, gate.ErrNotSent) {
				t.Errorf("%s of %q: %+v, %v", op, p, got, err)
			}
		}
	}
	equal(t, "outside", world(t, outside), before)
	if _, err := os.Stat(filepath.Join(root, "new.txt")); err == nil {
		t.Error("something was moved")
	}
}

func TestFileLeavesOthersChanges(t *testing.T) {
	root := t.TempDir()
	env := gate.Env{Root: root}
	a := build(t, gate.KindFile, env, gate.FileSpec{Op: gate.OpWrite, Path: "a.txt", Content: "mine"})
	answer := must(t, a, call("k", `{}`))
	put(t, root, "a.txt", "somebody else's", 0o644)
	undo := call("k/undo", `{}`)
	undo.Compensates, undo.Saved = "k", answer.Saved
	got, err := build(t, gate.KindFile, env, gate.FileSpec{Op: gate.OpRestore}).Call(t.Context(), undo)
	if err != nil || !got.Refused || !strings.Contains(got.Detail, "a.txt") {
		t.Errorf("undoing over another's change: %+v, %v", got, err)
	}
	if w := world(t, root); !strings.Contains(w["a.txt"], "somebody") {
		t.Errorf("the files are %v", w)
	}
}

func TestFileRead(t *testing.T) {
	root := t.TempDir()
	put(t, root, "a.txt", "one\n", 0o644)
	a := build(t, gate.KindFile, gate.Env{Root: root}, gate.FileSpec{Op: gate.OpRead, Path: "{p}"})
	var said struct{ Content string }
	if err := json.Unmarshal(must(t, a, call("", `{"p":"a.txt"}`)).Result, &said); err != nil || said.Content != "one\n" {
		t.Errorf("read %q, %v", said.Content, err)
	}
	if got, err := a.Call(t.Context(), call("", `{"p":"b.txt"}`)); err != nil || !got.Refused {
		t.Errorf("a file that is not there: %+v, %v", got, err)
	}
}

func FuzzFilePath(f *testing.F) {
	for _, seed := range []string{"a", "../x", "/a", "a/../b", ".hence/x", "a/./b", "a//b", "\x00"} {
		f.Add(seed)
	}
	p := &parser{}
	path := p.text("path", "dir/{x}")
	f.Fuzz(func(t *testing.T, x string) {
		v, err := values(call("k", string(toJSON(map[string]string{"x": x}))))
		if err != nil {
			return
		}
		name, err := inside(path, v)
		if err == nil && (!fs.ValidPath(name) || !strings.HasPrefix(name, "dir")) {
			t.Fatalf("%q gives the path %q", x, name)
		}
	})
}

// TestFileForbidsOnly: an undo that is itself a write, of a call not known to have come, is made only if it came.
func TestFileForbidsOnly(t *testing.T) {
	for _, came := range []bool{false, true} {
		root := t.TempDir()
		env := gate.Env{Root: root}
		do := build(t, gate.KindFile, env, gate.FileSpec{Op: gate.OpAppend, Path: "log", Content: "+10\n"})
		undo := build(t, gate.KindFile, env, gate.FileSpec{Op: gate.OpAppend, Path: "log", Content: "-10\n"})
		want := ""
		if came {
			want = "+10\n-10\n"
			must(t, do, call("k", `{}`))
		}
		back := call("k/undo", `{}`)
		back.Compensates, back.ForbidOnly = "k", true
		for range 2 {
			must(t, undo, back)
		}
		if a, err := do.Call(t.Context(), call("k", `{}`)); err != nil || !a.Refused {
			t.Errorf("came %v: the call comes after its compensation: %+v, %v; want it refused", came, a, err)
		}
		data, err := os.ReadFile(filepath.Join(root, "log"))
		if string(data) != want || err != nil && !os.IsNotExist(err) {
			t.Errorf("came %v: the file holds %q, %v; want %q", came, data, err, want)
		}
	}
}
