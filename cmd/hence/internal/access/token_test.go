package access

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Several processes that start at once on one missing file agree on its token.
func TestTokenFileIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	var all sync.WaitGroup
	var said strings.Builder // slog writes one line at a time
	logger := slog.New(slog.NewTextHandler(&said, nil))
	tokens, errs := make([]string, 16), make([]error, 16)
	for i := range tokens {
		all.Go(func() { tokens[i], errs[i] = KeepToken(logger, path) })
	}
	all.Wait()
	for i := range tokens {
		if errs[i] != nil || len(tokens[i]) < 16 || tokens[i] != tokens[0] {
			t.Errorf("%d: %q, %v; the first got %q", i, tokens[i], errs[i], tokens[0])
		}
	}
	if _, err := KeepToken(logger, path); err != nil {
		t.Error(err)
	}
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "a new token is created") ||
		!strings.Contains(text, path) || strings.Contains(text, tokens[0]) {
		t.Errorf("it is said %q, want one line that names the file and not the token", text)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// A mounted secret is taken with the mode that it was mounted with, as long as only its owner can write it.
func TestTokenFileMounted(t *testing.T) {
	for _, c := range []struct {
		mode          os.FileMode
		ours, mounted string // what is said; empty: it is taken
	}{
		{0o600, "", ""},
		{0o400, "", ""},
		{0o440, "chmod 600", ""},
		{0o444, "chmod 600", ""},
		{0o644, "chmod 600", ""},
		{0o640, "chmod 600", ""},
		{0o660, "chmod 600", "written by others"},
		{0o602, "chmod 600", "written by others"},
		{0o666, "chmod 600", "written by others"},
	} {
		for mounted, want := range map[bool]string{false: c.ours, true: c.mounted} {
			err := checkOpenness("token", "/run/secrets/token", c.mode, mounted)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("mode %#o, mounted %v: %v; want %q", c.mode, mounted, err, want)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("a secret of sixteen or more\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o440); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, os.Geteuid()+1, -1); err != nil {
		t.Logf("a file of another user is not read here: only root can make one: %v", err)
		return
	}
	token, err := KeepToken(slog.New(slog.DiscardHandler), path)
	if err != nil || token != "a secret of sixteen or more" {
		t.Errorf("another user's file with mode 440: %q, %v", token, err)
	}
}
