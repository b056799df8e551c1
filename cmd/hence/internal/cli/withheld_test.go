package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const secretPolicy = `version: 1
server: shop
hosts: ["127.0.0.1:1"]
secrets: {pay: {env: SHOP_PAY_TOKEN}, mail: {env: SHOP_MAIL_TOKEN}}
tools:
  - {tool: pay, class: irreversible, args: [id], scopes: ["order:/{id}"], http: {method: POST,
     url: "http://127.0.0.1:1/{id}", headers: {Authorization: "Bearer {$secret.pay}"}}}
`

// TestProgramsGetNoSecrets holds that no program finds in its environment what the secrets of a policy are read from:
// neither its own policy's nor that of an agent beside it. The rest of the environment is as it was.
func TestProgramsGetNoSecrets(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(secretPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHOP_PAY_TOKEN", "tok-9")
	t.Setenv("SHOP_MAIL_TOKEN", "tok-8")
	t.Setenv("SHOP_NAME", "the shop")
	const look = `echo "pay=$SHOP_PAY_TOKEN mail=$SHOP_MAIL_TOKEN name=$SHOP_NAME own=$SHOP_OWN"`
	runFinds(t, "pay= mail= name=the shop own=", look, "--policy", policy)
	path := agentsFile(t, fmt.Sprintf(`
  - {name: pays, policy: %q, command: '%s'}
  - {name: beside, command: '%s', env: {SHOP_OWN: mine, SHOP_MAIL_TOKEN: given}}
`, policy, look, look))
	upFinds(t, []string{"pays   | pay= mail= name=the shop own=\n", "beside | pay= mail=given name=the shop own=mine\n"},
		"-f", path)
}

// runFinds holds what a program finds in its environment that hence run starts with some flags.
func runFinds(t *testing.T, want, look string, flags ...string) {
	t.Helper()
	args := append([]string{"run", "--agent", "a", "--embedded"}, flags...)
	p := startProgram(t, append(args, "--", "sh", "-c", look)...)
	if code := p.code(t); code != 0 || p.out.text() != want {
		t.Errorf("hence run: exit code %d, the program found %q", code, p.out.text())
	}
}

// upFinds holds what the programs of hence up find.
func upFinds(t *testing.T, wants []string, flags ...string) {
	t.Helper()
	code, out, errs := hence(t, append([]string{"up"}, flags...)...)
	for _, want := range wants {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("hence up: exit code %d, %q is not in\n%s%s", code, want, out, errs)
		}
	}
}

// TestProgramsGetNoUpstreamSecrets holds that no program finds in its environment what --mcp takes the env and headers
// of MCP servers from, also where no call is made to them. A variable that every program has is none of these.
func TestProgramsGetNoUpstreamSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{
		"shop":{"url":"http://127.0.0.1:1/mcp","headers":{"Authorization":"Bearer ${SHOP_MCP_TOKEN}"}},
		"stock":{"command":"/no/such/program","env":{"PASSWORD":"${STOCK_PASSWORD:-none}","NAME":"${USER}"}}}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHOP_MCP_TOKEN", "tok-9")
	t.Setenv("STOCK_PASSWORD", "tok-8")
	t.Setenv("USER", "ann")
	const look = `echo "shop=$SHOP_MCP_TOKEN stock=$STOCK_PASSWORD user=$USER"`
	runFinds(t, "shop= stock= user=ann", look, "--mcp", file)
	path := agentsFile(t, fmt.Sprintf(`
  - {name: a, command: '%s'}
  - {name: b, command: '%s', env: {SHOP_MCP_TOKEN: given}}
`, look, look))
	upFinds(t, []string{"a | shop= stock= user=ann\n", "b | shop=given stock= user=ann\n"}, "-f", path, "--mcp", file)
}

// TestMissingSecret holds that a start without a secret that a tool needs is refused before anything is accepted, with
// the tool and its line; a secret that no tool needs may be absent. A check elsewhere only notes it.
func TestMissingSecret(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(secretPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = `policy.yaml:7:63: tool pay: http.headers needs a secret that is not there: "pay": the environment ` +
		`variable SHOP_PAY_TOKEN is not set`
	agents := agentsFile(t, fmt.Sprintf("\n  - {name: pays, policy: %q, command: 'true'}\n", policy))
	for _, start := range [][]string{{"dev", "--random-ports", "--policy", policy},
		{"sidecar", "--agent", "a", "--policy", policy},
		{"run", "--agent", "a", "--embedded", "--policy", policy, "--", "true"}, {"up", "-f", agents}} {
		if code, out, errs := hence(t, start...); code == ExitOK || !strings.Contains(errs, want) || strings.Contains(errs,
			"MAIL") {
			t.Errorf("%s: exit code %d\n%s%s, want %s", start[0], code, out, errs, want)
		}
	}
	if code, out, _ := hence(t, "policy", "lint", policy); code == ExitFailed || !strings.Contains(out, "note: ") ||
		!strings.Contains(out, want) {
		t.Errorf("lint: exit code %d\n%s", code, out)
	}
}
