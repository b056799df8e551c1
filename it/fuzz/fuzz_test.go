// Package fuzz runs every fuzz target of the repository on a number of inputs.
package fuzz

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer/testsize"
)

const (
	root      = "../.."
	envInputs = "HENCE_TEST_FUZZ" // how many inputs each target gets
)

var (
	declared = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	executed = regexp.MustCompile(`execs: (\d+)`)
)

// target is one function that Go's fuzzer calls.
type target struct{ folder, name string }

func targets(t *testing.T) (all []target) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, found := range declared.FindAllSubmatch(text, -1) {
			all = append(all, target{"./" + filepath.ToSlash(folder), string(found[1])})
		}
		return err
	})
	if err != nil || len(all) < 20 {
		t.Fatalf("%d targets, %v", len(all), err)
	}
	return all
}

// TestFuzz gives a number of inputs to every target. It is a number and not a time because Go's fuzzer may call it a
// failure when its time ends while a worker is busy.
func TestFuzz(t *testing.T) {
	all, inputs := targets(t), harness.Number(t, envInputs, 0)
	if inputs == 0 {
		t.Skipf("%d targets, each run on its kept inputs by its package's tests; for new inputs set %s to their number "+
			"(make fuzz)", len(all), envInputs)
	}
	began, sum := time.Now(), 0
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	// As "go test -fuzz" has both; it would link the fuzzer of a folder again for each target.
	kept := filepath.Join(strings.TrimSpace(string(cache)), "fuzz/github.com/hence-dev/hence")
	built := map[string]string{}
	for _, one := range all {
		fuzzer, found := built[one.folder]
		if !found {
			fuzzer = filepath.Join(t.TempDir(), "fuzzer")
			cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-fuzz=.", "-o", fuzzer, one.folder)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("the fuzzer of %s: %v\n%s", one.folder, err, out)
			}
			built[one.folder] = fuzzer
		}
		cmd := exec.CommandContext(t.Context(), fuzzer, "-test.run=^$", "-test.fuzz=^"+one.name+"$",
			"-test.fuzztime="+strconv.Itoa(inputs)+"x", "-test.fuzzminimizetime=10x", "-test.parallel=2",
			"-test.fuzzcachedir="+filepath.Join(kept, one.folder))
		cmd.Dir = filepath.Join(root, one.folder)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s of %s: %v\n%s", one.name, one.folder, err, out)
			continue
		}
		done := 0
		for _, found := range executed.FindAllSubmatch(out, -1) { // the last one counts all
			done, _ = strconv.Atoi(string(found[1]))
		}
		if done < inputs {
			t.Errorf("%s of %s was run on %d inputs of %d:\n%s", one.name, one.folder, done, inputs, out)
		}
		t.Logf("%-40s %-32s %d inputs", one.folder, one.name, done)
		sum += done
	}
	name := "new inputs of " + strconv.Itoa(len(all)) + " fuzzed decoders and readers, at which none failed"
	testsize.Figure(t, began, name, sum, 0, "make fuzz")
}
