package adapters

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
)

// cut is what a process that is killed in the middle of a call panics with.
type cut struct{}

// cutAt kills the process before the n-th thing that it asks of the disk, from 1 on.
func cutAt(n int) func(string, string) {
	return func(string, string) {
		if n--; n == 0 {
			panic(cut{})
		}
	}
}

// killed makes a call and reports whether the process died in it.
func killed(t *testing.T, a gate.Adapter, hook func(string, string), c gate.Call) (died bool) {
	t.Helper()
	f := a.(*fileAdapter)
	f.disk.before = hook
	defer func() {
		f.disk.before = nil
		if p := recover(); p != nil {
			if _, ok := p.(cut); !ok {
				panic(p)
			}
			died = true
		}
	}()
	must(t, a, c)
	return false
}

// cutBuild makes an adapter whose disk is not waited for: nothing but the process dies here.
func cutBuild(t *testing.T, env gate.Env, spec gate.FileSpec) gate.Adapter {
	t.Helper()
	a := build(t, gate.KindFile, env, spec)
	a.(*fileAdapter).disk.fsync = func(*os.File) error { return nil }
	return a
}

// cutWorld is a root with the operations on it that are cut off.
func cutWorld(t *testing.T) (root string, env gate.Env, before map[string]string) {
	t.Helper()
	root = t.TempDir()
	put(t, root, "old.txt", "precious\n", 0o600)
	put(t, root, "long.txt", strings.Repeat("long line\n", maxInline/5), 0o755)
	put(t, root, "short.txt", "short\n", 0o644)
	return root, gate.Env{Root: root}, world(t, root)
}

func cutOps() map[string]gate.FileSpec {
	return map[string]gate.FileSpec{
		"write new": {Op: gate.OpWrite, Path: "deep/er/new.txt", Content: "hello\n"},
		"append":    {Op: gate.OpAppend, Path: "old.txt", Content: "hello\n"},
		"delete":    {Op: gate.OpDelete, Path: "long.txt"},
		"move":      {Op: gate.OpMove, Path: "long.txt", To: "there/in/moved.txt"},
		"move over": {Op: gate.OpMove, Path: "short.txt", To: "old.txt"},
	}
}

// TestFileCutOff kills the process before each thing that a call asks of the disk. A look-up then says what is so: the
// files are as they were, or the call is there and its restore gives back what was.
func TestFileCutOff(t *testing.T) {
	for name, spec := range cutOps() {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				root, env, before := cutWorld(t)
				a := cutBuild(t, env, spec)
				died := killed(t, a, cutAt(n), call("k", `{}`))
				found, err := a.LookUp(t.Context(), call("k", `{}`))
				if err != nil {
					t.Fatalf("cut %d: looking it up: %v", n, err)
				}
				if found.Absent {
					equal(t, fmt.Sprintf("cut %d: looked up as absent", n), world(t, root), before)
				}
				if !died && found.Absent {
					t.Fatal("it was not cut off, and is not there")
				}
				restore, undo := undoing(t, env, found)
				must(t, restore, undo)
				equal(t, fmt.Sprintf("cut %d: restored", n), world(t, root), before)
				if got, err := a.Call(t.Context(), call("k", `{}`)); err != nil || !got.Refused {
					t.Errorf("cut %d: the key is taken after it was undone: %+v, %v", n, got, err)
				}
				if !died {
					break
				}
			}
		})
	}
}

// undoing is a restore and the call that it is to take back, which may be only to be forbidden.
func undoing(t *testing.T, env gate.Env, found gate.Answer) (gate.Adapter, gate.Call) {
	t.Helper()
	c := call("k/undo", `{}`)
	c.Compensates, c.Saved, c.ForbidOnly = "k", found.Saved, found.Absent
	return cutBuild(t, env, gate.FileSpec{Op: gate.OpRestore}), c
}

// TestFileUndoCutOff kills the process before each thing that a restore asks of the disk. A look-up finds it done as a
// whole or not at all, and a repetition finishes it.
func TestFileUndoCutOff(t *testing.T) {
	for name, spec := range cutOps() {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				root, env, before := cutWorld(t)
				answer := must(t, cutBuild(t, env, spec), call("k", `{}`))
				after := world(t, root)
				restore, undo := undoing(t, env, answer)
				died := killed(t, restore, cutAt(n), undo)
				switch undone, err := restore.LookUp(t.Context(), undo); {
				case err != nil:
					t.Fatalf("cut %d: looking it up: %v", n, err)
				case undone.Absent:
					equal(t, fmt.Sprintf("cut %d: looked up as absent", n), world(t, root), after)
				default:
					equal(t, fmt.Sprintf("cut %d: looked up", n), world(t, root), before)
				}
				must(t, restore, undo)
				equal(t, fmt.Sprintf("cut %d: repeated", n), world(t, root), before)
				if !died {
					break
				}
			}
		})
	}
}

// TestFileCutAndRepeated kills the process before each thing that a call asks of the disk, and repeats the call under
// its key: it is done as a whole, and once.
func TestFileCutAndRepeated(t *testing.T) {
	for name, spec := range cutOps() {
		t.Run(name, func(t *testing.T) {
			root, env, _ := cutWorld(t)
			want := must(t, cutBuild(t, env, spec), call("k", `{}`))
			after := world(t, root)
			for n := 1; ; n++ {
				root, env, before := cutWorld(t)
				a := cutBuild(t, env, spec)
				died := killed(t, a, cutAt(n), call("k", `{}`))
				got := must(t, a, call("k", `{}`))
				equal(t, fmt.Sprintf("cut %d, repeated", n), world(t, root), after)
				if string(got.Saved) != string(want.Saved) {
					t.Errorf("cut %d: it saves %s, want %s", n, got.Saved, want.Saved)
				}
				undo := call("k/undo", `{}`)
				undo.Compensates, undo.Saved = "k", got.Saved
				must(t, cutBuild(t, env, gate.FileSpec{Op: gate.OpRestore}), undo)
				equal(t, fmt.Sprintf("cut %d, undone", n), world(t, root), before)
				if !died {
					break
				}
			}
		})
	}
}

// TestFileForbidsHalf undoes half a call by another operation than a restore, which only forbids: nothing of the half
// stays.
func TestFileForbidsHalf(t *testing.T) {
	for n := 1; ; n++ {
		root, env, before := cutWorld(t)
		move := cutBuild(t, env, gate.FileSpec{Op: gate.OpMove, Path: "short.txt", To: "old.txt"})
		back := cutBuild(t, env, gate.FileSpec{Op: gate.OpMove, Path: "old.txt", To: "short.txt"})
		if !killed(t, move, cutAt(n), call("k", `{}`)) {
			return
		}
		undo := call("k/undo", `{}`)
		undo.Compensates, undo.ForbidOnly = "k", true
		must(t, back, undo)
		got := world(t, root)
		if got["old.txt"] != "" { // else it was there as a whole, and was moved back
			equal(t, fmt.Sprintf("cut %d", n), got, before)
		}
	}
}

// TestFileRepeatedInUndo kills the process before each thing that a restore asks of the disk, and repeats the call
// that it undoes: that nothing happened under its key is said only where the files are as they were.
func TestFileRepeatedInUndo(t *testing.T) {
	for name, spec := range cutOps() {
		for _, open := range []bool{false, true} { // whether the call's own process was killed before it noted the end
			for n := 1; ; n++ {
				root, env, before := cutWorld(t)
				a := cutBuild(t, env, spec)
				restore, undo := undoing(t, env, must(t, a, call("k", `{}`)))
				if open {
					reopenNote(t, root)
				}
				died := killed(t, restore, cutAt(n), undo)
				got, err := a.Call(t.Context(), call("k", `{}`))
				if err != nil {
					t.Fatal(err)
				}
				if got.AboutKey {
					equal(t, fmt.Sprintf("%s, cut %d: nothing happened under the key", name, n), world(t, root), before)
				}
				must(t, restore, undo)
				equal(t, fmt.Sprintf("%s, cut %d: undone", name, n), world(t, root), before)
				if !died {
					break
				}
			}
		}
	}
}

// TestFileForbidsUnread closes the key of a call of which one half was done, and which something else has changed
// since: that is no order that did not leave.
func TestFileForbidsUnread(t *testing.T) {
	root, env, _ := cutWorld(t)
	spec := gate.FileSpec{Op: gate.OpMove, Path: "short.txt", To: "old.txt"}
	move := cutBuild(t, env, spec)
	if !killed(t, move, func(step, name string) {
		if step+" "+name == "remove short.txt" {
			panic(cut{})
		}
	}, call("k", `{}`)) {
		t.Fatal("it was not cut off")
	}
	put(t, root, "old.txt", "of something else", 0o644)
	undo := call("k/undo", `{}`)
	undo.Compensates, undo.ForbidOnly = "k", true
	back := cutBuild(t, env, gate.FileSpec{Op: gate.OpMove, Path: "old.txt", To: "short.txt"})
	if got, err := back.Call(t.Context(), undo); !errors.Is(err, gate.ErrUnknown) {
		t.Errorf("the order answers %+v, %v", got, err)
	}
	if got, err := move.Call(t.Context(), call("k", `{}`)); err != nil || !got.Refused || got.AboutKey {
		t.Errorf("the call whose half is there answers %+v, %v", got, err)
	}
}

// TestFileStoppedHalfWay has something else change the old place of a move once the new one is written: the call does
// not say that nothing happened, and did not leave.
func TestFileStoppedHalfWay(t *testing.T) {
	root, env, _ := cutWorld(t)
	a := cutBuild(t, env, gate.FileSpec{Op: gate.OpMove, Path: "short.txt", To: "in/moved.txt"})
	a.(*fileAdapter).disk.before = func(step, name string) {
		if step+" "+name == "sync in" {
			_ = os.Remove(path.Join(root, "short.txt")) // seen below, if it fails
			_ = os.Mkdir(path.Join(root, "short.txt"), 0o755)
		}
	}
	got, err := a.Call(t.Context(), call("k", `{}`))
	if world(t, root)["in/moved.txt"] == "" || !errors.Is(err, gate.ErrUnknown) {
		t.Errorf("it is half done, and answers %+v, %v: %v", got, err, world(t, root))
	}
}

// TestFileSyncsBeforeDone holds that what a call changes is durable before its note says that it is done: each file
// before it gets its name, and the folder of each name that comes or goes, on both sides of a move.
func TestFileSyncsBeforeDone(t *testing.T) {
	for name, spec := range cutOps() {
		for _, repeated := range []bool{false, true} {
			_, env, _ := cutWorld(t)
			a := cutBuild(t, env, spec)
			if repeated { // the former process was killed before it could note that it is done
				must(t, a, call("k", `{}`))
				reopenNote(t, env.Root)
			}
			var asked []string
			killed(t, a, func(step, name string) { asked = append(asked, step+" "+name) }, call("k", `{}`))
			done := len(asked) - 1 - slices.Index(reversed(asked), "rename "+keyFile("k"))
			for _, p := range []string{spec.Path, spec.To} {
				changed := max(slices.Index(asked, "rename "+p), slices.Index(asked, "remove "+p), 0)
				if p != "" && !slices.Contains(asked[changed:done], "sync "+path.Dir(p)) {
					t.Errorf("%s, repeated %v: %s is not durable when it is noted as done: %v", name, repeated, p, asked)
				}
			}
		}
	}
}

func reversed(list []string) []string {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}

// reopenNote takes back that the call was noted as done.
func reopenNote(t *testing.T, root string) {
	t.Helper()
	s, err := openStore(t.Context(), root, disk{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	m, err := s.marker("k")
	if err != nil {
		t.Fatal(err)
	}
	m.Done = false
	if err := s.note("k", m); err != nil {
		t.Fatal(err)
	}
}
