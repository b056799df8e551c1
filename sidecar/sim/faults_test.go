package sim

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
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
			got := batch(t, withFault(t, patch), ordinary(*firstFlag, faultSchedules, simSeconds(t), 0))
			if got.what == "" {
				t.Fatalf("%d schedules do not find it", got.sum.Schedules)
			}
			t.Logf("after %d schedules: %.400s", got.sum.Schedules, got.what)
		})
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

// TestRealFindsWeakenedRules switches rules of the fold off under real agents. Rules that are not here need what these
// schedules do not have yet: plans with tools, hooks, rules that change, wide scopes.
func TestRealFindsWeakenedRules(t *testing.T) {
	if os.Getenv("HENCE_TEST_FAULTS") == "" {
		t.Skip("it runs thousands of schedules: HENCE_TEST_FAULTS=1 runs it")
	}
	for _, tc := range []struct {
		name   string
		weaken sequencer.Weaken
	}{
		{"1a older only", sequencer.WeakenOlderOnly},
		{"1b piecewise", sequencer.WeakenPiecewise},
		{"1c wait-die", sequencer.WeakenWaitDie},
		{"1e shard writes claim nothing", sequencer.WeakenShardNoClaim},
		{"2 dirty read", sequencer.WeakenDirtyRead},
		{"3a settlement is no write", sequencer.WeakenSettleNoWrite},
		{"5a no base", sequencer.WeakenNoBase},
		{"5b check again", sequencer.WeakenRecheck},
		{"5c read-only unchecked", sequencer.WeakenReadOnly},
		{"5e no floor for expected versions", sequencer.WeakenExpectNoFloor},
		{"7d read grant covers write", sequencer.WeakenReadCovers},
		{"14 foreign scopes", sequencer.WeakenForeignScopes},
		{"15 registry", sequencer.WeakenRegistryOpen},
		{"15b pins once", sequencer.WeakenPinsOnce},
		{"16 retraction while observing", sequencer.WeakenObserveRetract},
		{"16b undecided at the switch", sequencer.WeakenObserveKeep},
		{"16c shared while observing", sequencer.WeakenObserveShared},
		{"18 sidecars without a cap", sequencer.WeakenNoCaps},
		{"19 a silent hook", sequencer.WeakenSilentVeto},
		{"8d a dead lease is confirmed", sequencer.WeakenConfirmDead},
		{"20 one session for all conversations", sequencer.WeakenOneSession},
		{"21 claims of sidecars", sequencer.WeakenClaims},
		{"21b since when it is granted", sequencer.WeakenGrantSeq},
		{"22 horizon of seqs", sequencer.WeakenHorizonSeqs},
		{"22b restores the newest", sequencer.WeakenRestoreLast},
		{"27 a yes to other arguments", sequencer.WeakenApprovalArgs},
		{"27b a late no", sequencer.WeakenLateDenial},
		{"27d commits before the yes", sequencer.WeakenUnapproved},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := batch(t, os.Args[0], ordinary(*firstFlag, faultSchedules, simSeconds(t), tc.weaken))
			if got.what == "" {
				t.Fatalf("%d schedules do without the rule", got.sum.Schedules)
			}
			t.Logf("after %d schedules: %.300s", got.sum.Schedules, got.what)
		})
	}
}
