package agent

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// ask sends one request with a token, or without any, and reads the problem that it is answered with.
func ask(t *testing.T, method, url, token, body string) (*http.Response, api.Problem) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	resp := must(http.DefaultClient.Do(r))(t)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text := must(io.ReadAll(resp.Body))(t)
	var p api.Problem
	if resp.Header.Get("Content-Type") == "application/problem+json" {
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
	}
	return resp, p
}

// Another agent's transaction can be looked at and its retraction asked for; all else is refused.
func TestOtherAgent(t *testing.T) {
	log := newLog()
	other := start(t, "b", log.Door())
	theirs := must(other.client.Begin(background(t), client.BeginOptions{}))(t)
	r := start(t, "a", log.Door())
	free := map[string]bool{"explain": true, "closure": true, "retract": true}
	bodies := map[string]string{"read": `{"scope":"shard:/x"}`, "write": `{"scope":"shard:/x","content":"1"}`,
		"touch": `{"wants":[{"scope":"db:/x","access":"write"}]}`, "effect": `{"tool":"n","args":{}}`,
		"settlement": `{"none_else":true}`, "plan": `{"calls":["a"]}`}
	seen := 0
	for _, route := range must(loadDocument())(t).Operations() {
		if !strings.HasPrefix(route.Path, "/v1/tx/") || free[route.ID] {
			continue
		}
		body := bodies[route.ID]
		if body == "" && route.Method == http.MethodPost {
			body = "{}"
		}
		path := strings.ReplaceAll(route.Path, "{tx}", theirs.ID())
		resp, p := ask(t, route.Method, r.URL()+path, "Bearer "+r.Token(), body)
		if resp.StatusCode != http.StatusForbidden || p.Code != api.CodeOtherAgent || p.Retryable ||
			!strings.Contains(p.Detail, "is a transaction of agent b, and the request is of agent a") {
			t.Errorf("%s: %d %+v", route.ID, resp.StatusCode, p)
		}
		seen++
	}
	if seen < 10 {
		t.Errorf("only %d routes were tried", seen)
	}
	resp, p := ask(t, http.MethodPost, other.URL()+"/v1/tx/"+theirs.ID()+"/abort", "Bearer "+r.Token(), "")
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("one sidecar's token at another one: %d %+v", resp.StatusCode, p)
	}
}
