package sidecar

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
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
	resp, err := checked{t, transport}.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	defer resp.Body.Close()
	body := must(io.ReadAll(resp.Body))(t)
	if resp.StatusCode < 400 {
		return resp.StatusCode, nil, resp.Header
	}
	p := &api.Problem{}
	if err := json.Unmarshal(body, p); err != nil || p.Code == "" || p.Detail == "" || p.Type != api.ProblemType+p.Code {
		t.Errorf("%s %s: %d %s", c.method, c.path, resp.StatusCode, body)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" || p.Status != resp.StatusCode {
		t.Errorf("%s %s: %s, status %d in the header and %d in the body", c.method, c.path, got, resp.StatusCode, p.Status)
	}
	return resp.StatusCode, p, resp.Header
}

// Every route answers bad input with a problem of a stable code.
func TestBadInput(t *testing.T) {
	log := newLog()
	short := func(c *Config) { c.Limits.FutureWait = time.Millisecond }
	a, b := start(t, "a", log.Door(), short), start(t, "b", log.Door())
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t).ID()
	sealed := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(sealed.Seal(ctx))(t)
	other := must(b.client.Begin(ctx, client.BeginOptions{}))(t).ID()
	const ws = "/v1/workspaces/default"
	post := func(path, body string) rawCall { return rawCall{method: "POST", path: path, body: body} }
	get := func(path string) rawCall { return rawCall{method: "GET", path: path} }
	put := func(path string, header ...string) rawCall {
		c := rawCall{method: "PUT", path: path, body: "x", header: map[string]string{}}
		for i := 0; i < len(header); i += 2 {
			c.header[header[i]] = header[i+1]
		}
		return c
	}
	rows := []struct {
		call   rawCall
		status int
		code   string
	}{
		{get("/"), 404, codeNoRoute},
		{get("/v1/nothing"), 404, codeNoRoute},
		{rawCall{method: "DELETE", path: ws + "/shards/x"}, 405, codeMethod},
		{post("/v1/tx/"+tx, ""), 405, codeMethod},
		{rawCall{method: "GET", path: ws + "/shards", header: map[string]string{"Authorization": "Bearer wrong"}}, 401, codeUnauthorized},
		{rawCall{method: "GET", path: ws + "/shards", header: map[string]string{"Authorization": a.Token()}}, 401, codeUnauthorized},

		{get("/v1/workspaces/elsewhere/shards"), 404, codeUnknownWorkspace},
		{get("/v1/workspaces/elsewhere/shards/x"), 404, codeUnknownWorkspace},
		{put("/v1/workspaces/elsewhere/shards/x"), 404, codeUnknownWorkspace},
		{post("/v1/workspaces/elsewhere/tx", ""), 404, codeUnknownWorkspace},
		{get("/v1/workspaces/elsewhere/chain"), 404, codeUnknownWorkspace},
		{get("/v1/workspaces/elsewhere/frontier"), 404, codeUnknownWorkspace},

		{get(ws + "/shards/a/../../b"), 400, codeBadScope},
		{get(ws + "/shards/"), 400, codeBadScope},
		{get(ws + "/shards/a/*"), 400, codeBadScope},
		{get(ws + "/shards/%FF"), 400, codeBadScope},
		{get(ws + "/shards/" + strings.Repeat("s/", 17) + "s"), 400, codeBadScope},
		{get(ws + "/shards/" + strings.Repeat("s", 1100)), 400, codeBadScope},
		{get(ws + "/shards?prefix=mail:/x"), 400, codeBadScope},
		{get(ws + "/shards?prefix=a**b"), 400, codeBadScope},
		{get(ws + "/shards?after=%2e%2e"), 400, codeBadScope},
		{get(ws + "/frontier?prefix=nonsense"), 400, codeBadScope},
		{put(ws + "/shards/*"), 400, codeBadScope},
		{post("/v1/tx/"+tx+"/reads", `{"scope":"mail:/x"}`), 400, codeBadScope},
		{post("/v1/tx/"+tx+"/reads", `{"scope":"shard:/../x"}`), 400, codeBadScope},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/*","content":""}`), 400, codeBadScope},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/","content":""}`), 400, codeBadScope},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"","content":""}`), 400, codeBadScope},

		{get(ws + "/shards?limit=0"), 400, codeBadRequest},
		{get(ws + "/shards?limit=1001"), 400, codeBadRequest},
		{get(ws + "/shards?limit=ten"), 400, codeBadRequest},
		{get(ws + "/shards?limit=1&limit=2"), 400, codeBadRequest},
		{get(ws + "/shards?size=1"), 400, codeBadRequest},
		{get(ws + "/shards/x?versions=yes"), 400, codeBadRequest},
		{get(ws + "/shards/x?versions=true&version=1"), 400, codeBadRequest},
		{get(ws + "/shards/x?version=-1"), 400, codeBadRequest},
		{get(ws + "/shards/x?versions=true"), 404, codeNotFound},
		{get(ws + "/shards/x?version=1"), 404, codeNotFound},
		{get(ws + "/shards/x?version=99999"), 400, codeSeqFromFuture},
		{get(ws + "/shards/x"), 404, codeNotFound},
		{get(ws + "/chain?from=99999"), 400, codeSeqFromFuture},
		{get(ws + "/chain?from=-1"), 400, codeBadRequest},
		{get("/v1/tx/" + tx + "?wait_ms=30001"), 400, codeBadRequest},
		{get("/v1/tx/" + tx + "?wait=1"), 400, codeBadRequest},
		{get("/v1/tx/" + tx + "/closure?limit=0"), 400, codeBadRequest},

		{put(ws+"/shards/x", "If-Match", `"1`), 400, codeBadRequest},
		{put(ws+"/shards/x", "If-Match", `W/"1"`), 400, codeBadRequest},
		{put(ws+"/shards/x", "If-Match", `"01"`), 400, codeBadRequest},
		{put(ws+"/shards/x", "If-Match", `"1"`, "If-None-Match", "*"), 400, codeBadRequest},
		{put(ws+"/shards/x", "If-None-Match", `"1"`), 400, codeBadRequest},
		{put(ws+"/shards/x", "If-Match", `"99999"`), 400, codeSeqFromFuture},
		{put(ws+"/shards/x", "If-Match", `"1"`), 412, "version_mismatch"},
		{put(ws+"/shards/x", "If-Match", "*"), 412, "version_mismatch"},
		{put(ws+"/shards/x", "Idempotency-Key", strings.Repeat("k", 256)), 400, codeBadRequest},
		{put(ws+"/shards/x", "Content-Type", strings.Repeat("m", 129)), 400, codeBadRequest},
		{rawCall{method: "PUT", path: ws + "/shards/x", body: strings.Repeat("x", 257<<10)}, 413, codeTooLarge},
		{rawCall{method: "PUT", path: ws + "/shards/x", body: strings.Repeat("x", 10<<20)}, 413, codeTooLarge},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content":"`+strings.Repeat("x", 257<<10)+`"}`), 413, codeTooLarge},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content":"x","if_version":99999}`), 400, codeSeqFromFuture},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content":"x","if_version":1}`), 409, "version_mismatch"},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content":"x","if_version":-1}`), 400, codeBadRequest},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x"}`), 400, codeBadRequest},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content":"x","content_base64":"eA=="}`), 400, codeBadRequest},
		{post("/v1/tx/"+tx+"/writes", `{"scope":"shard:/x","content_base64":"!"}`), 400, codeBadRequest},
		{post("/v1/tx/"+tx+"/reads", `{"scope":"shard:/x","limit":-1}`), 400, codeBadRequest},

		{post(ws+"/tx", `{"mode":"hurried"}`), 400, codeBadRequest},
		{post(ws+"/tx", `{"levels":"L9"}`), 400, codeBadRequest},
		{post(ws+"/tx", `{"levels":"A1,A1x"}`), 400, codeBadRequest},
		{post(ws+"/tx", `{"deadline_ms":-1}`), 400, codeBadRequest},
		{post(ws+"/tx", `{"deadline_ms":1e12}`), 400, codeBadRequest},
		{post(ws+"/tx", `{"group":"a b"}`), 400, codeBadRequest},
		{post("/v1/tx/"+tx+"/abort", `{"reason":"`+strings.Repeat("r", 129)+`"}`), 400, codeBadRequest},
		{post("/v1/tx/"+sealed.ID()+"/abort", ""), 409, codeAlreadyCommitted},
		{post("/v1/tx/"+sealed.ID()+"/retry", ""), 409, codeAlreadyCommitted},
		{post("/v1/tx/"+tx+"/retry", ""), 409, codeNotAborted},
		{post("/v1/tx/"+sealed.ID()+"/reads", `{"scope":"shard:/x"}`), 409, "late_effect"},
		{post("/v1/tx/"+sealed.ID()+"/writes", `{"scope":"shard:/x","content":""}`), 409, "late_effect"},
	}
	for _, route := range []string{ws + "/tx", "/v1/tx/" + tx + "/reads", "/v1/tx/" + tx + "/writes", "/v1/tx/" + tx + "/seal",
		"/v1/tx/" + tx + "/abort", "/v1/tx/" + tx + "/retry"} {
		for _, body := range []string{`{`, `[]`, `"text"`, `1`, `null`, `{"x":1}`, `{} {}`, `{"scope":1}`, "{\"\xff\":1}", `{"scope":"s"`} {
			rows = append(rows, row{post(route, body), 400, codeBadRequest})
		}
		rows = append(rows, row{post(route, strings.Repeat(" ", 10<<20)), 413, codeTooLarge})
		asText := post(route, `{}`)
		asText.header = map[string]string{"Content-Type": "text/plain"}
		rows = append(rows, row{asText, 415, codeMediaType})
	}
	for _, rest := range []string{"/reads", "/writes", "/seal", "/abort", "/retry", "", "/explain", "/closure"} {
		method, body := "POST", map[string]string{"/reads": `{"scope":"shard:/x"}`, "/writes": `{"scope":"shard:/x","content":""}`}[rest]
		if rest == "" || rest == "/explain" || rest == "/closure" {
			method = "GET"
		}
		call := func(id string) rawCall { return rawCall{method: method, path: "/v1/tx/" + id + rest, body: body} }
		rows = append(rows,
			row{call("nonsense"), 404, codeUnknownTx}, row{call("a.1.01"), 404, codeUnknownTx},
			row{call(strings.Repeat("x", 2000)), 404, codeUnknownTx})
		if rest == "/closure" {
			continue
		}
		foreign := row{call(other), 403, codeOtherAgent}
		if rest == "/explain" {
			foreign = row{call(other), 404, codeUnknownTx}
		}
		rows = append(rows, foreign, row{call("a.1.999"), 404, codeUnknownTx}, row{call("a.0.1"), 410, codeSessionLost})
	}
	for _, r := range rows {
		status, p, header := a.send(t, r.call)
		if status != r.status || p == nil || r.code != "" && p.Code != r.code {
			t.Errorf("%s %.80s %.60q: %d %+v, wanted %d %s", r.call.method, r.call.path, r.call.body, status, p, r.status, r.code)
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

// row is one line of the table of bad input.
type row = struct {
	call   rawCall
	status int
	code   string
}

// One Idempotency-Key is one request: in flight it is refused, with another body too, afterwards the answer is stored.
func TestIdempotency(t *testing.T) {
	log := newLog()
	door := log.Door()
	a := start(t, "a", door)
	ctx := background(t)
	put := rawCall{method: "PUT", path: "/v1/workspaces/default/shards/x", body: "1", header: map[string]string{"Idempotency-Key": "k1"}}
	if err := a.view.reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	first := make(chan int, 1)
	go func() {
		status, _, _ := a.send(t, put)
		first <- status
	}()
	at := log.Seq()
	if err := log.Until(ctx, func() bool { return log.Seq() > at }); err != nil {
		t.Fatal(err)
	}
	if status, p, _ := a.send(t, put); status != 409 || p.Code != codeKeyInFlight || !p.Retryable || !p.SafeSameKey {
		t.Fatalf("while in flight: %d %+v", status, p)
	}
	door.Release()
	if status := <-first; status != 201 {
		t.Fatalf("the first one: %d", status)
	}
	status, _, header := a.send(t, put)
	if status != 201 || header.Get("Idempotency-Replayed") != "true" || header.Get("Etag") == "" {
		t.Fatalf("the same again: %d %v", status, header)
	}
	put.body = "2"
	if status, p, _ := a.send(t, put); status != 422 || p.Code != codeKeyReused {
		t.Fatalf("another body: %d %+v", status, p)
	}
	if n := len(committed(log)); n != 1 {
		t.Fatalf("%d commits for one key", n)
	}
	begin := rawCall{method: "POST", path: "/v1/workspaces/default/tx", header: map[string]string{"Idempotency-Key": "k2"}}
	_, _, one := a.send(t, begin)
	_, _, two := a.send(t, begin)
	if one.Get("Location") == "" || one.Get("Location") != two.Get("Location") {
		t.Fatalf("one key made %s and %s", one.Get("Location"), two.Get("Location"))
	}
}

// The table of keys is bounded: in number, in bytes, in age; a request under way is never dropped.
func TestIdempotencyBounds(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door(), func(c *Config) { c.Limits.IdempotencyKeys = 4; c.Limits.IdempotencyBytes = 4096 })
	for i := range 20 {
		key := strings.Repeat("k", i+1)
		a.send(t, rawCall{method: "POST", path: "/v1/workspaces/default/tx", header: map[string]string{"Idempotency-Key": key}})
		if n := len(a.keys.order); n > 4 || n != len(a.keys.byKey) {
			t.Fatalf("%d keys are remembered, %d in the index", n, len(a.keys.byKey))
		}
	}
}

// A large content travels by reference and comes back whole, at every size around the bounds.
func TestContentSizes(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	for _, size := range []int{0, 1, 4 << 10, 4<<10 + 1, 256 << 10} {
		content := bytes.Repeat([]byte{0xff}, size)
		d := must(a.client.Put(ctx, "shard:/x", content, client.WriteOptions{}))(t)
		if d.State != api.StateCommitted {
			t.Fatalf("%d bytes: %+v", size, d)
		}
		if err := b.view.reach(ctx, log.Seq()); err != nil {
			t.Fatal(err)
		}
		tx := must(b.client.Begin(ctx, client.BeginOptions{}))(t)
		got := must(tx.Read(ctx, "shard:/x"))(t)
		loose := must(b.client.Get(ctx, "shard:/x"))(t)
		if !bytes.Equal(got.Content, content) || !bytes.Equal(loose.Content, content) || !got.Exists {
			t.Fatalf("%d bytes came back as %d and %d", size, len(got.Content), len(loose.Content))
		}
		if err := tx.Abort(ctx, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	for i := range 40 { // 160 KiB inline would be too much for one record
		if err := tx.Write(ctx, "shard:/many/"+strings.Repeat("n", i+1), bytes.Repeat([]byte{'m'}, 4<<10), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Fatalf("many: %+v", d)
	}
	list := must(a.client.List(ctx, "shard:/many", "", 30))(t)
	rest := must(a.client.List(ctx, "shard:/many", list.Next, 30))(t)
	if len(list.Items) != 30 || len(rest.Items) != 10 || rest.Next != "" {
		t.Fatalf("pages of %d and %d", len(list.Items), len(rest.Items))
	}
	versions := must(a.client.Versions(ctx, "shard:/x"))(t)
	if len(versions.Items) != 5 || versions.Items[0].Size != 256<<10 {
		t.Fatalf("versions %+v", versions)
	}
	if old := must(a.client.GetVersion(ctx, "shard:/x", versions.Items[3].Version))(t); len(old.Content) != 1 {
		t.Fatalf("a former version: %d bytes", len(old.Content))
	}
}
