// Package pythonclient builds and installs the Python client, and runs its suite against hence dev: the clients, the
// LangGraph node and store, the OpenAI Agents tools, and the pages about them.
package pythonclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/tenlines"
)

const (
	envNeedPython = "HENCE_REQUIRE_PYTHON" // 1: without Python the tests fail
	source        = "../../sidecar/client/python"
	token         = "python-client-token"
	bound         = 5 * time.Minute // of one command; a first installation fetches packages
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestPythonClient runs the package's suite as installed from its wheel. HENCE_PY_TURNS, HENCE_PY_ROUNDS and
// HENCE_PY_NULLS are its sizes; make python has the full ones.
func TestPythonClient(t *testing.T) {
	python := installed(t)
	env := dev(t)
	tests, err := filepath.Abs(source + "/tests")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(run(t, tests, env, python, "-W", "ignore", "-m", "unittest", "-v"))
	for _, page := range []string{"python.md", "langgraph.md", "openai-agents.md"} {
		t.Run(page, func(t *testing.T) { pasted(t, python, env, "../../docs/"+page) })
	}
	for _, example := range []string{"langgraph-py", "openai-agents-py"} {
		t.Run("ten lines, "+example, func(t *testing.T) {
			tenlines.Hold(t, example, ".py", board(env), func(t *testing.T, dir, file string, more ...string) string {
				return run(t, dir, append(more, env...), python, "-W", "ignore", file)
			})
		})
	}
}

// board is the file that the sidecar's posts are in.
func board(env []string) string {
	for _, v := range env {
		if path, is := strings.CutPrefix(v, "HENCE_SINK="); is {
			return path
		}
	}
	return ""
}

var block = regexp.MustCompile("(?ms)^```python\n(.*?)^```$")

// pasted runs the Python blocks of a page one after another in one program, as a reader would who pastes them.
func pasted(t *testing.T, python string, env []string, page string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var program strings.Builder
	for _, found := range block.FindAllStringSubmatch(string(text), -1) {
		program.WriteString(found[1] + "\n")
	}
	if program.Len() == 0 {
		t.Fatalf("%s has no block of Python", page)
	}
	file := filepath.Join(t.TempDir(), "page.py")
	if err := os.WriteFile(file, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, t.TempDir(), env, python, file)
}

// installed is the Python of an environment with the pinned packages, and the client from a wheel just built. The
// environment is kept in the user's cache for as long as the pins stay the same.
func installed(t *testing.T) string {
	system, err := exec.LookPath("python3")
	if err == nil {
		err = exec.Command(system, "-c", "import ensurepip, sys; assert sys.version_info >= (3, 10)").Run()
	}
	if err != nil {
		missing(t, "Python 3.10 or later with venv is missing (apt-get install python3 python3-venv)")
	}
	pins, err := os.ReadFile("requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	version := run(t, "", nil, system, "-c", "import sys; print(sys.version)")
	sum := sha256.Sum256(append(pins, version...))
	dir := filepath.Join(cache, "hence", "python-"+hex.EncodeToString(sum[:6]))
	python := filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(filepath.Join(dir, "ready")); errors.Is(err, os.ErrNotExist) {
		run(t, "", nil, system, "-m", "venv", "--clear", dir)
		install := exec.CommandContext(t.Context(), python, "-m", "pip", "install", "-q", "--require-hashes",
			"--only-binary", ":all:", "-r", "requirements.txt")
		if out, err := install.CombinedOutput(); err != nil { // no network, or a Python that the pins are not for
			missing(t, "the packages in requirements.txt cannot be installed: "+string(out))
		}
		if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wheel := built(t, python)
	run(t, "", nil, python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--force-reinstall", wheel)
	return python
}

// built makes the wheel from a copy of the source, which stays clean, and the archive of the source beside it.
func built(t *testing.T, python string) string {
	copied, out := filepath.Join(t.TempDir(), "source"), t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"sdist", "wheel"} {
		run(t, copied, nil, python, "-c", "import setuptools.build_meta as b, sys; b.build_"+what+"(sys.argv[1])", out)
	}
	for _, kind := range []string{"*.tar.gz", "*.whl"} {
		if found, err := filepath.Glob(filepath.Join(out, kind)); err != nil || len(found) != 1 {
			t.Fatalf("%s: found %v (%v)", kind, found, err)
		}
	}
	return filepath.Join(out, "hence_client-0.1.0-py3-none-any.whl")
}

// missing skips the test and says what is missing, or fails it where all has to be there.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv(envNeedPython) == "1" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// dev starts hence dev with the notes policy over a folder of the test, and returns the environment of its clients.
func dev(t *testing.T) []string {
	policy, err := os.ReadFile("../../docs/examples/notes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	file := filepath.Join(t.TempDir(), "notes.yaml")
	text := strings.ReplaceAll(string(policy), "/tmp/hence-notes", root)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	key, list := harness.NewKey(t, "agent-1")
	_, line := harness.SpawnServing(t, 30*time.Second, harness.Binary(t), "dev", "--random-ports", "--output", "json",
		"--policy", file, "--token", token, "--keys", list)
	var said struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(line, &said); err != nil || said.URL == "" {
		t.Fatalf("hence dev says %q (%v)", line, err)
	}
	scripts, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "HENCE_URL="+said.URL, "HENCE_TOKEN="+token, "HENCE_SINK="+root+"/board",
		"HENCE_CLIENT_SOURCE="+scripts, "HENCE_CLIENT_KEY="+key)
}

// run runs a program to its end, and returns what it says.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}
