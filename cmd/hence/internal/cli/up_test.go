package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/up"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// agentsFile writes a file of agents.
func agentsFile(t *testing.T, agents string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agents.yaml")
	if err := os.WriteFile(path, []byte("version: 1\nembedded: true\nagents:\n"+agents), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each agent ends in its own way, is started again as it may, and is counted by its own sidecar.
func TestUp(t *testing.T) {
	path := agentsFile(t, fmt.Sprintf(`
  - {name: fine, command: 'echo "in $HENCE_WORKSPACE as $HENCE_AGENT"; echo oops >&2; printf "no end"'}
  - {name: third-time, command: 'echo x >> tries; test $(wc -l < tries) -ge 2', restart: on-failure, workspace: shop}
  - {name: hopeless, command: exit 3, restart: on-failure, restarts: 1}
  - {name: shot, command: kill -KILL $$}
  - {name: commits, command: [%q], env: {%s: commit}}
  - {name: leaves, command: [%[1]q], env: {%[2]s: leave}}
`, os.Args[0], asAgent))
	code, out, errs := hence(t, "up", "-f", path, "-o", "json")
	var got up.Summary
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != ExitFailed {
		t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
	}
	for i, want := range []struct {
		name                      string
		exit, restarts, committed int
	}{{"fine", 0, 0, 0}, {"third-time", 0, 1, 0}, {"hopeless", 3, 1, 0}, {"shot", 137, 0, 0}, {"commits", 0, 0, 1},
		{"leaves", 4, 0, 0}} {
		r := got.Agents[i]
		if r.Agent != want.name || r.Exit == nil || *r.Exit != want.exit || r.Restarts != want.restarts ||
			r.Committed != want.committed || r.Refused+r.Held+r.Residue != 0 || r.Error != "" {
			t.Errorf("got %+v, want %+v", r, want)
		}
	}
	for _, want := range []string{"fine       | in default as fine\n", "fine       | oops\n", "fine       | no end\n",
		"hopeless   | hence: ended: exit code 3; started again after 500ms\n", "leaves     | left open: ",
		"3 of 6 agents did not end well: hopeless, shot, leaves"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not in\n%s", want, errs)
		}
	}
}

// The hook of the flags or of the environment is asked about each agent that has none in the file; an agent's own one
// runs in the file's folder.
func TestUpHook(t *testing.T) {
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"yes":false,"reason":"not on a Friday"}`) // the sidecar sees to what does not arrive
	}))
	defer judge.Close()
	t.Setenv("HENCE_HOOK_URL", judge.URL)
	path := agentsFile(t, fmt.Sprintf(`
  - {name: asked, command: [%q], env: {%s: commit}}
  - {name: own, command: [%[1]q], env: {%[2]s: commit}, hook: {command: [sh, yes.sh, own], timeout: 20s}}
`, os.Args[0], asAgent))
	yes := `test "$1" = own && grep -q '"agent":"own"' && echo '{"yes":true}'`
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "yes.sh"), []byte(yes), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := hence(t, "up", "-f", path, "-o", "json")
	var got up.Summary
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != ExitFailed || len(got.Agents) != 2 {
		t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
	}
	asked, own := got.Agents[0], got.Agents[1]
	if asked.Committed != 0 || asked.Refused != 1 || own.Committed != 1 || own.Refused != 0 ||
		!strings.Contains(errs, "vetoed") || !strings.Contains(errs, "not on a Friday") {
		t.Errorf("got %+v\n%s", got, errs)
	}
}

// An approver of the list approves the calls of all agents, where the start says; no other caller does, and without a
// list there is no approval. A wrong list is said before anything is started.
func TestUpApprovers(t *testing.T) {
	path := agentsFile(t, fmt.Sprintf("  - {name: asks, command: [%q], env: {%s: offer}, policy: policy.yaml}\n",
		os.Args[0], asAgent))
	dir := filepath.Dir(path)
	const ann = "the-token-of-ann-who-approves"
	for name, text := range map[string]string{"approvers.yaml": "- name: ann\n  token: " + ann + "\n",
		"wrong.yaml": "- name: ann\n  token: short\n",
		"policy.yaml": `version: 1
server: office
files: {root: .}
tools:
  - {tool: offer.send, class: irreversible, approve: required, args: [to], scopes: ["offer:/{to}"],
     file: {op: append, path: sent.txt, content: "{to}\n"}}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, _, errs := hence(t, "up", "-f", path, "--approvers", filepath.Join(dir, "wrong.yaml"))
	if code != ExitUsage || !strings.Contains(errs, "short") {
		t.Errorf("a wrong list: exit code %d, %s", code, errs)
	}
	p := startProgram(t, "up", "-f", path, "--approvers", filepath.Join(dir, "approvers.yaml"))
	const said = "calls of workspace default are approved at "
	p.errs.await(t, said)
	_, url, _ := strings.Cut(p.errs.text(), said)
	url, _, _ = strings.Cut(url, "\n")
	c := client.New(url, ann)
	defer c.Close()
	var list api.EffectList
	eventually(t, "a call that waits", func() (bool, any) {
		var err error
		list, err = c.Effects(t.Context(), client.Page{}) // the agent may not be ready yet
		return len(list.Items) > 0, err
	})
	if _, err := c.ApproveAs(t.Context(), "the-token-of-somebody-else", list.Items[0].Tx, 0, true, ""); err == nil {
		t.Error("who is not in the list has approved")
	}
	if d, err := c.Approve(t.Context(), list.Items[0].Tx, 0, true, ""); err != nil || d.State != "committed" {
		t.Errorf("approved: %+v, %v", d, err)
	}
	if code := p.code(t); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
	if sent, err := os.ReadFile(filepath.Join(dir, "sent.txt")); string(sent) != "eve\n" {
		t.Errorf("sent: %q, %v", sent, err)
	}
}

// A hook that cannot be asked is a mistake before anything is started, said once with its line.
func TestUpCheckHook(t *testing.T) {
	bad := agentsFile(t, `
  - {name: a, command: "true"}
  - {name: b, command: "true", hook: {command: [./nowhere]}}
hook: {command: [no-such-program]}
`)
	code, out, _ := hence(t, "up", "-f", bad, "--check")
	if code != ExitCheck || strings.Count(out, ":7:8: the hook's command: no-such-program: not found in PATH") != 1 ||
		!strings.Contains(out, ":6:39: the hook's command: ./nowhere: not found") {
		t.Errorf("exit code %d, %s", code, out)
	}
	code, out, errs := hence(t, "up", "-f", bad, "--data-dir", filepath.Join(filepath.Dir(bad), "data"))
	if _, err := os.Stat(filepath.Join(filepath.Dir(bad), "data")); code != ExitFailed || out != "" || err == nil ||
		!strings.Contains(errs, ":7:8: the hook's command: no-such-program: not found in PATH: name a program that is") {
		t.Errorf("exit code %d, %s%s, its data: %v", code, out, errs, err)
	}
	both := agentsFile(t, "  - {name: a, command: x, hook: {url: http://127.0.0.1:1, command: [y]}}\n")
	if code, out, _ := hence(t, "up", "-f", both, "--check"); code != ExitCheck || !strings.Contains(out, "keep one") {
		t.Errorf("exit code %d, %s", code, out)
	}
	fine := agentsFile(t, "  - {name: a, command: \"true\"}\n")
	for flags, want := range badHooks {
		code, _, errs := hence(t, append([]string{"up", "-f", fine}, strings.Fields(flags)...)...)
		if code != ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %q is not in %s", flags, code, want, errs)
		}
	}
	code, out, _ = hence(t, "config", "print", "up", "--hook-url", "http://me:pass@h/ask")
	if code != ExitOK || !strings.Contains(out, "--hook-url") || strings.Contains(out, "pass@") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// A signal reaches all agents; the table is printed nonetheless. Those that do not end in time are killed, and at once
// with the second signal.
func TestUpSignals(t *testing.T) {
	obedient := `trap 'echo bye; exit 0' INT TERM; echo ready; while :; do sleep 0.01; done`
	deaf := `trap '' INT TERM; echo ready; while :; do sleep 1; done`
	path := agentsFile(t, fmt.Sprintf("  - {name: a, command: %q}\n  - {name: b, command: %q, restart: on-failure}\n",
		obedient, deaf))
	for _, c := range []struct {
		grace   string
		signals []syscall.Signal
		code    int
	}{{"100ms", []syscall.Signal{syscall.SIGTERM}, 143}, {"1h", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 130}} {
		p := startProgram(t, "up", "-f", path, "--grace", c.grace)
		p.out.await(t, "a | ready")
		p.out.await(t, "b | ready")
		for _, s := range c.signals {
			p.signal(t, s)
			p.out.await(t, "a | bye")
			p.errs.await(t, "a | hence: ended: exit code 0") // before the next one, which kills
		}
		code := p.code(t)
		out := p.out.text()
		if code != c.code || !strings.Contains(out, "b      137   0") || !strings.Contains(out, "a      0     0") ||
			strings.Contains(out, "\x1b") {
			t.Errorf("grace %s: exit code %d, want %d\n%s", c.grace, code, c.code, out)
		}
	}
}

// What is wrong with a file is said with its line, before anything is started; --check says no more.
func TestUpCheck(t *testing.T) {
	bad := agentsFile(t, `
  - {name: a, command: [no-such-program]}
  - {name: b, command: x, dir: nowhere}
  - {name: c, command: "true", policy: nothing.yaml}
`)
	wants := []string{":5:6: agent a: no-such-program: not found in PATH", ":6:6: agent b: its folder", "mkdir -p",
		":7:6: agent c: its policy: read the policy"}
	code, out, errs := hence(t, "up", "-f", bad, "--check")
	runs, _, said := hence(t, "up", "-f", bad)
	for _, want := range wants {
		if !strings.Contains(out, want) || !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s\nand\n%s", want, out, said)
		}
	}
	if code != ExitCheck || errs != "" || runs != ExitFailed {
		t.Errorf("exit codes %d and %d, %s", code, runs, errs)
	}
	misspelt := agentsFile(t, "  - {name: a, comand: x, command: y}\n")
	code, out, _ = hence(t, "up", "-f", misspelt, "--check", "-o", "json")
	if code != ExitCheck || !strings.Contains(out, `"line":4`) || !strings.Contains(out, "did you mean") {
		t.Errorf("exit code %d, %s", code, out)
	}
	code, _, errs = hence(t, "up", "-f", misspelt)
	if code != ExitFailed || !strings.Contains(errs, "did you mean") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if code, out, _ := hence(t, "up", "--schema"); code != ExitOK || !json.Valid([]byte(out)) {
		t.Errorf("the schema: exit code %d, %s", code, out)
	}
	if code, _, errs = hence(t, "up", "-f", "nowhere.yaml"); code != ExitFailed || !strings.Contains(errs, "-f") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// The example does what it says: no increment is lost.
func TestUpExample(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the example's agents call their sidecars with curl: install curl")
	}
	example := filepath.FromSlash("../../../../docs/examples/agents.yaml")
	if code, out, errs := hence(t, "up", "-f", example, "--check"); code != ExitOK {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	p := startProgram(t, "up", "-f", example)
	if code := p.code(t); code != ExitOK || p.out.count(" became 10") != 1 || p.out.count(" became ") != 10 {
		t.Errorf("exit code %d\n%s", code, p.out.text())
	}
}

// Each program is told where its sidecar serves MCP servers and models, in a workspace of its own, too; what the file
// says of a variable wins.
func TestUpServes(t *testing.T) {
	path := agentsFile(t, `
  - name: one
    command: 'echo "mcp $HENCE_MCP_URL"; grep -o "http:[^\"]*" $HENCE_MCP_CONFIG; echo "model $OPENAI_BASE_URL"'
  - {name: two, workspace: other, env: {OPENAI_BASE_URL: own}, command: 'echo "mcp $HENCE_MCP_URL $OPENAI_BASE_URL"'}
`)
	servers := filepath.Join(filepath.Dir(path), "mcp.json")
	if err := os.WriteFile(servers, []byte(`{"mcpServers": {"notes": {"command": "cat"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := hence(t, "up", "-f", path, "--mcp", servers, "--llm", "openai=http://127.0.0.1:1")
	got := regexp.MustCompile(`(?s)one \| mcp (http://\S+)/mcp\n.*one \| (http:\S+)/mcp\n.*` +
		`one \| model (http://[\d.:]+)/llm/\w+/openai/v1\n`).FindStringSubmatch(out)
	if code != ExitOK || got == nil || got[1] != got[2] || got[1] != got[3] {
		t.Errorf("exit code %d, %q in %s%s", code, got, out, errs)
	}
	other := regexp.MustCompile(`two +\| mcp (http\S+)/mcp own\n`).FindStringSubmatch(out)
	if other == nil || got != nil && other[1] == got[1] {
		t.Errorf("the agent of the other workspace is told %q: %s", other, out)
	}
	if code, _, errs := hence(t, "up", "-f", path, "--llm", "nobody"); code != ExitUsage {
		t.Errorf("a provider that is none: exit code %d, %s", code, errs)
	}
}
