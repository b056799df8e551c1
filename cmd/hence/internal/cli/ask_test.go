package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
)

// sidecarStub answers each "METHOD path" with a value, and everything else with a problem.
func sidecarStub(t *testing.T, answers map[string]any) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			value = api.Problem{Code: "not_found", Status: 404, Detail: "there is nothing at " + r.URL.Path}
		}
		if p, bad := value.(api.Problem); bad {
			w.WriteHeader(p.Status)
		}
		if err := json.NewEncoder(w).Encode(value); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The cone is a tree: each member below the one that it follows from, with what is undone and what has left.
func TestRetractTree(t *testing.T) {
	url := sidecarStub(t, map[string]any{"POST /v1/tx/a.1.1/retract": api.Retraction{Tx: "a.1.1",
		State: api.RetractPossible, Total: 4, Through: 9, Cone: []api.ConeMember{
			{Tx: "c.3.1", Agent: "c", Seq: 8, Depth: 2, Why: "overwrote", Of: "b.2.1", At: "order:/1"},
			{Tx: "b.2.1", Agent: "b", Seq: 6, Depth: 1, Why: "read_from", Of: "a.1.1", At: "shard:/x",
				Restored: []api.ShardRestored{{Scope: "shard:/y", Absent: true}}},
			{Tx: "a.1.1", Agent: "a", Seq: 4, Effects: []api.ConeEffect{{Tool: "mail", Fate: api.FateLeft}}}}}})
	code, out, errs := hence(t, "retract", "a.1.1", "--dry-run", "--url", url)
	if code != ExitOK || errs != "" {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	at := -1
	for _, line := range []string{"would undo 4", "\n  a.1.1", "HAS LEFT FOR GOOD", "\n      b.2.1", "read_from shard:/x",
		"shard:/y is taken away", "\n          c.3.1", "and 1 more"} {
		next := strings.Index(out, line)
		if next <= at {
			t.Errorf("%q is not there, or out of order:\n%s", line, out)
		}
		at = next
	}
	code, out, _ = hence(t, "retract", "a.1.1", "-o", "json", "--url", url)
	var got api.Retraction
	if err := json.Unmarshal([]byte(out), &got); code != ExitOK || err != nil || len(got.Cone) != 3 {
		t.Errorf("as JSON: %d, %v, %s", code, err, out)
	}
	code, _, errs = hence(t, "retract", "b.9.9", "--url", url)
	if code != ExitFailed || !strings.Contains(errs, "not_found") {
		t.Errorf("refused: %d, %s", code, errs)
	}
}

// The commands about residue and rules are the sidecar's routes.
func TestResidueAndRules(t *testing.T) {
	one := api.Residue{Tx: "a.1.1", Index: 2, Tool: "mail", Result: "leaked", State: "open", Detail: "it has left",
		Tries: 1}
	changed := api.Residue{Tx: "a.1.1", Index: 4, Tool: "pay", Result: "partial", State: "open",
		Detail: "it did not leave", Code: "changed_tool", Args: []byte(`{"cents":7}`)}
	rules := api.Rules{Version: 3, Logic: 2, Levels: "L4", HorizonSeqs: 1000}
	url := sidecarStub(t, map[string]any{
		"GET /v1/residue":                  api.ResidueList{Items: []api.Residue{one, changed}},
		"POST /v1/residue/a.1.1/2/accept":  one,
		"POST /v1/residue/a.1.1/2/retry":   api.Problem{Code: "no_key", Status: 409, Detail: "it may happen twice"},
		"POST /v1/residue/a.1.1/4/retry":   api.Problem{Code: "changed_tool", Status: 409, Detail: "it was not called"},
		"GET /v1/workspaces/default/rules": rules,
		"PUT /v1/workspaces/default/rules": rules,
		"GET /v1/workspaces/shop/rules":    rules,
	})
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"residue ls":                             {ExitOK, "mail"},
		"residue ls --limit 0":                   {ExitUsage, "1 to 1000"},
		"residue ls -o json":                     {ExitOK, `"result":"leaked"`},
		"residue show a.1.1 2":                   {ExitOK, "it has left"},
		"residue ls --state open":                {ExitOK, "changed_tool"},
		"residue show a.1.1 4":                   {ExitOK, `args   {"cents":7}`},
		"residue retry a.1.1 4":                  {ExitFailed, "--changed-tool"},
		"residue show a.1.1 3":                   {ExitFailed, "not on the list"},
		"residue retry a.1.1 2":                  {ExitFailed, "--force"},
		"residue accept a.1.1 2":                 {ExitUsage, "--note"},
		"residue accept a.1.1 2 --note ok":       {ExitOK, "mail"},
		"rules get":                              {ExitOK, "undo horizon: 1000 seqs"},
		"rules get --workspace shop -o json":     {ExitOK, `"version":3`},
		"rules get --workspace other":            {ExitFailed, "not_found"},
		"rules set":                              {ExitUsage, "no rule to change is given"},
		"rules set --horizon-seqs 1000":          {ExitOK, "version 3"},
		"rules set --if-version 3 --no-observe":  {ExitOK, "version 3"},
		"rules set --horizon-seqs many":          {ExitUsage, "many"},
		"residue retry a.1.1 two":                {ExitUsage, "two"},
		"rules set --if-version 3 --levels L2":   {ExitOK, "version 3"},
		"rules set --lease-ticks 80 --cap-seq 1": {ExitUsage, "--cap-seq"},
	} {
		code, out, errs := hence(t, append(strings.Fields(line), "--url", url)...)
		if code != want.code || !strings.Contains(out+errs, want.text) {
			t.Errorf("hence %s: exit code %d\n%s%s", line, code, out, errs)
		}
	}
}
