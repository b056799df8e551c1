package devfile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
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
	found, err := Find(folder)
	if err != nil {
		t.Fatal(err)
	}
	if found.Running == nil {
		return "", found.Gone
	}
	return found.Running.URL, found.Gone
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

// A file of another machine or container is not believed, though its lock may look held: its 127.0.0.1 is another one.
// It is not removed, either: its process may run there.
func TestElsewhere(t *testing.T) {
	folder, at := t.TempDir(), here()
	if at.Host == "" || at.Boot == "" || runtime.GOOS == "linux" && at.Network == "" {
		t.Fatalf("this machine is %+v", at)
	}
	publish(t, folder, File{URL: "theirs", Started: time.Now()})
	paths, err := filepath.Glob(filepath.Join(folder, prefix+"*"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	for _, c := range []struct {
		name    string
		machine Machine
		want    string
	}{
		{"this one", at, "theirs"},
		{"this one by a new name", Machine{Host: "x", Boot: at.Boot, Network: at.Network}, "theirs"},
		{"another container", Machine{Host: at.Host, Boot: at.Boot, Network: "net:[1]"}, ""},
		{"another run", Machine{Host: at.Host, Boot: "b", Network: at.Network}, ""},
		{"another host", Machine{Host: "x", Boot: "b", Network: at.Network}, ""},
		{"none", Machine{}, ""},
	} {
		text, err := json.Marshal(File{URL: "theirs", Machine: c.machine})
		if err == nil {
			err = os.WriteFile(paths[0], text, 0o600) // the same file: its lock stays held
		}
		found, wrong := Find(folder)
		if err != nil || wrong != nil {
			t.Fatal(err, wrong)
		}
		if url, _ := find(t, folder); url != c.want || len(found.Gone) > 0 || (len(found.Elsewhere) == 1) != (url == "") {
			t.Errorf("%s: found %+v", c.name, found)
		}
	}
	left := filepath.Join(folder, prefix+"left"+suffix)
	for machine, want := range map[Machine]bool{{Host: "x", Boot: "b"}: true, {Host: "x", Boot: at.Boot}: false,
		{Host: at.Host, Boot: "b"}: false} {
		text, err := json.Marshal(File{Machine: machine})
		if err == nil {
			err = os.WriteFile(left, text, 0o600) // nothing locks it here
		}
		if err != nil {
			t.Fatal(err)
		}
		publish(t, folder, File{Started: time.Now()})
		if _, err := os.Stat(left); (err == nil) != want {
			t.Errorf("one of %+v is kept: %v, want %v", machine, err == nil, want)
		}
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
	if _, err := Find(folder); err == nil || !strings.Contains(err.Error(), "accessible to others") {
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
