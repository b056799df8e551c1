package devfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// publish writes a context that the test's end withdraws, unless it did so itself.
func publish(t *testing.T, folder string, f File) (withdraw func()) {
	t.Helper()
	end, err := Publish(folder, f)
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	withdraw = func() {
		if ended {
			return
		}
		ended = true
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(withdraw)
	return withdraw
}

func find(t *testing.T, folder string) (url string, gone []File) {
	t.Helper()
	f, gone, err := Find(folder)
	if err != nil {
		t.Fatal(err)
	}
	if f == nil {
		return "", gone
	}
	return f.URL, gone
}

// Of two that run the newest is found, and the other one once that has ended.
func TestNewestOfTwo(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new [folder]*", "hence")
	if url, _ := find(t, folder); url != "" {
		t.Errorf("in no folder: %q", url)
	}
	now := time.Now()
	second := publish(t, folder, File{PID: 2, Started: now, URL: "second"})
	first := publish(t, folder, File{PID: 1, Started: now.Add(-time.Second), URL: "first"})
	for i, step := range []struct {
		want string
		end  func()
	}{{"second", second}, {"first", first}, {"", func() {}}} {
		if url, gone := find(t, folder); url != step.want || len(gone) > 0 {
			t.Errorf("step %d: found %q and %v, want %q", i, url, gone, step.want)
		}
		step.end()
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("after their end %v is left", left)
	}
}

// A file whose process was killed is not believed, though a process of its number may run; the next start removes it.
func TestGone(t *testing.T) {
	folder := t.TempDir()
	left := filepath.Join(folder, prefix+"left"+suffix)
	if err := os.WriteFile(left, []byte(`{"pid":1,"url":"left"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if url, gone := find(t, folder); url != "" || len(gone) != 1 || gone[0].PID != 1 {
		t.Errorf("found %q and %v", url, gone)
	}
	publish(t, folder, File{URL: "new", Started: time.Now()})
	if url, gone := find(t, folder); url != "new" || len(gone) > 0 {
		t.Errorf("found %q and %v", url, gone)
	}
}

// The file is its owner's alone, and one that is not is refused.
func TestModes(t *testing.T) {
	folder := t.TempDir()
	publish(t, folder, File{URL: "mine", Token: "secret", Started: time.Now()})
	paths, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	if info, err := os.Stat(paths[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Chmod(paths[0], 0o640); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Find(folder); err == nil || !strings.Contains(err.Error(), "owner's alone") {
		t.Errorf("a file that others can read: %v", err)
	}
}

func TestFolder(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/x")
	if got, err := Folder(); got != "/x/hence" || err != nil {
		t.Error(got, err)
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	t.Setenv("HOME", "/h")
	if got, err := Folder(); !strings.HasPrefix(got, "/h/") || err != nil {
		t.Error(got, err)
	}
}
