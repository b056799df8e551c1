package it

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer/testsize"
)

// envDir hands the run's folder from TestMain to the tests.
const envDir = "HENCE_IT_DIR"

func TestMain(m *testing.M) {
	if rounds := os.Getenv(envDevAgent); rounds != "" {
		os.Exit(playDevAgent(rounds))
	}
	// The parallel ones wait for programs of their own most of the time.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(inFolder(func() int { return overContainers(m.Run) }))
}

// overContainers starts the servers of the run as containers when the environment asks for that, and removes them.
func overContainers(run func() int) int {
	stop, err := harness.StartShared()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "remove the run's containers:", err)
		return 1
	}
	return code
}

// inFolder gives the run a folder for the binary and removes it afterwards.
func inFolder(run func() int) int {
	dir, err := os.MkdirTemp("", "hence-it-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the run:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	for name, value := range map[string]string{envDir: dir, "XDG_STATE_HOME": filepath.Join(dir, "state")} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return run()
}

// built compiles the binary once for all tests of a run.
var built = sync.OnceValues(func() (string, error) { return harness.Build(os.Getenv(envDir)) })

// henceBinary is the path of the hence binary.
func henceBinary(tb testing.TB) string {
	tb.Helper()
	path, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// number reads a size from the environment.
func number(tb testing.TB, name string, otherwise int) int {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		tb.Fatalf("%s is %q: give a number from 1", name, text)
	}
	return n
}

// onReal is a size on real servers, else another one.
func onReal(size, otherwise int) int {
	if harness.Real() {
		return size
	}
	return otherwise
}

// sample is a size of a search: all of it in continuous integration, a quarter in a first "go test ./...".
func sample(size int) int {
	if testsize.Small() {
		return (size + 3) / 4
	}
	return size
}

// whole leaves a long test to a full run.
func whole(tb testing.TB) {
	tb.Helper()
	if testsize.Small() {
		tb.Skipf("it takes ten seconds and more: set %s=1", testsize.Env)
	}
}

// numbers reads a list of sizes from the environment.
func numbers(tb testing.TB, name string, otherwise ...int) []int {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			tb.Fatalf("%s is %q: give numbers from 1 with commas", name, text)
		}
		all = append(all, n)
	}
	return all
}

// realData is the folder of real data in the tau-retail layout.
func realData(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv(harness.EnvData)
	if dir == "" {
		dir = filepath.Join(repositoryRoot(tb), "..", "shared", "tau-retail")
	}
	if _, err := os.Stat(filepath.Join(dir, "tasks-test.json")); err != nil {
		tb.Skipf("real data is missing: name a folder in the tau-retail layout in %s: %v", harness.EnvData, err)
	}
	return dir
}
