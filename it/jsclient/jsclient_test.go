// Package jsclient builds the TypeScript client, installs it from its tarball, and runs its suite and the pages about
// it against hence dev.
package jsclient

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
	envNeedNode = "HENCE_REQUIRE_NODE" // 1: without Node.js the tests fail
	source      = "../../sidecar/client/typescript"
	token       = "typescript-client-token"
	bound       = 5 * time.Minute // of one command; a first installation fetches the compiler
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestTypeScriptClient runs the package's suite as installed from its tarball, and the blocks of each page as one
// program. HENCE_JS_TURNS, HENCE_JS_ROUNDS and HENCE_JS_NULLS are its sizes; make typescript has the full ones.
func TestTypeScriptClient(t *testing.T) {
	project := installed(t)
	env := dev(t)
	if err := os.CopyFS(filepath.Join(project, "test"), os.DirFS(source+"/test")); err != nil {
		t.Fatal(err)
	}
	t.Log(run(t, project, env, "node", "--test", "test/"))
	for _, page := range []string{"typescript.md", "langgraph-js.md", "openai-agents-js.md"} {
		t.Run(page, func(t *testing.T) { pasted(t, project, env, page) })
	}
	for _, example := range []string{"langgraph-js", "openai-agents-js"} {
		t.Run("ten lines, "+example, func(t *testing.T) {
			tenlines.Hold(t, example, ".mjs", board(env), func(t *testing.T, dir, file string, more ...string) string {
				if err := os.Symlink(filepath.Join(project, "node_modules"), filepath.Join(dir, "node_modules")); err != nil &&
					!errors.Is(err, os.ErrExist) {
					t.Fatal(err)
				}
				return run(t, dir, append(more, env...), "node", file)
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

// pasted runs the JavaScript blocks of a page one after another in one program, as a reader would who pastes them.
func pasted(t *testing.T, project string, env []string, page string) {
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	var program strings.Builder
	for _, found := range regexp.MustCompile("(?ms)^```js\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		program.WriteString(found[1] + "\n")
	}
	if program.Len() == 0 {
		t.Fatalf("%s has no block of JavaScript", page)
	}
	if err := os.WriteFile(filepath.Join(project, "page.mjs"), []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Log(run(t, project, env, "node", "page.mjs"))
}

// installed is a project with the client from a tarball just built. The compiler is kept in the user's cache for as
// long as the lock file stays the same.
func installed(t *testing.T) string {
	version, err := exec.Command("node", "--version").Output()
	if err == nil {
		_, err = exec.LookPath("npm")
	}
	if err != nil || !regexp.MustCompile(`^v(2[0-9]|[3-9][0-9])\.`).Match(version) {
		missing(t, "Node.js 20 or later with npm is missing (apt-get install nodejs npm)")
	}
	lock, err := os.ReadFile(source + "/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	kept := filepath.Join(cache, "hence", "typescript-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(filepath.Join(kept, "ready")); errors.Is(err, os.ErrNotExist) {
		copied(t, kept, "package.json", "package-lock.json")
		install := exec.CommandContext(t.Context(), "npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts")
		install.Dir = kept
		if out, err := install.CombinedOutput(); err != nil { // such as no network
			missing(t, "the TypeScript compiler cannot be installed: "+string(out))
		}
		if err := os.WriteFile(filepath.Join(kept, "ready"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build, project := t.TempDir(), t.TempDir()
	copied(t, build, "package.json", "README.md", "tsconfig.json")
	if err := os.CopyFS(filepath.Join(build, "src"), os.DirFS(source+"/src")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(kept, "node_modules"), filepath.Join(build, "node_modules")); err != nil {
		t.Fatal(err)
	}
	run(t, build, nil, "node", "node_modules/typescript/bin/tsc", "-p", ".")
	run(t, build, nil, "npm", "pack", "--silent", "--pack-destination", project)
	if err := os.WriteFile(filepath.Join(project, "package.json"), []byte(`{"type": "module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, project, nil, "npm", "install", "--silent", "--no-audit", "--no-fund", "--offline", "--legacy-peer-deps",
		"./hence-client-0.1.0.tgz")
	for _, peer := range []string{"@langchain", "@openai", "zod"} { // what a user of the node has installed
		for _, name := range below(t, filepath.Join(kept, "node_modules"), peer) {
			to := filepath.Join(project, "node_modules", name)
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(kept, "node_modules", name), to); err != nil {
				t.Fatal(err)
			}
		}
	}
	return project
}

// below are the packages of a scope, or the one of that name.
func below(t *testing.T, modules, name string) (names []string) {
	t.Helper()
	if !strings.HasPrefix(name, "@") {
		return []string{name}
	}
	entries, err := os.ReadDir(filepath.Join(modules, name))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, name+"/"+e.Name())
	}
	return names
}

// copied puts files of the client's source into a folder.
func copied(t *testing.T, dir string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// missing skips the test and says what is missing, or fails it where all has to be there.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv(envNeedNode) == "1" {
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
