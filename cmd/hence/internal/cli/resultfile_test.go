package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A result takes the place of a former one only when it is whole, and nothing else is left in the folder.
func TestResultFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "result"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(path, []byte("former"), 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	write := func(to string, failed error) error {
		r, err := createResult(to)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(r, "new")
		return r.end(errors.Join(err, failed))
	}
	is := func(want string) {
		t.Helper()
		text, err := os.ReadFile(path)
		all, _ := os.ReadDir(dir)
		if err != nil || string(text) != want || len(all) != 2 {
			t.Errorf("the file is %q, %v, want %q; there are %d files, want 2", text, err, want, len(all))
		}
	}
	broken := errors.New("broken")
	if err := write(path, broken); !errors.Is(err, broken) {
		t.Errorf("a failed command says %v", err)
	}
	is("former")
	if err := write(link, nil); err != nil {
		t.Error(err)
	}
	is("new")
	if at, err := os.Readlink(link); err != nil || at != path {
		t.Errorf("the link is %q, %v", at, err)
	}
	if err := write(os.DevNull, nil); err != nil {
		t.Errorf("a device: %v", err)
	}
	for _, nowhere := range []string{filepath.Join(dir, "no", "result"), dir} {
		if err := write(nowhere, nil); err == nil || !strings.Contains(err.Error(), nowhere+": ") {
			t.Errorf("%s: %v", nowhere, err)
		}
	}
}

// A page never takes the place of a trace, and what was judged is shown beside what cannot be read.
func TestCheckLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	const line = `{"agent":"a","read_set":[],"read_time":0,"write_set":["x"],"write_time":1}` + "\n"
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := hence(t, "check", path, "--html", path)
	if text, err := os.ReadFile(path); code != ExitUsage || string(text) != line || err != nil {
		t.Errorf("exit code %d, %s: the trace is %q, %v", code, errs, text, err)
	}
	code, out, errs := hence(t, "check", path, path+".gone")
	if code != ExitFailed || !strings.Contains(out, "1 operation") || !strings.Contains(errs, ".gone: no such file") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if code, _, errs = hence(t, "check", filepath.Dir(path)); code != ExitFailed || !strings.Contains(errs, "folder") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
