package harness

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/sidecar/client"
)

// EnvDir hands the run's folder from TestMain to the tests.
const EnvDir = "HENCE_IT_DIR"

// Main runs a package's tests over the servers that the environment asks for, with a folder that goes at the end; the
// package's TestMain is one call of it.
func Main(m *testing.M) {
	// The parallel ones wait for programs of their own most of the time.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(inFolder(func() int { return overContainers(m.Run) }))
}

// overContainers removes the containers that the tests have started for all of them.
func overContainers(run func() int) int {
	given := named()
	code := run()
	if given || !named() {
		return code // none were started: their addresses would be in the environment
	}
	stop, err := shared()
	if err == nil {
		err = stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "remove the run's containers:", err)
		return 1
	}
	return code
}

// inFolder gives the package a folder for what it builds and removes it afterwards.
func inFolder(run func() int) int {
	dir, err := os.MkdirTemp("", "hence-it-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the run:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	for name, value := range map[string]string{EnvDir: dir, "XDG_STATE_HOME": filepath.Join(dir, "state")} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return run()
}

// Binary is the path of the hence binary, compiled with tags if any are given.
func Binary(tb testing.TB, tags ...string) string {
	tb.Helper()
	path, err := buildOnce(tags)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Number reads a size from the environment.
func Number(tb testing.TB, name string, otherwise int) int {
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

// OnReal is a size on real servers, else another one.
func OnReal(size, otherwise int) int {
	if Real() {
		return size
	}
	return otherwise
}

// Sample is a size of a search: all of it in continuous integration on real servers, a quarter in "go test ./...".
func Sample(size int) int {
	if testsize.Small() {
		return (size + 3) / 4
	}
	return size
}

// Whole leaves a long test to a full run.
func Whole(tb testing.TB) {
	tb.Helper()
	if testsize.Small() {
		tb.Skipf("it takes ten seconds and more: set %s=1", testsize.Env)
	}
}

// Numbers reads a list of sizes from the environment.
func Numbers(tb testing.TB, name string, otherwise ...int) []int {
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

// RealData is the folder of real data in the tau-retail layout.
func RealData(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv(EnvData)
	if dir == "" {
		dir = filepath.Join(Root(tb), "..", "shared", "tau-retail")
	}
	if _, err := os.Stat(filepath.Join(dir, "tasks-test.json")); err != nil {
		tb.Skipf("real data is missing: name a folder in the tau-retail layout in %s: %v", EnvData, err)
	}
	return dir
}

// Root is the folder of the repository.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		tb.Fatal("no go.mod above the working folder: run the tests inside the repository")
	}
}

// Readyz asks whether what serves at a URL is ready: an error that says why not, else nil.
func Readyz(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &client.Problem{Status: resp.StatusCode, Code: "not_ready", Detail: resp.Status}
	}
	return nil
}

// Timed is how long something takes.
func Timed(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

// Header is the text of a record's header, empty without one.
func Header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
