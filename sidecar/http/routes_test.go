package http

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

const inDefault = "/v1/workspaces/default"

// row is one request and what is answered.
type row struct {
	route              string // its name; empty: none
	method, path, body string
	header             []string
	set                func(*fake) // before
	status             int
	code               string            // of the problem; empty: it is none
	answer             map[string]string // headers of the answer
	asks               string            // the methods of the agent and the workspace that are asked
}

func (r row) run(t *testing.T) {
	f := newFaced(t)
	if r.set != nil {
		r.set(f.fake)
	}
	resp, text := f.do(r.method, r.path, r.body, r.header...)
	var p api.Problem
	if resp.Header.Get("Content-Type") == "application/problem+json" {
		if err := json.Unmarshal([]byte(text), &p); err != nil || p.Status != resp.StatusCode || p.Detail == "" {
			t.Errorf("the problem is %s", text)
		}
	}
	if resp.StatusCode != r.status || p.Code != r.code {
		t.Errorf("%s %s %.60s: %d %q, want %d %q: %.200s", r.method, r.path, r.body, resp.StatusCode, p.Code, r.status,
			r.code, text)
	}
	for name, want := range r.answer {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s %s: %s is %q, want %q", r.method, r.path, name, got, want)
		}
	}
	if got := f.calls(); got != r.asks {
		t.Errorf("%s %s asks %q, want %q", r.method, r.path, got, r.asks)
	}
	if name := routeOf(f.face, r.method, r.path); name != r.route {
		t.Errorf("%s %s is the route %q, want %q", r.method, r.path, name, r.route)
	}
}

// routeOf is the name of the route that takes a request; empty: none.
func routeOf(f *Face, method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	if one, _, _ := f.find(method, path); one != nil {
		return one.name
	}
	return ""
}

// TestRoutes holds of each route what it asks for and how it answers that: which status, which headers.
func TestRoutes(t *testing.T) {
	rows := slices.Concat(shardRows(), txRows(), listRows(), otherRows())
	seen := map[string]bool{"metrics": true, "decisions": true, "anomalies": true} // TestMetricsRoute, TestStream
	for _, r := range rows {
		t.Run(strings.TrimSpace(r.route+" "+r.code), r.run)
		if r.status < http.StatusMultipleChoices {
			seen[r.route] = true
		}
	}
	for _, one := range (&Face{}).table() {
		if !seen[one.name] {
			t.Errorf("no row has the route %s succeed", one.name)
		}
	}
}

// in sets the state of the decision that a fake answers.
func in(state string) func(*fake) {
	return func(f *fake) { f.decision.State, f.decision.Final = state, state == api.StateCommitted }
}

func stale(f *fake) {
	f.decision.State, f.decision.Code = api.StateAborted, string(sequencer.CodeStaleRead)
}

func failing(code string) func(*fake) {
	return func(f *fake) { f.fails = api.Problemf(code, "no") }
}

func shardRows() []row {
	const x = inDefault + "/shards/x"
	etag := func(version string) map[string]string { return map[string]string{"Etag": version} }
	return []row{
		{route: "read_shard", method: "GET", path: x, status: 200, asks: "Get", answer: map[string]string{"Etag": `"5"`,
			"Hence-Version": "5", "Hence-View": "9", "Hence-Writer": "b.1.1", "Content-Type": "text/plain",
			"Content-Length": "4", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}},
		{route: "read_shard", method: "HEAD", path: x, status: 200, asks: "Get", answer: map[string]string{"Etag": `"5"`,
			"Content-Length": "4"}},
		{route: "read_shard", method: "GET", path: x + "?look=true", status: 200, asks: "Look"},
		{route: "read_shard", method: "GET", path: x + "?version=3", status: 200, asks: "Get", answer: etag(`"3"`)},
		{route: "read_shard", method: "GET", path: x + "?versions=true", status: 200, asks: "Versions"},
		{route: "read_shard", method: "GET", path: x, header: []string{"If-None-Match", `"4", W/"5"`}, status: 304,
			asks: "Get", answer: map[string]string{"Etag": `"5"`, "Content-Type": "", "Content-Length": ""}},
		{route: "read_shard", method: "GET", path: x, header: []string{"If-None-Match", `"4"`}, status: 200, asks: "Get"},
		{route: "read_shard", method: "GET", path: x, set: func(f *fake) { f.content.Version = 0 }, status: 404,
			code: api.CodeNotFound, asks: "Get"},
		{route: "read_shard", method: "GET", path: x, set: func(f *fake) { f.content.MediaType = "a\nb" }, status: 200,
			asks: "Get", answer: map[string]string{"Content-Type": api.DefaultMedia}},
		{route: "read_shard", method: "GET", path: x + "?versions=true&version=1", status: 400, code: api.CodeBadRequest},
		{route: "read_shard", method: "GET", path: x + "?version=0", status: 400, code: api.CodeBadRequest},
		{route: "read_shard", method: "GET", path: x + "?look=yes", status: 400, code: api.CodeBadRequest},
		{route: "read_shard", method: "GET", path: inDefault + "/shards/", status: 400, code: api.CodeBadScope},
		{route: "write_shard", method: "PUT", path: x, body: "1", status: 201, asks: "Put",
			answer: map[string]string{"Etag": `"7"`, "Hence-Version": "7"}},
		{route: "write_shard", method: "PUT", path: x, body: "1", set: func(f *fake) { f.fresh = false }, status: 200,
			asks: "Put", answer: etag(`"7"`)},
		{route: "write_shard", method: "PUT", path: x, body: "1", set: in(api.StateSealed), status: 202, asks: "Put",
			answer: etag("")},
		{route: "write_shard", method: "PUT", path: x, body: "1", set: stale, status: 409,
			code: string(sequencer.CodeStaleRead), asks: "Put"},
		{route: "write_shard", method: "PUT", path: x, header: []string{"If-Match", `"4"`},
			set: failing(string(sequencer.CodeVersionMismatch)), status: 412, code: string(sequencer.CodeVersionMismatch),
			asks: "Put"},
		{route: "write_shard", method: "PUT", path: x, set: failing(string(sequencer.CodeVersionMismatch)), status: 409,
			code: string(sequencer.CodeVersionMismatch), asks: "Put"},
		{route: "write_shard", method: "PUT", path: x + "?wait_ms=30001", status: 400, code: api.CodeBadRequest},
		{route: "list_shards", method: "GET", path: inDefault + "/shards?prefix=a&limit=1&look=true", status: 200,
			asks: "List"},
		{route: "list_shards", method: "GET", path: inDefault + "/shards?limit=1001", status: 400,
			code: api.CodeBadRequest},
		{method: "DELETE", path: x, status: 405, code: api.CodeMethod, answer: map[string]string{"Allow": "GET, PUT"}},
	}
}

func txRows() []row {
	const tx = "/v1/tx/a.1.1"
	located := map[string]string{"Location": tx}
	return []row{
		{route: "begin", method: "POST", path: inDefault + "/tx", status: 201, asks: "Begin", answer: located},
		{route: "begin", method: "POST", path: inDefault + "/tx", body: `{"mode":1}`, status: 400,
			code: api.CodeBadRequest},
		{route: "begin", method: "POST", path: inDefault + "/tx", set: failing(api.CodeLimit), status: 429,
			code: api.CodeLimit, asks: "Begin", answer: map[string]string{"Retry-After": "1"}},
		{route: "begin", method: "POST", path: "/v1/workspaces/other/tx", status: 404, code: api.CodeUnknownWorkspace},
		{route: "status", method: "GET", path: tx + "?wait_ms=5", status: 200, asks: "Status"},
		{route: "status", method: "GET", path: tx, set: failing(api.CodeOtherAgent), status: 403, code: api.CodeOtherAgent,
			asks: "Status"},
		{route: "read", method: "POST", path: tx + "/reads", body: `{"scope":"shard:/x"}`, status: 200, asks: "Read"},
		{route: "read", method: "POST", path: tx + "/reads", body: `{"scope":"mail:/x","announce":true}`, status: 200,
			set: func(f *fake) { f.announced = true }, asks: "Read"},
		{route: "read", method: "POST", path: tx + "/reads", status: 400, code: api.CodeBadRequest},
		{route: "write", method: "POST", path: tx + "/writes", body: `{"scope":"shard:/x","content":""}`, status: 200,
			asks: "Write"},
		{route: "touch", method: "POST", path: tx + "/touches", body: `{"wants":[]}`, status: 200, asks: "Touch"},
		{route: "touch", method: "POST", path: tx + "/touches", body: `{"wants":[]}`, status: 202, asks: "Touch",
			set: func(f *fake) { f.touched = api.TouchWaiting }},
		{route: "settlement", method: "POST", path: tx + "/settlement", body: `{"none_else":true}`, status: 200,
			asks: "Settle"},
		{route: "settlement", method: "POST", path: tx + "/settlement", body: `{"none_else":true}`, status: 202,
			set: in(api.StateAborted), asks: "Settle"},
		{route: "plan", method: "POST", path: tx + "/plan", body: `{"calls":["a","b"]}`, status: 200, asks: "Plan"},
		{route: "plan", method: "POST", path: tx + "/plan", body: `{"calls":["a"]}`, set: failing(api.CodeBadRequest),
			status: 400, code: api.CodeBadRequest, asks: "Plan"},
		{route: "effect", method: "POST", path: tx + "/effects", body: `{"tool":"mail","args":{}}`, status: 200,
			asks: "Effect"},
		{route: "effect", method: "POST", path: tx + "/effects", body: `{"tool":"mail"}`, set: failing(api.CodeNoPolicy),
			status: 422, code: api.CodeNoPolicy, asks: "Effect"},
		{route: "effects", method: "GET", path: tx + "/effects", status: 200, asks: "Effects"},
		{route: "seal", method: "POST", path: tx + "/seal", status: 200, asks: "Seal"},
		{route: "seal", method: "POST", path: tx + "/seal", body: `{"pins":[]}`, set: in(api.StateSealed), status: 202,
			asks: "Seal"},
		{route: "seal", method: "POST", path: tx + "/seal", set: stale, status: 409,
			code: string(sequencer.CodeStaleRead), asks: "Seal"},
		{route: "seal", method: "POST", path: tx + "/seal?wait_ms=x", status: 400, code: api.CodeBadRequest},
		{route: "abort", method: "POST", path: tx + "/abort", body: `{"reason":"r"}`, status: 200, asks: "Abort"},
		{route: "retry", method: "POST", path: tx + "/retry", status: 201, asks: "Retry", answer: located},
		{route: "retry", method: "POST", path: tx + "/retry", set: func(f *fake) { f.fresh = false }, status: 200,
			asks: "Retry", answer: located},
		{route: "retract", method: "POST", path: tx + "/retract", body: `{"dry_run":true}`, status: 200, asks: "Retract"},
		{route: "retract", method: "POST", path: tx + "/retract", header: asOperator(), status: 202, asks: "Retract"},
		{route: "retract", method: "POST", path: tx + "/retract", status: 403, code: api.CodeOperatorOnly},
		{route: "explain", method: "GET", path: tx + "/explain", status: 200, asks: "Explain"},
		{route: "closure", method: "GET", path: tx + "/closure?limit=3", status: 200, asks: "Closure"},
		{route: "closure", method: "GET", path: tx + "/closure?limit=0", status: 400, code: api.CodeBadRequest},
		{route: "one_shot", method: "POST", path: "/v1/effects", body: `{"tool":"get","args":{}}`, status: 200,
			asks: "OneShot"},
		{route: "one_shot", method: "POST", path: "/v1/effects", body: `{"tool":"get","args":{}}`, status: 202,
			set: in(api.StateSealed), asks: "OneShot"},
		{route: "one_shot", method: "POST", path: "/v1/effects", body: `{"tool":"get","args":{}}`, status: 409,
			set: stale, code: string(sequencer.CodeStaleRead), asks: "OneShot"},
		{route: "begin_group", method: "POST", path: inDefault + "/groups", body: `{"branches":2}`, status: 201,
			asks: "BeginGroup"},
		{route: "select", method: "POST", path: inDefault + "/groups/g/select", body: `{"tx":"a.1.1"}`, status: 200,
			asks: "Select"},
	}
}

func listRows() []row {
	return []row{
		{route: "list_tx", method: "GET", path: inDefault + "/tx?state=open&agent=a&code=c", status: 200,
			asks: "Transactions"},
		{route: "list_tx", method: "GET", path: inDefault + "/tx?state=opne", status: 400, code: api.CodeBadRequest},
		{route: "list_effects", method: "GET", path: inDefault + "/effects?state=held", status: 200, asks: "Calls"},
		{route: "list_effects", method: "GET", path: inDefault + "/effects?state=hold", status: 400,
			code: api.CodeBadRequest},
		{route: "list_agents", method: "GET", path: inDefault + "/agents", status: 200, asks: "Agents"},
		{route: "list_tools", method: "GET", path: inDefault + "/tools?server=s", status: 200, asks: "Tools"},
		{route: "residue", method: "GET", path: "/v1/residue?state=open&result=leaked&tool=t", status: 200,
			asks: "Residue"},
		{route: "chain", method: "GET", path: inDefault + "/chain?from=1", status: 200, asks: "Chain"},
		{route: "chain", method: "GET", path: inDefault + "/chain?from=-1", status: 400, code: api.CodeBadRequest},
		{route: "level", method: "GET", path: inDefault + "/level", status: 200, asks: "Level"},
		{route: "frontier", method: "GET", path: inDefault + "/frontier?prefix=shard:/", status: 200, asks: "Frontier"},
	}
}

func otherRows() []row {
	const rules = inDefault + "/rules"
	third := map[string]string{"Etag": `"3"`}
	return []row{
		{route: "healthz", method: "GET", path: "/healthz", header: []string{"Authorization", "-"}, status: 200},
		{route: "healthz", method: "HEAD", path: "/healthz", header: []string{"Authorization", "-"}, status: 200},
		{route: "readyz", method: "GET", path: "/readyz", header: []string{"Authorization", "-"}, status: 200},
		{route: "openapi_json", method: "GET", path: "/v1/openapi.json", header: []string{"Authorization", "-"},
			status: 200, answer: map[string]string{"Content-Type": "application/json"}},
		{route: "openapi_yaml", method: "GET", path: "/v1/openapi.yaml", header: []string{"Authorization", "-"},
			status: 200, answer: map[string]string{"Content-Type": "application/yaml"}},
		{route: "read_all", method: "POST", path: inDefault + "/reads", body: `{"scopes":["shard:/x"]}`, status: 200,
			asks: "ReadAll"},
		{route: "commit", method: "POST", path: inDefault + "/commit", body: `{}`, status: 200, asks: "Commit"},
		{route: "offers", method: "GET", path: "/v1/tools", status: 200},
		{route: "list_mcp", method: "GET", path: "/v1/mcp", status: 200},
		{route: "read_shard", method: "GET", path: inDefault + "/shards/x?wait_ms=1", header: []string{"If-None-Match",
			`"5"`},
			status: 304, asks: "Get"},
		{route: "read_shard", method: "GET", path: inDefault + "/shards/x?wait_ms=1", status: 400, code: api.CodeBadRequest},
		{route: "end_session", method: "DELETE", path: inDefault + "/session", header: []string{"Hence-Session", "p"},
			status: 200, asks: "EndSession"},
		{route: "rules", method: "GET", path: rules, status: 200, asks: "Rules", answer: third},
		{route: "set_rules", method: "PUT", path: rules, body: `{"observe":true}`, header: asOperator("If-Match", `"2"`),
			status: 200, asks: "SetRules", answer: third},
		{route: "set_rules", method: "PUT", path: rules, body: `{"observe":true}`, header: asOperator("If-Match", `2`),
			status: 400, code: api.CodeBadRequest},
		{route: "set_rules", method: "PUT", path: rules, body: `{"observe":true}`, header: asOperator("If-Match", `"2"`),
			set: failing(string(sequencer.CodeVersionMismatch)), status: 412, code: string(sequencer.CodeVersionMismatch),
			asks: "SetRules"},
		{route: "set_rules", method: "PUT", path: rules, body: `{"observe":true}`, header: []string{"If-Match", `"2"`},
			status: 403, code: api.CodeOperatorOnly},
		{route: "put_tool", method: "PUT", path: "/v1/tools/a%2Fb", body: `{"signature":"s"}`, status: 200,
			asks: "SetTool /a/b"},
		{route: "delete_tool", method: "DELETE", path: "/v1/tools/n?server=s", status: 200, asks: "withdraw s/n"},
		{route: "accept_residue", method: "POST", path: "/v1/residue/a.1.1/0/accept", body: `{"note":"n"}`,
			header: asOperator(), status: 200, asks: "AcceptResidue"},
		{route: "accept_residue", method: "POST", path: "/v1/residue/a.1.1/0/accept", body: `{"note":"n"}`, status: 403,
			code: api.CodeOperatorOnly},
		{route: "retry_residue", method: "POST", path: "/v1/residue/a.1.1/0/retry", header: asOperator(), status: 200,
			asks: "RetryResidue"},
		{route: "retry_residue", method: "POST", path: "/v1/residue/a.1.1/0/retry", status: 403,
			code: api.CodeOperatorOnly},
		{route: "approve_effect", method: "POST", path: "/v1/effects/a.1.1/0/approve", header: asApprover(), status: 200,
			asks: "approve 0 by ann"},
		{route: "deny_effect", method: "POST", path: "/v1/effects/a.1.1/0/deny", header: asApprover(), status: 200,
			asks: "deny 0 by ann"},
		{route: "approve_effect", method: "POST", path: "/v1/effects/a.1.1/0/approve", status: 403,
			code: api.CodeApproverOnly},
		{route: "deny_effect", method: "POST", path: "/v1/effects/a.1.1/0/deny", header: asOperator(), status: 403,
			code: api.CodeApproverOnly},
		{route: "approve_effect", method: "POST", path: "/v1/effects/a.1.1/0/approve", header: asApprover(),
			body: `{"by":"bob"}`, status: 400, code: api.CodeBadRequest},
		{route: "begin", method: "POST", path: inDefault + "/tx", body: `{}`, header: asApprover(), status: 403,
			code: api.CodeApproverOnly},
		{route: "read_shard", method: "GET", path: inDefault + "/shards/x", header: asApprover(), status: 403,
			code: api.CodeApproverOnly},
		{route: "set_rules", method: "PUT", path: inDefault + "/rules", body: `{"if_version":1}`, header: asApprover(),
			status: 403, code: api.CodeOperatorOnly},
		{route: "list_effects", method: "GET", path: inDefault + "/effects", header: asApprover(), status: 200,
			asks: "Unapproved"},

		{method: "GET", path: "/", status: 404, code: api.CodeNoRoute},
		{method: "GET", path: "/effects/", status: 404, code: api.CodeNoRoute},
		{method: "POST", path: "/v1/tx/a.1.1", status: 405, code: api.CodeMethod, answer: map[string]string{"Allow": "GET"}},
		{method: "PATCH", path: inDefault + "/rules", status: 405, code: api.CodeMethod,
			answer: map[string]string{"Allow": "GET, PUT"}},
		{route: "list_tools", method: "GET", path: inDefault + "/tools", status: 500, code: api.CodeInternal, asks: "Tools",
			set: func(f *fake) { f.fails = errOdd }},
		{route: "list_tools", method: "GET", path: inDefault + "/tools", status: 503, code: api.CodeJournal, asks: "Tools",
			set: func(f *fake) { f.fails = api.ErrJournal }, answer: map[string]string{"Retry-After": "1"}},
	}
}
