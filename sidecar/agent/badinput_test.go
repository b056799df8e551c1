package agent

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// rawCall is one request as anybody may send it.
type rawCall struct {
	method, path, body string
	header             map[string]string
}

// send makes a raw request and reads the problem, if it is one.
func (r *rig) send(t *testing.T, c rawCall) (int, *api.Problem, http.Header) {
	t.Helper()
	req, err := http.NewRequest(c.method, r.URL()+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.Token())
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := checked(t, transport).RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	defer resp.Body.Close()
	body := must(io.ReadAll(resp.Body))(t)
	if resp.StatusCode < 400 {
		return resp.StatusCode, nil, resp.Header
	}
	p := &api.Problem{}
	if err := json.Unmarshal(body, p); err != nil || p.Code == "" || p.Detail == "" || p.Type != api.ProblemType(p.Code) {
		t.Errorf("%s %s: %d %s", c.method, c.path, resp.StatusCode, body)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" || p.Status != resp.StatusCode {
		t.Errorf("%s %s: %s, status %d in the header and %d in the body", c.method, c.path, got, resp.StatusCode, p.Status)
	}
	return resp.StatusCode, p, resp.Header
}

// row is one line of the table of bad input.
type row struct {
	call   rawCall
	status int
	code   string
}

const inDefault = "/v1/workspaces/default"

func post(path, body string) rawCall { return rawCall{method: "POST", path: path, body: body} }

func get(path string) rawCall { return rawCall{method: "GET", path: path} }

func put(path string, header ...string) rawCall {
	return with(rawCall{method: "PUT", path: path, body: "x"}, header...)
}

// with adds headers, name by name.
func with(c rawCall, header ...string) rawCall {
	c.header = map[string]string{}
	for i := 0; i < len(header); i += 2 {
		c.header[header[i]] = header[i+1]
	}
	return c
}

// Every route answers bad input with a problem of a stable code.
func TestBadInput(t *testing.T) {
	log := newLog()
	short := func(c *setup) { c.Limits.FutureWait = 20 * time.Millisecond }
	a, b := start(t, "a", log.Door(), short), start(t, "b", log.Door())
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t).ID()
	sealed := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(sealed.Seal(ctx))(t)
	other := must(b.client.Begin(ctx, client.BeginOptions{}))(t).ID()
	rows := slices.Concat(routeRows(a, tx), scopeRows(tx), numberRows(tx), shardRows(), writeRows(tx),
		stateRows(tx, sealed.ID()), bodyRows(tx), idRows(other))
	for _, r := range rows {
		status, p, header := a.send(t, r.call)
		if status != r.status || p == nil || p.Code != r.code {
			t.Errorf("%s %.80s %.60q: %d %+v, wanted %d %s",
				r.call.method, r.call.path, r.call.body, status, p, r.status, r.code)
		}
		if status == 405 && header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", r.call.method, r.call.path)
		}
	}
	if d := must(a.client.Tx(tx).Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("after all of this the transaction is %+v", d)
	}
	if one, two := must(sealed.Seal(ctx))(t), must(sealed.Seal(ctx))(t); one.Seq == 0 || one.Seq != two.Seq {
		t.Fatalf("sealed twice: %+v and %+v", one, two)
	}
}

// routeRows: what has no route, no token, or another workspace.
func routeRows(a *rig, tx string) []row {
	return []row{
		{get("/"), 404, api.CodeNoRoute},
		{get("/v1/nothing"), 404, api.CodeNoRoute},
		{rawCall{method: "DELETE", path: inDefault + "/shards/x"}, 405, api.CodeMethod},
		{post("/v1/tx/"+tx, ""), 405, api.CodeMethod},
		{with(get(inDefault+"/shards"), "Authorization", "Bearer wrong"), 401, api.CodeUnauthorized},
		{with(get(inDefault+"/shards"), "Authorization", a.Token()), 401, api.CodeUnauthorized},

		{get("/v1/workspaces/elsewhere/shards"), 404, api.CodeUnknownWorkspace},
		{get("/v1/workspaces/elsewhere/shards/x"), 404, api.CodeUnknownWorkspace},
		{put("/v1/workspaces/elsewhere/shards/x"), 404, api.CodeUnknownWorkspace},
		{post("/v1/workspaces/elsewhere/tx", ""), 404, api.CodeUnknownWorkspace},
		{get("/v1/workspaces/elsewhere/chain"), 404, api.CodeUnknownWorkspace},
		{get("/v1/workspaces/elsewhere/frontier"), 404, api.CodeUnknownWorkspace},
	}
}

// scopeRows: scopes that cannot be used.
func scopeRows(tx string) []row {
	return []row{
		{get(inDefault + "/shards/a/../../b"), 400, api.CodeBadScope},
		{get(inDefault + "/shards/"), 400, api.CodeBadScope},
		{get(inDefault + "/shards/a/*"), 400, api.CodeBadScope},
		{get(inDefault + "/shards/%FF"), 400, api.CodeBadScope},
		{get(inDefault + "/shards/" + strings.Repeat("s/", 17) + "s"), 400, api.CodeBadScope},
		{get(inDefault + "/shards/" + strings.Repeat("s", 1100)), 400, api.CodeBadScope},
		{get(inDefault + "/shards?prefix=mail:/x"), 400, api.CodeBadScope},
		{get(inDefault + "/shards?prefix=a**b"), 400, api.CodeBadScope},
		{get(inDefault + "/shards?after=%2e%2e"), 400, api.CodeBadScope},
		{get(inDefault + "/frontier?prefix=nonsense"), 400, api.CodeBadScope},
		{put(inDefault + "/shards/*"), 400, api.CodeBadScope},
		{post("/v1/tx/"+tx+"/reads", `{"scope":"mail:/x","limit":3}`), 400, api.CodeBadRequest},
		{post("/v1/tx/"+tx+"/reads", `{"scope":"shard:/../x"}`), 400, api.CodeBadScope},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/*","content":""}`), 400, api.CodeBadScope},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/","content":""}`), 400, api.CodeBadScope},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"","content":""}`), 400, api.CodeBadScope},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard/x","content":""}`), 400, api.CodeBadScope},
		{post("/v1/tx/"+tx+"/reads", `{"scope":"orders/1"}`), 400, api.CodeBadScope},
		{post("/v1/tx/"+tx+"/reads", `{"scope":""}`), 400, api.CodeBadScope},
		{post("/v1/tx/"+tx+"/reads", `{"scope":"mail:/x"}`), 422, api.CodeUnknownType},
		{post("/v1/tx/"+tx+"/touches", `{"wants":[{"scope":"order/1","access":"write"}]}`), 400, api.CodeBadScope},
		{post("/v1/tx/"+tx+"/settlement", `{"effects":[{"scopes":["order/1"],"result":"clean"}]}`), 400, api.CodeBadScope},
	}
}

// numberRows: parameters, and seqs from the future.
func numberRows(tx string) []row {
	return []row{
		{get(inDefault + "/shards?limit=0"), 400, api.CodeBadRequest},
		{get(inDefault + "/shards?limit=1001"), 400, api.CodeBadRequest},
		{get(inDefault + "/shards?limit=ten"), 400, api.CodeBadRequest},
		{get(inDefault + "/shards?limit=1&limit=2"), 400, api.CodeBadRequest},
		{get(inDefault + "/shards?size=1"), 400, api.CodeBadRequest},
		{get(inDefault + "/shards/x?versions=yes"), 400, api.CodeBadRequest},
		{get(inDefault + "/shards/x?versions=true&version=1"), 400, api.CodeBadRequest},
		{get(inDefault + "/shards/x?version=-1"), 400, api.CodeBadRequest},
		{get(inDefault + "/shards/x?versions=true"), 404, api.CodeNotFound},
		{get(inDefault + "/shards/x?version=1"), 404, api.CodeNotFound},
		{get(inDefault + "/shards/x?version=99999"), 400, api.CodeSeqFromFuture},
		{get(inDefault + "/shards/x"), 404, api.CodeNotFound},
		{get(inDefault + "/chain?from=99999"), 400, api.CodeSeqFromFuture},
		{get(inDefault + "/chain?from=-1"), 400, api.CodeBadRequest},
		{get("/v1/tx/" + tx + "?wait_ms=30001"), 400, api.CodeBadRequest},
		{get("/v1/tx/" + tx + "?wait=1"), 400, api.CodeBadRequest},
		{get("/v1/tx/" + tx + "/closure?limit=0"), 400, api.CodeBadRequest},
	}
}

// shardRows: conditions and sizes of writes to shards.
func shardRows() []row {
	return []row{
		{put(inDefault+"/shards/x", "If-Match", `"1`), 400, api.CodeBadRequest},
		{put(inDefault+"/shards/x", "If-Match", `1`), 400, api.CodeBadRequest},
		{put(inDefault+"/shards/x", "If-Match", `"1", 2`), 400, api.CodeBadRequest},
		{put(inDefault+"/shards/x", "If-Match", `W/"1"`), 412, "version_mismatch"},
		{put(inDefault+"/shards/x", "If-Match", `"01"`), 412, "version_mismatch"},
		{put(inDefault+"/shards/x", "If-Match", `"0"`), 412, "version_mismatch"},
		{put(inDefault+"/shards/x", "If-Match", `"abc", W/"7"`), 412, "version_mismatch"},
		{put(inDefault+"/shards/x", "If-Match", `"1"`, "If-None-Match", "*"), 400, api.CodeBadRequest},
		{put(inDefault+"/shards/x", "If-None-Match", `"1"`), 400, api.CodeBadRequest},
		{put(inDefault+"/shards/x", "If-Match", `"1"`), 412, "version_mismatch"},
		{put(inDefault+"/shards/x", "If-Match", "*"), 412, "version_mismatch"},
		{put(inDefault+"/shards/x", "Idempotency-Key", strings.Repeat("k", 256)), 400, api.CodeBadRequest},
		{put(inDefault+"/shards/x", "Content-Type", strings.Repeat("m", 129)), 400, api.CodeBadRequest},
		{rawCall{method: "PUT", path: inDefault + "/shards/x", body: strings.Repeat("x", 257<<10)}, 413, api.CodeTooLarge},
		{rawCall{method: "PUT", path: inDefault + "/shards/x", body: strings.Repeat("x", 10<<20)}, 413, api.CodeTooLarge},
	}
}

// writeRows: writes and reads in a transaction.
func writeRows(tx string) []row {
	return []row{
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content":"`+strings.Repeat("x", 257<<10)+`"}`), 413,
			api.CodeTooLarge},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content":"x","if_version":99999}`), 409, "version_mismatch"},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content":"x","if_version":1}`), 409, "version_mismatch"},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content":"x","if_version":-1}`), 400, api.CodeBadRequest},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x"}`), 400, api.CodeBadRequest},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content":"x","content_base64":"eA=="}`), 400,
			api.CodeBadRequest},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content_base64":"!"}`), 400, api.CodeBadRequest},
		{post("/v1/tx/"+tx+"/reads", `{"scope":"shard:/x","limit":-1}`), 400, api.CodeBadRequest},
	}
}

// stateRows: options of a transaction, and calls that its state does not allow.
func stateRows(tx, sealed string) []row {
	return []row{
		{post(inDefault+"/tx", `{"mode":"hurried"}`), 400, api.CodeBadRequest},
		{post(inDefault+"/tx", `{"levels":"L9"}`), 400, api.CodeBadRequest},
		{post(inDefault+"/tx", `{"levels":"A1,A1x"}`), 400, api.CodeBadRequest},
		{post(inDefault+"/tx", `{"deadline_ms":-1}`), 400, api.CodeBadRequest},
		{post(inDefault+"/tx", `{"deadline_ms":1e12}`), 400, api.CodeBadRequest},
		{post(inDefault+"/tx", `{"group":"g"}`), 404, api.CodeNotFound},
		{post("/v1/tx/"+tx+"/abort", `{"reason":"`+strings.Repeat("r", 129)+`"}`), 400, api.CodeBadRequest},
		{post("/v1/tx/"+sealed+"/abort", ""), 409, api.CodeAlreadyCommitted},
		{post("/v1/tx/"+sealed+"/retry", ""), 409, api.CodeAlreadyCommitted},
		{post("/v1/tx/"+tx+"/retry", ""), 409, api.CodeNotAborted},
		{post("/v1/tx/"+sealed+"/reads", `{"scope":"shard:/x"}`), 409, "late_effect"},
		{post("/v1/tx/"+sealed+"/writes", `{"scope":"shard:/x","content":""}`), 409, "late_effect"},
	}
}

// bodyRows: bodies that are not the JSON that is expected.
func bodyRows(tx string) (rows []row) {
	for _, route := range []string{inDefault + "/tx", "/v1/tx/" + tx + "/reads", "/v1/tx/" + tx + "/writes",
		"/v1/tx/" + tx + "/seal", "/v1/tx/" + tx + "/abort", "/v1/tx/" + tx + "/retry"} {
		for _, body := range []string{`{`, `[]`, `"text"`, `1`, `null`, `{"x":1}`, `{} {}`,
			`{"scope":1}`, "{\"\xff\":1}", `{"scope":"s"`} {
			rows = append(rows, row{post(route, body), 400, api.CodeBadRequest})
		}
		rows = append(rows, row{post(route, strings.Repeat(" ", 10<<20)), 413, api.CodeTooLarge})
		asText := post(route, `{}`)
		asText.header = map[string]string{"Content-Type": "text/plain"}
		rows = append(rows, row{asText, 415, api.CodeMediaType})
	}
	return rows
}

// idRows: transactions that are unknown, another agent's, or of a session that has ended.
func idRows(other string) (rows []row) {
	for _, rest := range []string{"/reads", "/writes", "/seal", "/abort", "/retry", "", "/explain", "/closure"} {
		method, body := "POST", ""
		switch rest {
		case "/reads":
			body = `{"scope":"shard:/x"}`
		case "/writes":
			body = `{"scope":"shard:/x","content":""}`
		}
		if rest == "" || rest == "/explain" || rest == "/closure" {
			method = "GET"
		}
		call := func(id string) rawCall { return rawCall{method: method, path: "/v1/tx/" + id + rest, body: body} }
		rows = append(rows,
			row{call("nonsense"), 404, api.CodeUnknownTx}, row{call("a.1.01"), 404, api.CodeUnknownTx},
			row{call(strings.Repeat("x", 2000)), 404, api.CodeUnknownTx})
		if rest == "/closure" { // anyone's, of the table
			rows = append(rows, row{call("a.1.999"), 404, api.CodeUnknownTx})
			continue
		}
		foreign := row{call(other), 403, api.CodeOtherAgent}
		if rest == "/explain" {
			foreign = row{call(other), 404, api.CodeUnknownTx}
		}
		rows = append(rows, foreign, row{call("a.1.999"), 404, api.CodeUnknownTx}, row{call("a.0.1"), 410,
			api.CodeSessionLost})
	}
	return rows
}
