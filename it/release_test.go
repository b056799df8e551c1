package it

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

// packRelease runs what "make release" runs, over a file in the place of the binaries. The archives are in dir.
func packRelease(t *testing.T, size int) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	binary := filepath.Join(t.TempDir(), "hence")
	if err := os.WriteFile(binary, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", ".ci/release.go", "-out", dir, "-binary", binary)
	cmd.Dir = harness.Root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
}

// TestReleaseArchives holds that a release has an archive for each system, with what its checksums say, that the same
// commit gives the same bytes, and that a binary which has grown too large is refused. The builds are left to
// "make release": they take minutes.
func TestReleaseArchives(t *testing.T) {
	if _, err := os.Stat(filepath.Join(harness.Root(t), ".git")); err != nil {
		t.Skipf("this is no clone, and a release is one of a commit: %v", err)
	}
	first, err := packRelease(t, 1000)
	again, err2 := packRelease(t, 1000)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"} {
		name := "hence-" + system
		text, err := os.ReadFile(filepath.Join(first, name+".tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		if line := fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(text), name); !strings.Contains(string(sums), line) {
			t.Errorf("SHA256SUMS lacks %s in:\n%s", line, sums)
		}
		if same, err := os.ReadFile(filepath.Join(again, name+".tar.gz")); err != nil || !bytes.Equal(text, same) {
			t.Errorf("%s is another one the second time: %v", name, err)
		}
		if got, want := listed(t, text), name+"/hence 755, "+name+"/LICENSE 644, "+name+"/README.md 644"; got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	if _, err := packRelease(t, 45<<20); err == nil || !strings.Contains(err.Error(), "fewer than") {
		t.Errorf("a binary of 45 MiB: %v", err)
	}
}

// listed are the files of an archive with their modes.
func listed(t *testing.T, text []byte) string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for files := tar.NewReader(unzipped); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(names, ", ")
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %o", head.Name, head.Mode))
	}
}
