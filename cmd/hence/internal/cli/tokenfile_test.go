package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
)

// What is wrong with a token file is said with the command that fixes it, and nothing is started.
func TestTokenFileRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open := write("open", "long enough to be a token", 0o640)
	for _, c := range []struct{ path, want string }{
		{open, "run chmod 600 " + open},
		{write("empty", " \n", 0o600), "is empty"},
		{write("long", strings.Repeat("x", 4097), 0o600), "at most 4096"},
		{dir, "not a regular file"},
		{filepath.Join(dir, "none", "token"), "mkdir -p"},
		{write("short", "abc", 0o600), "at least 16"},
	} {
		for _, command := range []string{"sidecar", "dev"} {
			args := []string{command, "--token-file", c.path}
			if command == "dev" {
				args = append(args, "--random-ports")
			}
			code, out, errs := hence(t, args...)
			if code != ExitFailed || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("hence %v: exit code %d, %q, %q; want %q", args, code, out, errs, c.want)
			}
		}
	}
	t.Setenv("HENCE_TOKEN", "given another way as well")
	code, _, errs := hence(t, "sidecar", "--token-file", filepath.Join(dir, "new"))
	if code != ExitUsage || !strings.Contains(errs, "given twice") {
		t.Errorf("both: exit code %d, %q", code, errs)
	}
}

// The token outlives the process, and is not printed.
func TestDevKeepsItsToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for range 2 {
		t.Run("start", func(t *testing.T) {
			dev := startDev(t, "--token-file", path)
			token, err := access.ReadToken(path)
			if err != nil || dev.Token != "" || dev.TokenFile != path {
				t.Fatalf("%+v, %v", dev, err)
			}
			code, _, errs := hence(t, "residue", "ls", "--url", dev.URL, "--token", token)
			if code != ExitOK {
				t.Errorf("with the file's token: %d, %s", code, errs)
			}
			code, _, errs = hence(t, "rules", "get", "--url", dev.URL, "--token-file", path)
			if code != ExitOK {
				t.Errorf("with the token's file: %d, %s", code, errs)
			}
			code, _, errs = hence(t, "explain", "a.1.1", "--url", dev.URL, "--token-file", path+"x")
			if code != ExitUsage || !strings.Contains(errs, "token file") {
				t.Errorf("with no file: %d, %s", code, errs)
			}
		})
	}
}
