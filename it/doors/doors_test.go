// Package doors drives Hence with MCP clients and servers that others have written, as released and unchanged.
package doors

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
)

const (
	envDoors = "HENCE_TEST_DOORS" // 1: install the clients and run them
	bound    = 5 * time.Minute    // of one command; a first installation fetches packages
	token    = "token-of-the-doors-suite"
)

func TestMain(m *testing.M) { harness.Main(m) }

// clients are the installed clients and servers: the folder of the npm packages, and three Pythons.
type clients struct{ node, newer, older, models string }

// install puts them into the user's cache, where they stay for as long as the pins do.
func install(t *testing.T) clients {
	t.Helper()
	if os.Getenv(envDoors) != "1" {
		t.Skip("needs Node.js 20, Python 3.11 and their registries: set HENCE_TEST_DOORS=1, or run make doors")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	into := func(what string, pins []string, fill func(dir string)) string {
		sum := sha256.New()
		for _, name := range pins {
			data, err := os.ReadFile(filepath.Join("clients", name))
			if err != nil {
				t.Fatal(err)
			}
			sum.Write(data)
		}
		dir := filepath.Join(cache, "hence", what+"-"+hex.EncodeToString(sum.Sum(nil)[:6]))
		if _, err := os.Stat(filepath.Join(dir, "ready")); errors.Is(err, os.ErrNotExist) {
			fill(dir)
			if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	node := into("doors-node", []string{"package.json", "package-lock.json"}, func(dir string) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		copied(t, dir, "package.json", "package-lock.json")
		run(t, dir, "npm", "ci", "--silent", "--no-audit", "--no-fund")
	})
	copied(t, node, "every.mjs", "frameworks.mjs") // Node.js looks for packages from where a program lies
	python := func(pins string) string {
		dir := into("doors-"+pins, []string{pins + ".txt"}, func(dir string) {
			run(t, "", "python3", "-m", "venv", "--clear", dir)
			run(t, "", filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "-q", "--require-hashes", "--only-binary",
				":all:", "-r", filepath.Join("clients", pins+".txt"))
		})
		return filepath.Join(dir, "bin", "python")
	}
	return clients{node, python("newer"), python("older"), python("models")}
}

// copied puts files of the suite into a folder.
func copied(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("clients", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func run(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s\n%s", cmd.Args, err, out, said.Bytes())
	}
	return out
}

// call is one call of a tool, by its server's name of it.
type call struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
}

// upstreams are the published servers, each over a folder of its own.
func upstreams(c clients, dir string) map[string]any {
	bin := func(name string) string { return filepath.Join(c.node, "node_modules", ".bin", "mcp-server-"+name) }
	return map[string]any{
		"everything": map[string]any{"command": bin("everything")},
		"files":      map[string]any{"command": bin("filesystem"), "args": []string{dir}},
		"memory": map[string]any{"command": bin("memory"),
			"env": map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.json")}},
	}
}

// calls has one call at least of every tool; DIR stands for the server's folder.
func calls(t *testing.T) map[string][]call {
	t.Helper()
	data, err := os.ReadFile("calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]call
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// written puts a value into a file, with DIR in its place.
func written(t *testing.T, dir string, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "job.json")
	if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte("DIR"), []byte(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// folder is one for the servers, with a file in it.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// dev starts hence dev with the servers and the first policy of their catalogues.
func dev(t *testing.T, c clients, dir string) (url string) {
	t.Helper()
	config := written(t, dir, map[string]any{"mcpServers": upstreams(c, dir)})
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, run(t, "", harness.Binary(t), "policy", "init", "--from", config), 0o600); err != nil {
		t.Fatal(err)
	}
	_, line := harness.SpawnServing(t, time.Minute, harness.Binary(t), "dev", "--random-ports", "--output", "json",
		"--token", token, "--mcp", config, "--policy", policy)
	var said struct {
		MCP string `json:"mcp"`
	}
	if err := json.Unmarshal(line, &said); err != nil || said.MCP == "" {
		t.Fatalf("hence dev says %q (%v)", line, err)
	}
	return said.MCP
}

// answers are the lines of a driver, without the folder's name in them.
func answers(t *testing.T, out []byte, dir string) (lines []map[string]any) {
	t.Helper()
	scan := bufio.NewScanner(bytes.NewReader(bytes.ReplaceAll(out, []byte(dir), []byte("DIR"))))
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		var one map[string]any
		if err := json.Unmarshal(scan.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", scan.Text(), err)
		}
		lines = append(lines, one)
	}
	return lines
}

// ofTheMoment are tools whose answers differ from one call to the next: times, and the environment of the server.
func ofTheMoment() []string {
	return []string{"get_file_info", "get-env", "gzip-file-as-resource", "get-resource-reference"}
}

// asTask is a tool that is only called as a task of the protocol, which Hence does not hand on.
const asTask = "simulate-research-query"

// Every tool of the published servers, called by the reference SDK through Hence, answers as its bare server does: the
// same content, structure, error and code, at the server's own endpoint.
func TestEveryTool(t *testing.T) {
	c := install(t)
	through := folder(t)
	url := dev(t, c, through)
	for _, server := range slices.Sorted(maps.Keys(calls(t))) {
		t.Run(server, func(t *testing.T) {
			bareDir := folder(t)
			bareJob := upstreams(c, bareDir)[server].(map[string]any)
			bareJob["calls"] = calls(t)[server]
			bare := answers(t, run(t, c.node, "node", "every.mjs", written(t, bareDir, bareJob)), bareDir)
			job := map[string]any{"url": url + "/" + server, "token": token, "calls": calls(t)[server]}
			ours := answers(t, run(t, c.node, "node", "every.mjs", written(t, through, job)), through)
			if len(ours) != len(bare) {
				t.Fatalf("%d answers, %d of the bare server", len(ours), len(bare))
			}
			called := map[string]bool{}
			for _, lines := range [][]map[string]any{ours, bare} { // listed in the order of names, and of the server
				names, _ := lines[0]["tools"].([]any)
				slices.SortFunc(names, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
			for i := range ours {
				name := fmt.Sprint(ours[i]["tool"])
				called[name] = true
				delete(ours[i], "ms")
				delete(bare[i], "ms")
				if slices.Contains(ofTheMoment(), name) && ours[i]["isError"] == bare[i]["isError"] {
					continue
				}
				if got, want := text(t, ours[i]), text(t, bare[i]); got != want {
					t.Errorf("through Hence\n  %s\nbare\n  %s", got, want)
				}
			}
			for _, tool := range ours[0]["tools"].([]any) {
				if !called[tool.(string)] && tool != asTask {
					t.Errorf("%s is not called: add it to calls.json", tool)
				}
			}
			t.Logf("%d tools, %d calls", len(ours[0]["tools"].([]any)), len(ours)-1)
		})
	}
	t.Run("held", func(t *testing.T) {
		held := call{"files__write_file", map[string]any{"path": "DIR/held.txt", "content": "x"}}
		job := map[string]any{"url": url, "token": token, "calls": []call{}, "held": held}
		lines := answers(t, run(t, c.node, "node", "every.mjs", written(t, through, job)), through)
		last := lines[len(lines)-1]
		if last["decision"] != "committed" || !strings.HasPrefix(fmt.Sprint(last["text"]), "HELD") {
			t.Errorf("%v", last)
		}
	})
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v) // names are sorted
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The clients of frameworks, both generations of the protocol, the inspector and the bridge reach the tools by an
// address and a token alone.
func TestClients(t *testing.T) {
	c := install(t)
	dir := folder(t)
	url := dev(t, c, dir)
	job := written(t, dir, map[string]any{"url": url, "token": token,
		"read": call{"files__read_text_file", map[string]any{"path": "DIR/a.txt"}},
		"held": call{"files__write_file", map[string]any{"path": "DIR/b.txt", "content": "x"}}})
	var all []map[string]any
	for _, drive := range [][]string{{"node", filepath.Join(c.node, "frameworks.mjs")}, {c.newer, "clients/newer.py"},
		{c.older, "clients/older.py"}} {
		all = append(all, answers(t, run(t, "", drive[0], drive[1], job), dir)...)
	}
	if len(all) != 5 {
		t.Errorf("%d clients: %v", len(all), all)
	}
	for _, one := range all {
		t.Logf("%v: %v tools", one["client"], one["tools"])
		read, held := fmt.Sprint(one["read"]), fmt.Sprint(one["held"])
		if !strings.Contains(read, "hello") || !strings.Contains(held, "Successfully wrote") {
			t.Errorf("%v", one)
		}
	}
	out := run(t, c.node, "node_modules/.bin/mcp-inspector", "--cli", url, "--transport", "http", "--header",
		"Authorization: Bearer "+token, "--method", "tools/call", "--tool-name", "everything__echo", "--tool-arg",
		"message=hi")
	if !strings.Contains(string(out), "Echo: hi") {
		t.Errorf("the inspector: %s", out)
	}
	bridge := map[string]any{"command": harness.Binary(t), "args": []string{"mcp", "stdio"}, "calls": []call{
		{"everything__echo", map[string]any{"message": "bridge"}}},
		"env": map[string]string{"HENCE_URL": strings.TrimSuffix(url, "/mcp"), "HENCE_TOKEN": token}}
	lines := answers(t, run(t, c.node, "node", "every.mjs", written(t, dir, bridge)), dir)
	if !strings.Contains(text(t, lines), "Echo: bridge") {
		t.Errorf("the bridge: %v", lines)
	}
}
