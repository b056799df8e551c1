package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/dryrun"
	"github.com/hence-dev/hence/sidecar/client"
)

const dryPolicy = `version: 1
server: notes
files: {root: ROOT}
tools:
  - {tool: post, class: irreversible, scopes: ["board:/main"], file: {op: append, path: board, content: "{line}\n"}}
`

// The policy that a log's calls were made under takes them as they were; another one refuses some, and takes some
// otherwise.
func TestPolicyDryRun(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "ROOT", root)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := write("own.yaml", dryPolicy)
	dev := startDev(t, "--policy", own)
	c := client.New(dev.URL, dev.Token)
	defer c.Close()
	for _, line := range []string{"a", "b"} {
		if _, err := c.Do(t.Context(), "post", map[string]string{"line": line}, client.EffectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"policy", "dry-run", "-o", "json"}
	for _, one := range []struct {
		name, from, to       string
		code                 int
		same, other, refused int
	}{
		{"own.yaml", "", "", ExitOK, 2, 0, 0},
		{"class.yaml", "class: irreversible", "class: known_outcome, keyed: true", ExitCheck, 0, 2, 0},
		{"scopes.yaml", "board:/main", "board:/{line}", ExitCheck, 0, 2, 0},
		{"approve.yaml", "class: irreversible", "class: irreversible, approve: required", ExitOK, 2, 0, 0},
		{"none.yaml", "tool: post", "tool: other", ExitCheck, 0, 0, 2},
		{"argument.yaml", "content: \"{line}\\n\"", "content: \"{text}\\n\"", ExitCheck, 0, 0, 2},
	} {
		code, out, errs := hence(t, append(args, write(one.name, strings.Replace(dryPolicy, one.from, one.to, 1)))...)
		var r dryrun.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != one.code || len(r.Tools) != 1 {
			t.Errorf("%s: exit code %d, %v, %s%s", one.name, code, err, out, errs)
			continue
		}
		got := r.Tools[0]
		if got.Calls != 2 || got.Same != one.same || got.Other != one.other || got.Refused != one.refused ||
			(got.Approve > 0) != (one.name == "approve.yaml") || len(r.Differs) != one.other+one.refused {
			t.Errorf("%s: %s", one.name, out)
		}
	}
	code, out, _ := hence(t, "policy", "dry-run", filepath.Join(root, "scopes.yaml"), "--limit", "1")
	for _, want := range []string{"was irreversible of board:/main", "would be irreversible of board:/a", "1 more"} {
		if code != ExitCheck || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %q is not in %s", code, want, out)
		}
	}
	if code, _, errs := hence(t, "policy", "dry-run", own, "--workspace", "other"); code != ExitOK {
		t.Errorf("a workspace without a call: exit code %d, %s", code, errs)
	}
}
