package http

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hence-dev/hence/sidecar/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// filled is a route's pattern with a value for each of its parameters.
func filled(pattern string) string {
	return strings.NewReplacer("{workspace}", "default", "{scope...}", "x", "{tx}", "a.1.1", "{group}", "g",
		"{name}", "n", "{index}", "1").Replace(pattern)
}

// codeOf is the code of the problem that a request is answered; empty: it is none.
func (f *faced) codeOf(method, path, body string, header ...string) (int, string) {
	f.t.Helper()
	resp, text := f.do(method, path, body, header...)
	if resp.Header.Get("Content-Type") != "application/problem+json" {
		return resp.StatusCode, ""
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, p.Code
}

// refused fails the test unless a request is refused with a code, before the agent is asked.
func (f *faced) refused(status int, code, method, path, body string, header ...string) {
	f.t.Helper()
	if s, c := f.codeOf(method, path, body, header...); s != status || c != code {
		f.t.Errorf("%s %s %.60q %q: %d %s, want %d %s", method, path, body, header, s, c, status, code)
	}
	if asked := f.calls(); asked != "" {
		f.t.Errorf("%s %s asks %s", method, path, asked)
	}
}

// Without the token nothing is answered but health, metrics and the document; a wrong one is no token.
func TestNoToken(t *testing.T) {
	f := newFaced(t)
	for _, one := range f.face.table() {
		for _, token := range []string{"-", "Bearer ", "Bearer " + agentToken + "x", "Basic " + agentToken, agentToken,
			"Bearer " + operatorToken + "x"} {
			resp, _ := f.do(one.method, filled(one.pattern), "{}", "Authorization", token)
			if one.public {
				if resp.StatusCode != http.StatusOK {
					t.Errorf("%s needs no token: %d", one.name, resp.StatusCode)
				}
				continue
			}
			if resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: no WWW-Authenticate", one.name, token)
			}
			f.refused(http.StatusUnauthorized, api.CodeUnauthorized, one.method, filled(one.pattern), "{}",
				"Authorization", token)
		}
	}
}

// What concerns other agents takes the operator's token, all else either; a sidecar with one token has both roles in
// it.
func TestOperatorOnly(t *testing.T) {
	f, alone := newFaced(t), newFaced(t, func(c *told) { c.operator = "" })
	only := map[string]bool{"set_rules": true, "retract": true, "accept_residue": true, "retry_residue": true}
	seen := 0
	for _, one := range f.face.table() {
		if one.public || one.name == "decisions" || one.name == "approve_effect" || one.name == "deny_effect" {
			continue
		}
		if only[one.name] {
			seen++
		}
		status, code := f.codeOf(one.method, filled(one.pattern), "{}")
		if only[one.name] != (code == api.CodeOperatorOnly) || only[one.name] != (status == http.StatusForbidden) {
			t.Errorf("%s with the agent's token: %d %s", one.name, status, code)
		}
		if _, code := f.codeOf(one.method, filled(one.pattern), "{}", asOperator()...); code == api.CodeOperatorOnly {
			t.Errorf("%s is refused to the operator", one.name)
		}
		if _, code := alone.codeOf(one.method, filled(one.pattern), "{}"); code == api.CodeOperatorOnly {
			t.Errorf("%s is refused to the only token", one.name)
		}
	}
	if seen != len(only) {
		t.Errorf("of %v only %d are routes", only, seen)
	}
}

// What every route with a body refuses of it, and what every route refuses of its query and its conversation.
func TestBadRequests(t *testing.T) {
	f := newFaced(t)
	for _, path := range []string{inDefault + "/tx", "/v1/tx/a.1.1/reads", "/v1/tx/a.1.1/seal", "/v1/tx/a.1.1/abort",
		"/v1/tx/a.1.1/retry"} {
		for _, body := range []string{`{`, `[]`, `"text"`, `1`, `null`, `{"x":1}`, `{} {}`, "{\"\xff\":1}", `{"scope":"s"`} {
			f.refused(http.StatusBadRequest, api.CodeBadRequest, "POST", path, body)
		}
		f.refused(http.StatusRequestEntityTooLarge, api.CodeTooLarge, "POST", path, strings.Repeat(" ", 2<<10))
		f.refused(http.StatusUnsupportedMediaType, api.CodeMediaType, "POST", path, "{}", "Content-Type", "text/plain")
	}
	for _, query := range []string{"size=1", "limit=0", "limit=1001", "limit=ten", "limit=1&limit=2"} {
		f.refused(http.StatusBadRequest, api.CodeBadRequest, "GET", inDefault+"/shards?"+query, "")
	}
	for _, name := range []string{strings.Repeat("s", 65), "a\tb", "ü"} {
		f.refused(http.StatusBadRequest, api.CodeBadRequest, "POST", inDefault+"/tx", "", "Hence-Session", name)
	}
	f.refused(http.StatusBadRequest, api.CodeBadRequest, "POST", inDefault+"/tx", "", "Hence-Session", "p",
		"Hence-Session", "q")
	f.refused(http.StatusBadRequest, api.CodeBadRequest, "POST", inDefault+"/tx", "", "Idempotency-Key", "ü")
	f.refused(http.StatusBadRequest, api.CodeBadRequest, "POST", inDefault+"/tx", "", "Idempotency-Key",
		strings.Repeat("k", 256))
	if resp, _ := f.do("POST", inDefault+"/tx", "", "Hence-Session", "p"); resp.StatusCode != 201 || f.session != "p" {
		t.Errorf("in the conversation p: %d, it came as %q", resp.StatusCode, f.session)
	}
}

// A query that cannot be read whole is no other query, whoever sends it: what is left out of it may be the op.
func TestQueryIsWhole(t *testing.T) {
	f := newFaced(t)
	shard := inDefault + "/shards/counter"
	for _, query := range []string{"op=add;wait_ms=1000", "op=add%ZZ", "op=add&wait_ms=%", "junk;junk"} {
		f.refused(http.StatusBadRequest, api.CodeBadRequest, "PUT", shard+"?"+query, "1")
	}
	for _, header := range [][]string{nil, asOperator(), asApprover()} {
		f.refused(http.StatusBadRequest, api.CodeBadRequest, "GET", shard+"?look=true&x;y", "", header...)
		f.refused(http.StatusBadRequest, api.CodeBadRequest, "GET", inDefault+"/shards?look=true&limit=%", "", header...)
	}
	if _, text := f.do("PUT", shard+"?op=add;wait_ms=1", "1"); !strings.Contains(text, "write ; as %3B and % as %25") {
		t.Error(text)
	}
	if resp, text := f.do("GET", inDefault+"/shards?prefix=a%3Bb%25&look=true", ""); resp.StatusCode != 200 {
		t.Errorf("with escapes: %d %s", resp.StatusCode, text)
	}
}

// What JSON escapes as half of a surrogate pair would become another text; a whole pair is a character, and an escaped
// backslash is one.
func TestBodyIsText(t *testing.T) {
	f := newFaced(t)
	for _, text := range []string{`a\ud800b`, `\uDFFF`, `\ud800\ud800`, `\ud83d\n`, `\\\ud800`, `\udc00\ud800`} {
		f.refused(http.StatusBadRequest, api.CodeBadRequest, "POST", inDefault+"/commit",
			`{"writes":[{"scope":"shard:/x","content":"`+text+`"}]}`)
	}
	for _, text := range []string{`\ud83d\ude00`, `\\ud800`, `\u00e9\ud83D\uDE00\\`} {
		resp, answer := f.do("POST", inDefault+"/commit", `{"writes":[{"scope":"shard:/x","content":"`+text+`"}]}`)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", text, resp.StatusCode, answer)
		}
	}
}

// A body that is packed, or a part of a content, is not kept as if it were the content.
func TestBodyIsWhole(t *testing.T) {
	f := newFaced(t)
	shard, tx := inDefault+"/shards/x", inDefault+"/tx"
	for _, coding := range []string{"gzip", "identity, br", "x"} {
		f.refused(http.StatusUnsupportedMediaType, api.CodeMediaType, "PUT", shard, "packed", "Content-Encoding", coding)
		f.refused(http.StatusUnsupportedMediaType, api.CodeMediaType, "POST", tx, "{}", "Content-Encoding", coding)
	}
	f.refused(http.StatusUnsupportedMediaType, api.CodeMediaType, "PUT", shard, "packed", "Content-Encoding", "identity",
		"Content-Encoding", "gzip")
	f.refused(http.StatusBadRequest, api.CodeBadRequest, "PUT", shard, "tail", "Content-Range", "bytes 10-13/14")
	for _, coding := range []string{"", "identity", "Identity,"} {
		if status, code := f.codeOf("PUT", shard, "whole", "Content-Encoding", coding); status != http.StatusCreated {
			t.Errorf("Content-Encoding %q: %d %s", coding, status, code)
		}
	}
}

// A misspelt field or path is answered with what was probably meant.
func TestWhatWasMeant(t *testing.T) {
	f := newFaced(t)
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", inDefault + "/tx", `{"mod":"locked"}`, "write mode"},
		{"POST", "/v1/tx/a.1.1/reads", `{"limit":"3"}`, "a whole number, without quotes"},
		{"GET", "/workspaces/default/shards", "", "write /v1/workspaces/default/shards"},
		{"GET", inDefault + "/shards?lmit=3", "", "known are: prefix after limit look"},
		{"DELETE", inDefault + "/shards/x", "", "PUT an empty content"},
		{"GET", "/v1/workspaces/elsewhere/shards", "", `this sidecar serves \"default\"`},
	} {
		if _, text := f.do(c.method, c.path, c.body); !strings.Contains(text, c.want) {
			t.Errorf("%s %s %s: %s, want %q", c.method, c.path, c.body, text, c.want)
		}
	}
}

// Before the journal is open and once the sidecar stops nothing new is taken; at the bound of requests further ones
// are told to come again.
func TestNotNow(t *testing.T) {
	f := newFaced(t, func(c *told) { c.opened = make(chan struct{}) })
	f.refused(http.StatusServiceUnavailable, api.CodeNotReady, "GET", inDefault+"/tx", "")

	f = newFaced(t)
	enter, leave := make(chan struct{}), make(chan struct{})
	f.during = func(context.Context) {
		enter <- struct{}{}
		<-leave
	}
	answered := make(chan int)
	for range 4 {
		go func() {
			resp, _ := f.do("GET", inDefault+"/tools", "")
			answered <- resp.StatusCode
		}()
		<-enter
	}
	if !f.face.Busy() {
		t.Error("four requests run, and it is not busy")
	}
	f.calls()
	f.refused(http.StatusServiceUnavailable, api.CodeBusy, "GET", inDefault+"/tools", "")
	f.drain()
	f.refused(http.StatusServiceUnavailable, api.CodeStopping, "GET", inDefault+"/tools", "")
	f.refused(http.StatusServiceUnavailable, api.CodeStopping, "GET", inDefault+"/decisions", "")
	close(leave)
	for range 4 {
		if status := <-answered; status != http.StatusOK {
			t.Errorf("a request that ran when the sidecar stopped: %d", status)
		}
	}
	if resp, text := f.do("GET", "/readyz", ""); resp.StatusCode != 503 || !strings.Contains(text, "stopping") {
		t.Errorf("readyz of a sidecar that stops: %d %s", resp.StatusCode, text)
	}
}

// A poll of a transaction ends when the sidecar stops, and with its client.
func TestPolls(t *testing.T) {
	f := newFaced(t)
	ended := make(chan error, 1)
	f.during = func(ctx context.Context) {
		f.drain()
		<-ctx.Done()
		ended <- ctx.Err()
	}
	f.do("GET", "/v1/tx/a.1.1?wait_ms=30000", "")
	if err := <-ended; err == nil {
		t.Error("it goes on")
	}
}

// A request that waits for a shard's next version holds no place, and yet the sidecar is busy: its stop lets it be
// answered.
func TestWaiterIsBusy(t *testing.T) {
	f := newFaced(t)
	answered := make(chan int)
	go func() {
		resp, _ := f.do("GET", inDefault+"/shards/x?wait_ms=30000", "", "If-None-Match", etag(f.content.Version))
		answered <- resp.StatusCode
	}()
	for len(f.face.waiters) == 0 || len(f.face.running) > 0 {
		runtime.Gosched()
	}
	if !f.face.Busy() {
		t.Error("a request waits, and it is not busy")
	}
	f.drain()
	if status := <-answered; status != http.StatusNotModified {
		t.Errorf("the stop answers it with %d", status)
	}
	if f.face.Busy() {
		t.Error("it is busy with nothing")
	}
}

// A wait that takes all the time that a request has leaves some for the read: its content may have to be fetched.
func TestWaitLeavesTime(t *testing.T) {
	f := newFaced(t, func(c *told) { c.Limits.WaitMost = 200 * time.Millisecond })
	ended := make(chan error, 1)
	f.during = func(ctx context.Context) { ended <- ctx.Err() }
	f.do("GET", inDefault+"/shards/x?wait_ms=200", "", "If-None-Match", etag(f.content.Version))
	if err := <-ended; err != nil {
		t.Errorf("the read begins when its time is over: %v", err)
	}
}

// Readiness names each part that is not there.
func TestReadyz(t *testing.T) {
	f := newFaced(t)
	for part, why := range map[string]string{"session": "it is joining", "view": "it has no snapshot"} {
		f.parts[part] = api.Problemf(api.CodeNotReady, "%s", why)
		resp, text := f.do("GET", "/readyz", "", "Authorization", "-")
		var got api.Ready
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusServiceUnavailable || got.Ready || got.Parts[part].OK ||
			!strings.Contains(got.Parts[part].Problem, why) || !got.Parts["journal"].OK || got.Incarnation != 4 ||
			got.View != 9 || got.Agent != "a" || got.Workspace != "default" {
			t.Errorf("without its %s: %d %+v", part, resp.StatusCode, got)
		}
		delete(f.parts, part)
	}
}

// The list of agents says which of them is served here.
func TestAgentsHere(t *testing.T) {
	_, text := newFaced(t).do("GET", inDefault+"/agents", "")
	var list api.AgentList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2 || !list.Items[0].Here || list.Items[1].Here {
		t.Errorf("%+v", list.Items)
	}
}

// A handler that panics loses its own connection only: the place for its request is free again.
func TestPanic(t *testing.T) {
	f := newFaced(t)
	for range 5 { // one more than there are places
		f.during = func(context.Context) { panic("a fault") }
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic does not reach the server, which closes the connection")
				}
			}()
			f.do("GET", inDefault+"/tools", "")
		}()
	}
	f.during = nil
	if resp, _ := f.do("GET", inDefault+"/tools", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("after five panics: %d", resp.StatusCode)
	}
}

// What is asked is counted by route and class of status.
func TestMetricsRoute(t *testing.T) {
	f := newFaced(t)
	f.do("GET", inDefault+"/tools", "")
	f.do("GET", inDefault+"/tools?x=1", "")
	f.do("GET", "/nowhere", "")
	resp, text := f.do("GET", "/metrics", "", "Authorization", "-")
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.StatusCode)
	}
	for _, line := range []string{`hence_sidecar_requests_total{class="2xx",route="list_tools"} 1`,
		`hence_sidecar_requests_total{class="4xx",route="list_tools"} 1`,
		`hence_sidecar_requests_total{class="4xx",route="none"} 1`, `hence_sidecar_watchers 0`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

// A stream of decisions begins where it was asked to, takes no place of a request, and ends when the sidecar stops.
func TestStream(t *testing.T) {
	f := newFaced(t)
	server := httptest.NewServer(f.face)
	defer server.Close()
	get := func(query string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+inDefault+"/decisions"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+agentToken)
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for query, status := range map[string]int{"?after=1000": 400, "?kind=blue": 400} {
		resp := get(query)
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: %d", query, resp.StatusCode)
		}
	}
	f.refused(http.StatusNotFound, api.CodeAnomaliesOff, "GET", inDefault+"/anomalies?after=0&kind=A1", "")
	f.refused(http.StatusNotFound, api.CodeUnknownWorkspace, "GET", "/v1/workspaces/other/anomalies", "")
	resp := get("")
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	upTo := func(want string) {
		t.Helper()
		for text := ""; !strings.Contains(text, want); {
			line, err := lines.ReadString('\n')
			if text += line; err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	}
	upTo(": decisions after seq 9\n")
	if len(f.face.running) != 0 || !f.face.Busy() {
		t.Error("a stream has the place of a request, or holds up no stop")
	}
	f.drain()
	upTo(": this server is stopping")
	f.refused(http.StatusNotFound, api.CodeNoRoute, "GET", inDefault+"/decision", "")
}
