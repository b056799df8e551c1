package compose

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

const maxImageBytes = 45_000_000

// TestComposeImage looks at what compose/Dockerfile makes.
func TestComposeImage(t *testing.T) {
	harness.NeedCompose(t)
	name := harness.BuiltImages(t).Hence
	out, err := harness.Docker(harness.CommandBound, nil, "image", "inspect", name)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var found []struct {
		Size         int64
		Architecture string
		Config       struct {
			User        string
			Volumes     map[string]struct{}
			Labels      map[string]string
			Healthcheck struct{ Test []string }
			Entrypoint  []string
		}
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	image := found[0]
	t.Logf("the image has %.1f MB", float64(image.Size)/1e6)
	c := image.Config
	if _, ok := c.Volumes["/var/lib/hence"]; !ok || len(c.Volumes) != 1 || image.Size >= maxImageBytes {
		t.Errorf("the image has %d bytes and the volumes %v", image.Size, c.Volumes)
	}
	if c.User != "65532:65532" || !slices.Equal(c.Healthcheck.Test, []string{"CMD", "hence", "healthcheck"}) {
		t.Errorf("it runs as %q and checks its health with %v", c.User, c.Healthcheck.Test)
	}
	for _, label := range []string{"title", "description", "source", "licenses", "version", "revision", "created"} {
		if c.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("it has no label %s", label)
		}
	}
	version, err := harness.Docker(harness.CommandBound, nil, "run", "--rm", "--read-only", "--cap-drop=ALL",
		"--network=none", name,
		"version")
	if err != nil || !strings.Contains(version, c.Labels["org.opencontainers.image.version"]) {
		t.Errorf("without any right it prints %q, and its label says %q: %v", version,
			c.Labels["org.opencontainers.image.version"], err)
	}
	dir := t.TempDir()
	box, err := harness.Docker(harness.CommandBound, nil, "create", name)
	if err != nil {
		t.Fatalf("%v: %s", err, box)
	}
	id := strings.TrimSpace(box)
	t.Cleanup(func() { _, _ = harness.Docker(harness.CommandBound, nil, "rm", "-fv", id) })
	for _, file := range []string{"/usr/bin/hence", "/etc/ssl/certs/ca-certificates.crt", "/usr/share/zoneinfo.zip"} {
		if out, err := harness.Docker(harness.CommandBound, nil, "cp", id+":"+file, dir); err != nil {
			t.Errorf("%s is not in the image: %v: %s", file, err, out)
		}
	}
	checkStatic(t, filepath.Join(dir, "hence"), elf.EM_X86_64)
}

// TestComposeArm64 compiles what the image holds for the other machine.
func TestComposeArm64(t *testing.T) {
	harness.AskedForContainers(t)
	path := filepath.Join(t.TempDir(), "hence")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "slim", "-ldflags", "-s -w -buildid=", "-o", path,
		"../../cmd/hence")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checkStatic(t, path, elf.EM_AARCH64)
}

// checkStatic says what keeps a binary from running in an empty image.
func checkStatic(t *testing.T, path string, machine elf.Machine) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if file.Machine != machine {
		t.Errorf("it is for %v, not for %v", file.Machine, machine)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it needs a loader: %v", p.Type)
		}
	}
	if file.Section(".symtab") != nil || file.Section(".debug_info") != nil {
		t.Error("it carries symbols that are not needed")
	}
	if info, err := os.Stat(path); err != nil || info.Size() >= maxImageBytes {
		t.Errorf("it has %d bytes: %v", info.Size(), err)
	}
}
