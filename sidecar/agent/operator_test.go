package agent

import (
	"net/http"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// What concerns other agents takes the operator's token, all else either; a sidecar with one token has both roles in
// it.
func TestOperatorOnly(t *testing.T) {
	const operator = "the-operator's-own-token"
	r := start(t, "a", newLog().Door(), func(c *setup) { c.OperatorToken = operator })
	alone := start(t, "b", newLog().Door())
	only := map[string]string{"set_rules": `{"observe":true}`, "retract": `{}`, "accept_residue": `{"note":"n"}`,
		"retry_residue": `{}`}
	seen := 0
	for _, route := range r.face.Routes {
		if route.Public || route.Name == "decisions" {
			continue
		}
		body := "{}"
		if text, ok := only[route.Name]; ok {
			body = text
			seen++
		}
		path := filled(route.Pattern, "z.1.1")
		resp, p := ask(t, route.Method, r.URL()+path, "Bearer "+r.Token(), body)
		if _, ok := only[route.Name]; ok != (p.Code == api.CodeOperatorOnly) ||
			ok && (resp.StatusCode != http.StatusForbidden || p.Retryable) {
			t.Errorf("%s with the agent's token: %d %+v", route.Name, resp.StatusCode, p)
		}
		for token, at := range map[string]*rig{operator: r, alone.Token(): alone} {
			resp, p := ask(t, route.Method, at.URL()+path, "Bearer "+token, body)
			if p.Code == api.CodeOperatorOnly || resp.StatusCode == http.StatusUnauthorized {
				t.Errorf("%s with the token of both roles: %d %+v", route.Name, resp.StatusCode, p)
			}
		}
	}
	if seen != len(only) {
		t.Errorf("of %v only %d are routes", only, seen)
	}
	if _, p := ask(t, http.MethodPost, r.URL()+"/v1/tx/z.1.1/retract", "Bearer "+r.Token(), `{"dry_run":true}`); p.Code ==
		api.CodeOperatorOnly {
		t.Errorf("what a retraction would undo is for the agent, too: %+v", p)
	}
	if resp, p := ask(t, http.MethodGet, r.URL()+"/v1/residue", "Bearer "+operator+"x", ""); resp.StatusCode !=
		http.StatusUnauthorized {
		t.Errorf("a wrong token: %d %+v", resp.StatusCode, p)
	}
	person := client.New(r.URL(), operator)
	defer person.Close()
	observe := true
	now := must(person.Rules(background(t)))(t)
	if got := must(person.SetRules(background(t), now.Version, client.RulesChange{Observe: &observe}))(t); !got.Observe {
		t.Errorf("the operator's change: %+v", got)
	}
}
