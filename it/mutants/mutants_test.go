// Package mutants breaks the code one rule at a time and looks whether a test notices: a rule whose absence no test
// notices is not tested.
//
// A patch has one defect, as a unified difference of few lines. What stands before it says which rule it breaks
// ("rule: ..."), which packages are to notice ("test: ./package ..."), perhaps by which tests alone ("run: PATTERN"),
// and, where nothing can notice, why not ("equivalent: ...").
//
// The rules of docs/holes.md that belong to the fold are taken out the same way, by the patches of sequencer/holes.
// There more is asked for than that a test fails: what the fold answers then, and what explorer and simulator find.
// The binary that runs is told which rule is missing (HENCE_TEST_HOLE).
package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer/testsize"
)

const (
	root    = "../.."
	envAll  = "HENCE_TEST_MUTANTS" // 1: all are run, not a sample; a name: that one
	enough  = .95                  // the share of those that are not equivalent that has to be noticed
	longest = 5 * time.Minute      // of one
)

// patch is one defect.
type patch struct {
	name, rule, run, equivalent string
	schedules                   string // of a hole: within so many the simulator shows it
	tests                       []string
	broken                      map[string][]byte // what the files are that it changes
}

// read reads a patch and applies it to the tree as it is, in memory.
func read(path string) (*patch, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &patch{name: strings.TrimSuffix(filepath.Base(path), ".patch"), broken: map[string][]byte{}}
	head, diffs, found := strings.Cut(string(text), "--- a/")
	if !found {
		return nil, fmt.Errorf("%s has no difference", path)
	}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "rule":
			p.rule = value
		case "test":
			p.tests = strings.Fields(value)
		case "run":
			p.run = value
		case "equivalent":
			p.equivalent = value
		case "schedules":
			p.schedules = value
		}
	}
	if p.rule == "" {
		return nil, fmt.Errorf("%s does not say which rule it breaks", path)
	}
	for diff := range strings.SplitSeq(diffs, "\n--- a/") {
		file, _, _ := strings.Cut(diff, "\n")
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		if p.broken[file], err = apply(string(source), diff); err != nil {
			return nil, fmt.Errorf("%s does not apply to %s any more: %w", path, file, err)
		}
	}
	return p, nil
}

// apply changes a text as the hunks of a difference say. Where a hunk belongs is found by its lines, which have to be
// there once.
func apply(source, diff string) ([]byte, error) {
	for i, hunk := range strings.Split(diff, "\n@@ ")[1:] {
		var before, after []string
		for line := range strings.Lines(hunk[strings.IndexByte(hunk, '\n')+1:]) {
			line = strings.TrimSuffix(line, "\n")
			kind, rest := " ", ""
			if line != "" {
				kind, rest = line[:1], line[1:]
			}
			if kind != "+" {
				before = append(before, rest)
			}
			if kind != "-" {
				after = append(after, rest)
			}
		}
		old := strings.Join(before, "\n")
		if n := strings.Count(source, old); n != 1 {
			return nil, fmt.Errorf("the lines of hunk %d are there %d times", i+1, n)
		}
		source = strings.Replace(source, old, strings.Join(after, "\n"), 1)
	}
	return []byte(source), nil
}

// all are the patches that there are. One that does not apply fails the test.
func all(t *testing.T) (list []*patch) {
	t.Helper()
	paths, err := filepath.Glob("patches/*.patch")
	if err != nil || len(paths) < 120 {
		t.Fatalf("%d patches, %v", len(paths), err)
	}
	for _, path := range paths {
		p, err := read(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(p.tests) == 0 {
			t.Errorf("%s does not say which packages are to notice", path)
		}
		list = append(list, p)
	}
	return list
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// overlay writes the broken files into a folder, and the file that tells the compiler of them.
func (p *patch) overlay(dir string) (path string, err error) {
	replace := map[string]string{}
	for name, text := range p.broken {
		file, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		replace[file] = filepath.Join(dir, p.name+"-"+strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(replace[file], text, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, p.name+".json")
	return path, os.WriteFile(path, text, 0o600)
}

// noticed runs the tests on the broken code: which one fails first; empty: none does.
func (p *patch) noticed(ctx context.Context, dir string) (by string, took time.Duration, err error) {
	overlay, err := p.overlay(dir)
	if err != nil {
		return "", 0, err
	}
	ctx, stop := context.WithTimeout(ctx, longest)
	defer stop()
	args := []string{"test", "-count=1", "-short", "-failfast", "-overlay", overlay}
	if p.run != "" {
		args = append(args, "-run", p.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, p.tests...)...)
	cmd.Dir, cmd.WaitDelay = root, 10*time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err = cmd.Run()
	took = time.Since(began)
	switch found := failed.FindStringSubmatch(out.String()); {
	case err == nil:
		return "", took, nil
	case bytes.Contains(out.Bytes(), []byte("[build failed]")) || bytes.Contains(out.Bytes(), []byte("[setup failed]")):
		return "", took, fmt.Errorf("%s does not compile:\n%s", p.name, out.String())
	case found != nil:
		return found[1], took, nil
	case bytes.Contains(out.Bytes(), []byte("panic: ")):
		return "a panic", took, nil
	case ctx.Err() != nil:
		return "time", took, nil
	}
	return "", took, fmt.Errorf("%s: %w\n%s", p.name, err, out.String())
}

// sample are a few patches, others for each commit: which of them break rules that no commit may leave untested is
// nothing that one knows. Of a tree without commits they are the first.
func sample(list []*patch) []*patch {
	const inFold, elsewhere = 3, 1 // a package that much is built on takes longer
	at := 0
	if out, err := exec.Command("git", "-C", root, "rev-parse", "HEAD").Output(); err == nil {
		if n, err := strconv.ParseUint(string(out[:min(len(out), 8)]), 16, 32); err == nil {
			at = int(n)
		}
	}
	var fold, other []*patch
	for _, p := range list {
		if slices.Equal(p.tests, []string{"./sequencer"}) {
			fold = append(fold, p)
		} else {
			other = append(other, p)
		}
	}
	var out []*patch
	for i := range inFold {
		out = append(out, fold[(at+i*len(fold)/inFold)%len(fold)])
	}
	for i := range elsewhere {
		out = append(out, other[(at+i*len(other)/elsewhere)%len(other)])
	}
	return out
}

// TestMutants applies every patch, and runs the tests on a few of them. With HENCE_TEST_MUTANTS=1 (make mutants) it
// runs them on all, and 95 in 100 of those that are not equivalent have to be noticed; with the name of one it runs
// them on that one.
func TestMutants(t *testing.T) {
	list, wanted := all(t), os.Getenv(envAll)
	switch wanted {
	case "1":
	case "":
		list = sample(list)
	default:
		list = slices.DeleteFunc(list, func(p *patch) bool { return p.name != wanted })
	}
	if len(list) == 0 {
		t.Fatalf("there is no patch %s", wanted)
	}
	dir, caught, counted := t.TempDir(), 0, 0
	var missed []string
	began := time.Now()
	for _, p := range list {
		by, took, err := p.noticed(t.Context(), dir)
		switch {
		case err != nil:
			t.Error(err)
			continue
		case p.equivalent != "" && by != "":
			t.Errorf("%s is said to be equivalent, and %s notices it", p.name, by)
			continue
		case p.equivalent != "":
			t.Logf("%-40s equivalent: %s", p.name, p.equivalent)
			continue
		}
		if counted++; by != "" {
			caught++
			t.Logf("%-40s %5.1f s  %s", p.name, took.Seconds(), by)
			continue
		}
		missed = append(missed, p.name)
		t.Logf("%-40s %5.1f s  NOT NOTICED: %s", p.name, took.Seconds(), p.rule)
	}
	t.Logf("%d of %d are noticed in %.0f s; not: %v", caught, counted, time.Since(began).Seconds(), missed)
	if float64(caught) < enough*float64(counted) {
		t.Errorf("%d of %d are noticed, at least %.0f %% have to be", caught, counted, 100*enough)
	}
	if wanted == "1" {
		testsize.Figure(t, began, "one-line defects that a test notices", caught, counted, "make mutants")
	}
}

// TestApply holds what a patch does, and that one that fits nowhere, or twice, is refused.
func TestApply(t *testing.T) {
	const diff = "x.go\n+++ b/x.go\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n d\n"
	if got, err := apply("a\nb\nd\ne\n", diff); err != nil || string(got) != "a\nc\nd\ne\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, source := range []string{"a\nx\nd\n", "a\nb\nd\na\nb\nd\n"} {
		if got, err := apply(source, diff); err == nil {
			t.Errorf("%q is taken for %q", source, got)
		}
	}
}
