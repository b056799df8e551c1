package mutants

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer/testsize"
)

const (
	holesPage  = "docs/holes.md"
	holesTitle = "## Taken out, and found"
	envHoles   = "HENCE_TEST_HOLES"       // fold: all are taken out, not a sample; all: of the simulator, too
	envWrite   = "HENCE_TEST_HOLES_WRITE" // 1: the page gets what is found
)

// hole is a rule of docs/holes.md, and what was found without it.
type hole struct {
	*patch
	failed int      // so many scripts of the fold fail
	found  []string // by each world of the explorer: its name, and the violation that it comes to
}

// allHoles are the rules that there are patches for, in the order of their names.
func allHoles(t *testing.T) (list []*hole) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "sequencer/holes/*.patch"))
	if err != nil || len(paths) < 44 {
		t.Fatalf("%d patches, %v", len(paths), err)
	}
	for _, path := range paths {
		p, err := read(path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, &hole{patch: p})
	}
	number := func(h *hole) (n int) {
		_, _ = fmt.Sscanf(h.name, "%d", &n)
		return n
	}
	slices.SortStableFunc(list, func(a, b *hole) int { return number(a) - number(b) })
	return list
}

// binary builds a package's tests without the rule.
func (h *hole) binary(ctx context.Context, dir, overlay, pkg string) (string, error) {
	out := filepath.Join(dir, h.name+"-"+filepath.Base(pkg)+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", out, pkg)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("hole %s, %s: %w\n%s", h.name, pkg, err, text)
	}
	return out, nil
}

// run runs tests of a binary in its package's folder, with or without being told which rule is missing.
func (h *hole) run(ctx context.Context, binary, pkg, tests string, told bool) (string, error) {
	ctx, stop := context.WithTimeout(ctx, longest)
	defer stop()
	cmd := exec.CommandContext(ctx, binary, "-test.run", tests, "-test.v")
	cmd.Dir, cmd.WaitDelay = filepath.Join(root, pkg), 10*time.Second
	if cmd.Env = os.Environ(); told {
		cmd.Env = append(cmd.Env, "HENCE_TEST_HOLE="+h.name, "HENCE_TEST_SCHEDULES="+h.schedules)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// fall takes the rule out: a script of the fold has to fail, the hole's own script has to go wrong as it says, and the
// worlds of the explorer, and schedules of the simulator, that need the rule have to show it.
func (h *hole) fall(ctx context.Context, dir string, schedules bool) error {
	overlay, err := h.overlay(dir)
	if err != nil {
		return err
	}
	fold, err := h.binary(ctx, dir, overlay, "./sequencer")
	if err != nil {
		return err
	}
	out, err := h.run(ctx, fold, "sequencer", "^TestScripts$", false)
	if h.failed = strings.Count(out, "--- FAIL: TestScripts/"); h.failed == 0 {
		return fmt.Errorf("without rule %s every script of the fold passes (%v)", h.name, err)
	}
	if out, err := h.run(ctx, fold, "sequencer", "^TestHole$", true); err != nil {
		return fmt.Errorf("sequencer/holes/%s.txt: %w\n%s", h.name, err, out)
	}
	packages := []string{"./sequencer/explore"}
	if schedules && h.schedules != "" {
		packages = append(packages, "./sidecar/sim")
	}
	for _, pkg := range packages {
		binary, err := h.binary(ctx, dir, overlay, pkg)
		if err != nil {
			return err
		}
		out, err := h.run(ctx, binary, pkg, "^TestHole$", true)
		if err != nil {
			return fmt.Errorf("without rule %s, %s: %w\n%.3000s", h.name, pkg, err, out)
		}
		for line := range strings.Lines(out) {
			if field := strings.Split(strings.TrimSpace(line), "\t"); field[0] == "found" && len(field) == 3 {
				h.found = append(h.found, field[1]+": "+field[2])
			}
		}
		if err := os.Remove(binary); err != nil {
			return err
		}
	}
	return os.Remove(fold)
}

// row is the hole's part of the page.
func (h *hole) row() string {
	var found []string
	for _, f := range h.found {
		found = append(found, strings.ReplaceAll(f, "|", `\|`))
	}
	file := "../sequencer/holes/" + h.name
	return fmt.Sprintf("| [%s](%s.patch) | %s | [what the fold says then](%s.txt) | %s | %s |\n", h.name, file, h.rule,
		file, strings.Join(found, "<br>"), h.schedules)
}

// TestHoles takes rules of the fold out, one at a time, and looks whether what they are for is found, and whether the
// page says so. It does that for a few of them, without the simulator; HENCE_TEST_HOLES=all (make holes) for all.
func TestHoles(t *testing.T) {
	list, whole, sim := allHoles(t), os.Getenv(envHoles) != "", os.Getenv(envHoles) == "all"
	page, err := os.ReadFile(filepath.Join(root, holesPage))
	if err != nil {
		t.Fatal(err)
	}
	above, table, _ := strings.Cut(string(page), holesTitle)
	for _, h := range list { // what can be said without a run
		if !strings.Contains(above, "\n| "+h.name+" |") {
			t.Errorf("%s has no row %s", holesPage, h.name)
		}
		if !strings.Contains(table, "\n| ["+h.name+"](../sequencer/holes/"+h.name+".patch) | "+h.rule+" | ") && !whole {
			t.Errorf("%s does not say that %s can be taken out: run make holes", holesPage, h.name)
		}
	}
	run := list
	if !whole {
		run = slices.DeleteFunc(slices.Clone(list), func(h *hole) bool { return h.name != "1a" && h.name != "24c" })
	}
	var text strings.Builder
	start := time.Now()
	for _, h := range run {
		began := time.Now()
		if err := h.fall(t.Context(), t.TempDir(), sim); err != nil {
			t.Error(err)
			continue
		}
		t.Logf("%-4s %5.1f s  %d scripts, %d worlds: %s", h.name, time.Since(began).Seconds(), h.failed, len(h.found),
			h.rule)
		text.WriteString(h.row())
		if !whole && !strings.Contains(table, "\n"+h.row()) {
			t.Errorf("%s does not say of %s what is found: run make holes; it is\n%s", holesPage, h.name, h.row())
		}
	}
	if !whole || t.Failed() {
		return
	}
	testsize.Figure(t, start, "rules of the fold without which a script and a world break", len(run), len(list),
		"make holes")
	_, old, _ := strings.Cut(table, "\n|---|---|---|---|---|\n")
	if old == text.String() {
		return
	}
	if os.Getenv(envWrite) != "1" {
		t.Fatalf("%s does not say what is found: %s=1 writes it; it is\n%s", holesPage, envWrite, &text)
	}
	written := strings.TrimSuffix(string(page), old) + text.String()
	if err := os.WriteFile(filepath.Join(root, holesPage), []byte(written), 0o644); err != nil {
		t.Fatal(err)
	}
}
