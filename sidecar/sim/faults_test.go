package sim

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// faultSchedules is how many schedules may pass before a fault is found.
const faultSchedules = 20_000

// TestFindsFaults puts faults back that were found by reading (it/FOUND.md), one at a time, as patches against today's
// code: schedules of real agents find each. It runs with HENCE_TEST_FAULTS=1; HENCE_SIM_SECONDS bounds each.
func TestFindsFaults(t *testing.T) {
	if os.Getenv("HENCE_TEST_FAULTS") == "" {
		t.Skip("it builds the package once for each fault: HENCE_TEST_FAULTS=1 runs it")
	}
	patches, err := filepath.Glob("testdata/faults/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no faults: %v", err)
	}
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(patch), ".patch"), func(t *testing.T) {
			got := batch(t, withFault(t, patch), ordinary(*firstFlag, faultSchedules, simSeconds(t)))
			if got.what == "" {
				t.Fatalf("%d schedules do not find it", got.sum.Schedules)
			}
			t.Logf("after %d schedules: %.400s", got.sum.Schedules, got.what)
		})
	}
}

// TestFaultsApply holds that every fault can still be put back.
func TestFaultsApply(t *testing.T) {
	patches, err := filepath.Glob("testdata/faults/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no faults: %v", err)
	}
	for _, patch := range patches {
		abs, err := filepath.Abs(patch)
		if err != nil {
			t.Fatal(err)
		}
		command(t, filepath.FromSlash("../.."), "git", "apply", "--check", abs)
	}
}

// withFault builds this package's tests over the code with a patch.
func withFault(t *testing.T, patch string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, found := strings.CutPrefix(strings.TrimSpace(line), "+++ b/")
		if !found {
			continue
		}
		body, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, body, 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, name)] = target
	}
	abs, err := filepath.Abs(patch)
	if err != nil {
		t.Fatal(err)
	}
	command(t, dir, "git", "apply", abs)
	overlay := filepath.Join(dir, "overlay.json")
	body, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, body, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "sim.test")
	command(t, root, "go", "test", "-c", "-overlay", overlay, "-o", binary, "./sidecar/sim")
	return binary
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// TestRealFindsHoles takes rules of the fold out (docs/holes.md) under real agents. Rules that are not here need what
// these schedules do not have yet: plans with tools, hooks, rules that change, wide scopes.
func TestRealFindsHoles(t *testing.T) {
	if os.Getenv("HENCE_TEST_FAULTS") == "" {
		t.Skip("it runs thousands of schedules: HENCE_TEST_FAULTS=1 runs it")
	}
	for hole := range strings.FieldsSeq("1a 1b 1c 1e 2 3a 5a 5b 5c 5e 7d 8d 14 15 15b 16 16b 16c 18 19 20 21 21b 22 " +
		"22b 27 27b 27d") {
		t.Run(hole, func(t *testing.T) {
			binary := withFault(t, "../../sequencer/holes/"+hole+".patch")
			got := batch(t, binary, ordinary(*firstFlag, faultSchedules, simSeconds(t)))
			if got.what == "" {
				t.Fatalf("%d schedules do without the rule", got.sum.Schedules)
			}
			t.Logf("after %d schedules: %.300s", got.sum.Schedules, got.what)
		})
	}
}
