package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/gate/upstream/mcptest"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// doorPolicy has a read, eager tools and held ones of server s, and none of u.
const doorPolicy = `version: 1
server: doors
tools:
  - {tool: s__look, class: read, max_time_ms: 60000, scopes: ["thing:/**"], mcp: {server: s}}
  - tool: s__slow
    class: known_outcome
    keyed: true
    max_time_ms: 100
    retry: {attempts: 1}
    scopes: ["slow:/**"]
    mcp: {server: s}
  - {tool: s__note, class: known_outcome, keyed: true, scopes: ["thing:/{at}"], args: [at], mcp: {server: s}}
  - {tool: s__drop, class: irreversible, scopes: ["thing:/**"], mcp: {server: s}}
  - {tool: s__fail, class: irreversible, scopes: ["thing:/**"], mcp: {server: s, error: refused}}
`

// door is a sidecar that serves MCP clients the tools of one server of the tests.
type door struct {
	*running
	set *upstream.Set
	log string // what the server was called
}

func openDoor(t *testing.T) *door {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	set := upstream.Open(map[string]upstream.Server{"s": mcptest.Config(mcptest.Good, log),
		"u": mcptest.Config(mcptest.Good, "")}, upstream.Options{})
	t.Cleanup(set.Close)
	tools, err := policy.Load([]byte(doorPolicy), policy.Options{Build: adapters.Over(set)})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, memlog.New("default").Door(), Config{Agent: "a", Tools: tools,
		MCP: MCP{Upstreams: set, Origins: []string{"https://app.example"}}})
	set.Settled(background(t))
	return &door{r, set, log}
}

// Which servers there are, and how they stand, is shown to who has the token.
func TestMCPServers(t *testing.T) {
	d := openDoor(t)
	got := must(d.client.MCPServers(background(t)))(t)
	if len(got.Servers) != 2 || got.Servers[0].State != upstream.Ready || len(got.Servers[0].Tools) == 0 ||
		got.Servers[0].Tools[0].Public != got.Servers[0].Name+"__"+got.Servers[0].Tools[0].Name {
		t.Errorf("%+v", got)
	}
	if _, err := client.New(d.URL(), "another").MCPServers(background(t)); err == nil {
		t.Error("they are shown to anybody")
	}
	none := start(t, memlog.New("default").Door(), Config{Agent: "b"})
	if got := must(none.client.MCPServers(background(t)))(t); got.Servers == nil || len(got.Servers) > 0 {
		t.Errorf("where none are served: %+v", got)
	}
}

// A conversation's name has the bounds that it has under /v1.
func TestMCPSession(t *testing.T) {
	d := openDoor(t)
	for name, want := range map[string]int{strings.Repeat("s", 64): 200, strings.Repeat("s", 65): 400, "a\x7f": 400} {
		r := must(http.NewRequestWithContext(background(t), "POST", d.MCPURL(),
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)))(t)
		for header, value := range map[string]string{"Authorization": "Bearer " + d.Token(), "Hence-Session": name,
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			r.Header[header] = []string{value}
		}
		out, err := http.DefaultTransport.RoundTrip(r)
		if err != nil { // the client itself refuses to send it
			continue
		}
		_ = out.Body.Close()
		if out.StatusCode != want {
			t.Errorf("%q: %d, wanted %d", name, out.StatusCode, want)
		}
	}
}

// bearer adds the sidecar's token, and what else a test sends.
type bearer struct {
	token string
	more  map[string]string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	for name, value := range b.more {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// enter is a client of some generation of the protocol; empty: the newest.
func (d *door) enter(t *testing.T, path, version string, more map[string]string) *sdk.ClientSession {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil)
	carrier := &http.Client{Transport: bearer{d.Token(), more}}
	s, err := c.Connect(background(t), &sdk.StreamableClientTransport{Endpoint: d.MCPURL() + path, HTTPClient: carrier,
		DisableStandaloneSSE: true}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return s
}

func calls(t *testing.T, s *sdk.ClientSession, name string, args map[string]any, tx string) *sdk.CallToolResult {
	t.Helper()
	p := &sdk.CallToolParams{Name: name, Arguments: args}
	if tx != "" {
		p.Meta = sdk.Meta{"hence/tx": tx}
	}
	out, err := s.CallTool(background(t), p)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

func textOf(r *sdk.CallToolResult) string {
	if text, ok := r.Content[0].(*sdk.TextContent); ok {
		return text.Text
	}
	return ""
}

func field(t *testing.T, r *sdk.CallToolResult, name string) any {
	t.Helper()
	m, ok := r.StructuredContent.(map[string]any)
	if !ok {
		t.Fatalf("%s has no object: %+v", textOf(r), r.StructuredContent)
	}
	return m[name]
}

// Clients of both generations list and call all tools: a read and an eager call are answered as by the server itself,
// and so is a held one whose sink answers soon.
func TestMCP(t *testing.T) {
	d := openDoor(t)
	for _, version := range []string{"", "2025-11-25", "2025-06-18"} {
		t.Run("protocol "+version, func(t *testing.T) {
			s := d.enter(t, "", version, nil)
			list, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			want := []string{"effects_get", "s__drop", "s__fail", "s__look", "s__note", "s__slow", "shard_list", "shard_read",
				"shard_write", "tx_abort", "tx_begin", "tx_commit", "tx_status"}
			if !slices.Equal(names, want) {
				t.Errorf("%q", names)
			}
			for _, tool := range []string{"s__look", "s__note"} {
				out := calls(t, s, tool, map[string]any{"at": "x"}, "")
				_, bare, _ := strings.Cut(tool, "__")
				if textOf(out) != bare+" x" || field(t, out, "said") != bare+" x" || out.IsError || out.Meta["of"] != "mcptest" {
					t.Errorf("%s: %+v", tool, out)
				}
			}
			if !large(t, d) {
				t.Error("a large number is rounded")
			}
			out := calls(t, s, "s__fail", nil, "") // held, committed, and refused by the tool: what it said is told
			if !out.IsError || textOf(out) != "it does not fit" {
				t.Errorf("%+v", out)
			}
			own := d.enter(t, "/s", version, nil)
			if out := calls(t, own, "look", map[string]any{"at": "y"}, ""); textOf(out) != "look y" {
				t.Errorf("%+v", out)
			}
		})
	}
}

// What a server refuses is its own error, and the answer to a call that no client can make says so.
func TestMCPErrors(t *testing.T) {
	d := openDoor(t)
	s := d.enter(t, "", "", nil)
	var said *jsonrpc.Error
	_, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "s__look", Arguments: map[string]any{"at": "invalid"}})
	if !errors.As(err, &said) || said.Code != -32602 || said.Message != "at is invalid" ||
		!strings.Contains(string(said.Data), "1") {
		t.Errorf("%v", err)
	}
	_, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "none"})
	if !errors.As(err, &said) || said.Code != -32602 {
		t.Errorf("%v", err)
	}
	out := calls(t, s, "u__note", nil, "")
	if !out.IsError || !strings.Contains(textOf(out), "no_policy") || !strings.Contains(textOf(out), `tool: "u__*"`) {
		t.Errorf("%s", textOf(out))
	}
	out = calls(t, s, "tx_status", nil, "")
	if !out.IsError || !strings.Contains(textOf(out), "give tx") {
		t.Errorf("%s", textOf(out))
	}
	out = calls(t, s, "shard_read", map[string]any{"scop": "x"}, "")
	if !out.IsError || !strings.Contains(textOf(out), "scop") {
		t.Errorf("%s", textOf(out))
	}
}

// In a transaction a held call is answered at once, is not made before the commit, and its receipt fits the schema.
func TestMCPTransaction(t *testing.T) {
	d := openDoor(t)
	s := d.enter(t, "", "", nil)
	tx := field(t, calls(t, s, "tx_begin", nil, ""), "tx").(string)
	calls(t, s, "shard_write", map[string]any{"scope": "shard:/a", "content": "1", "tx": tx}, "")
	out := calls(t, s, "s__drop", nil, tx)
	if out.IsError || !strings.HasPrefix(textOf(out), "HELD") || field(t, out, "hence_held") != true ||
		field(t, out, "tx") != tx {
		t.Errorf("%+v", out)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		schema, _ := json.Marshal(tool.OutputSchema)
		either := strings.Contains(string(schema), "hence_held")
		if either != slices.Contains([]string{"s__drop", "s__fail", "s__note", "s__slow"}, tool.Name) {
			t.Errorf("%s: %s", tool.Name, schema)
		}
	}
	if made := mcptest.Made(d.log); len(made) > 0 {
		t.Errorf("made before the commit: %q", made)
	}
	if out := calls(t, s, "tx_commit", map[string]any{"tx": tx}, ""); field(t, out, "state") != "committed" {
		t.Fatalf("%s", textOf(out))
	}
	eventually(t, func() error {
		out := calls(t, s, "effects_get", map[string]any{"tx": tx}, "")
		if !strings.Contains(textOf(out), `"state":"released"`) {
			return fmt.Errorf("%s", textOf(out))
		}
		return nil
	})
	if made := mcptest.Made(d.log); len(made) != 1 {
		t.Errorf("%q", made)
	}
	out = calls(t, s, "shard_read", map[string]any{"scope": "shard:/a"}, "")
	if field(t, out, "content") != "1" {
		t.Errorf("%s", textOf(out))
	}
}

// What a conversation has begun is the transaction of its next calls, also of a client that cannot name one.
func TestMCPConversation(t *testing.T) {
	d := openDoor(t)
	s := d.enter(t, "", "", map[string]string{"Hence-Session": "one"})
	tx := field(t, calls(t, s, "tx_begin", nil, ""), "tx")
	out := calls(t, s, "s__drop", nil, "")
	if field(t, out, "tx") != tx || len(mcptest.Made(d.log)) > 0 {
		t.Errorf("%s, made %q", textOf(out), mcptest.Made(d.log))
	}
	other := d.enter(t, "", "", map[string]string{"Hence-Session": "two"})
	if out := calls(t, other, "s__look", map[string]any{"at": "x"}, ""); out.Meta["hence/tx"] == tx {
		t.Error("another conversation's call is of it, too")
	}
	if out := calls(t, s, "tx_commit", nil, ""); field(t, out, "tx") != tx || field(t, out, "state") != "committed" {
		t.Errorf("%s", textOf(out))
	}
	if out := calls(t, s, "s__look", map[string]any{"at": "x"}, ""); out.Meta["hence/tx"] == tx {
		t.Error("a call after the commit is of it")
	}
}

// Calls beside each other that move the same wait for each other, and none is refused.
func TestMCPParallel(t *testing.T) {
	d := openDoor(t)
	s := d.enter(t, "", "", nil)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			tool := []string{"s__note", "s__look"}[i%2]
			if out := calls(t, s, tool, map[string]any{"at": "x"}, ""); out.IsError || !strings.HasSuffix(textOf(out), " x") {
				t.Errorf("%s: %s", tool, textOf(out))
			}
		})
	}
	all.Wait()
	if n := len(mcptest.Made(d.log)); n != 10 {
		t.Errorf("%d calls were made", n)
	}
}

// A call is made below the span that its client names, in the same trace.
func TestMCPTrace(t *testing.T) {
	d := openDoor(t)
	s := d.enter(t, "", "", nil)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for parent, want := range map[string]string{"00-" + trace + "-00f067aa0ba902b7-01": "00-" + trace + "-",
		"no": "<nil>", "": "<nil>"} {
		for _, tool := range []string{"s__look", "s__note"} {
			p := &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"at": "traceparent"}}
			if parent != "" {
				p.Meta = sdk.Meta{"traceparent": parent}
			}
			out, err := s.CallTool(background(t), p)
			if err != nil || !strings.HasPrefix(textOf(out), want) {
				t.Errorf("%s with %q: the server is told %q, wanted %s (%v)", tool, parent, textOf(out), want, err)
			}
		}
	}
}

// What a server says of a call's progress its client hears under its own token, before the answer; who has given none
// hears of nothing.
func TestMCPProgress(t *testing.T) {
	d := openDoor(t)
	heard := make(chan *sdk.ProgressNotificationParams, 10)
	hears := func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { heard <- r.Params }
	c := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{ProgressNotificationHandler: hears})
	s, err := c.Connect(background(t), &sdk.StreamableClientTransport{Endpoint: d.MCPURL(), DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: bearer{d.Token(), nil}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, token := range []any{nil, "mine", "next"} {
		p := &sdk.CallToolParams{Name: "s__slow", Arguments: map[string]any{"at": fmt.Sprint(token)}}
		if token != nil {
			p.SetProgressToken(token)
		}
		if out, err := s.CallTool(background(t), p); err != nil || !out.IsError { // it answers nothing else
			t.Fatalf("%+v, %v", out, err)
		}
		if len(heard) == 0 && token != nil {
			t.Errorf("nothing is heard with the token %v", token)
		}
		for len(heard) > 0 { // the call has a key, so it is tried more than once
			if got := <-heard; got.ProgressToken != token || got.Progress != 1 {
				t.Errorf("with the token %v: %+v", token, got)
			}
		}
	}
	if out := calls(t, s, "s__look", map[string]any{"at": "x"}, ""); textOf(out) != "look x" || len(heard) > 0 {
		t.Errorf("%+v, and %d more are heard", out, len(heard))
	}
}

// TestMCPSlowRead: a read that takes longer than the listener's bounds, as its policy lets it, is answered.
func TestMCPSlowRead(t *testing.T) {
	const bound = 500 * time.Millisecond // a minute by default
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		result := `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"wait","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			select {
			case <-time.After(2 * bound):
			case <-r.Context().Done():
			}
			result = `{"content":[{"type":"text","text":"waited"}]}`
		}
		if len(m.ID) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(up.Close)
	set := upstream.Open(map[string]upstream.Server{"s": {Type: "http", URL: up.URL}}, upstream.Options{})
	t.Cleanup(set.Close)
	tools := must(policy.Load([]byte("version: 1\nserver: doors\ntools:\n"+
		"  - {tool: s__wait, class: read, max_time_ms: 600000, scopes: [\"thing:/**\"], mcp: {server: s}}\n"),
		policy.Options{Build: adapters.Over(set)}))(t)
	d := start(t, memlog.New("default").Door(), Config{Agent: "a", Tools: tools, MCP: MCP{Upstreams: set}})
	set.Settled(background(t))
	s := httptest.NewUnstartedServer(d.handler())
	s.Config.ReadTimeout, s.Config.WriteTimeout = bound, bound
	s.Start()
	t.Cleanup(s.Close)
	for name, meta := range map[string]string{"whole": "", "streamed": `,"_meta":{"progressToken":1}`} {
		r := must(http.NewRequestWithContext(background(t), http.MethodPost, s.URL+"/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__wait","arguments":{}`+meta+`}}`)))(t)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		out, err := bearer{d.Token(), nil}.RoundTrip(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := io.ReadAll(out.Body)
		_ = out.Body.Close()
		if err != nil || !strings.Contains(string(text), "waited") {
			t.Errorf("%s: %d %s %v", name, out.StatusCode, text, err)
		}
	}
}

// A call whose outcome is unknown ends its transaction, and the client is told so.
func TestMCPUnknown(t *testing.T) {
	d := openDoor(t)
	s := d.enter(t, "", "", nil)
	out := calls(t, s, "s__slow", nil, "")
	if !out.IsError || !strings.Contains(textOf(out), "tool_failed") {
		t.Errorf("%s", textOf(out))
	}
	eventually(t, func() error {
		list := must(d.only.agent.Transactions(api.Page{Limit: 10}))(t)
		return unless(len(list.Items) == 1 && list.Items[0].State == "aborted", fmt.Sprintf("%+v", list.Items))
	})
}

// TestMCPShardReadForeign: what is no shard is refused by shard_read in words, and is no read of the transaction, also
// where its type is in use, and a read of it could be announced.
func TestMCPShardReadForeign(t *testing.T) {
	d := openDoor(t)
	s := d.enter(t, "", "", nil)
	tx := field(t, calls(t, s, "tx_begin", nil, ""), "tx").(string)
	for _, scope := range []string{"thing:/1", "order:/1", "thing:/**"} {
		for _, of := range []string{tx, ""} {
			args := map[string]any{"scope": scope}
			if of != "" {
				args["tx"] = of
			}
			if out := calls(t, s, "shard_read", args, ""); !out.IsError || !strings.Contains(textOf(out), "bad_scope") {
				t.Errorf("%s of transaction %q: %s", scope, of, textOf(out))
			}
		}
	}
	calls(t, s, "s__note", map[string]any{"at": "1"}, "") // moves thing:/1
	calls(t, s, "shard_write", map[string]any{"scope": "shard:/a", "content": "1", "tx": tx}, "")
	if out := calls(t, s, "tx_commit", map[string]any{"tx": tx}, ""); out.IsError {
		t.Errorf("what was not read is held against the transaction: %s", textOf(out))
	}
}

// A shard is written with what was given and read as what it is: no content is no empty one, and bytes are no text.
func TestMCPShardWhole(t *testing.T) {
	d := openDoor(t)
	s, ctx := d.enter(t, "", "", nil), background(t)
	must(d.client.Put(ctx, "shard:/a", []byte("1"), client.WriteOptions{}))(t)
	tx := field(t, calls(t, s, "tx_begin", nil, ""), "tx").(string)
	for _, args := range []map[string]any{{}, {"content": nil}, {"tx": tx}} {
		args["scope"] = "shard:/a"
		if out := calls(t, s, "shard_write", args, ""); !out.IsError ||
			!strings.Contains(textOf(out), "content is missing") {
			t.Errorf("%v: %s", args, textOf(out))
		}
	}
	if out := calls(t, s, "shard_read", map[string]any{"scope": "shard:/a"}, ""); field(t, out, "content") != "1" {
		t.Errorf("it has become %s", textOf(out))
	}
	must(d.client.Put(ctx, "shard:/bytes", []byte{0xff, 0}, client.WriteOptions{}))(t)
	out := calls(t, s, "shard_read", map[string]any{"scope": "shard:/bytes"}, "")
	if field(t, out, "content_base64") != "/wA=" || strings.Contains(textOf(out), `"content":`) {
		t.Errorf("bytes are %s", textOf(out))
	}
	for half, want := range map[string]int{`\ud800`: 400, `\ud83d\ude00`: 200} { // else two calls would be one
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tx_abort","arguments":{"reason":"` + half +
			`"}}}`
		r := must(http.NewRequestWithContext(ctx, http.MethodPost, d.MCPURL(), strings.NewReader(body)))(t)
		for header, value := range map[string]string{"Authorization": "Bearer " + d.Token(),
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			r.Header.Set(header, value)
		}
		got := must(http.DefaultClient.Do(r))(t)
		if _ = got.Body.Close(); got.StatusCode != want {
			t.Errorf("%s: %d, want %d", half, got.StatusCode, want)
		}
	}
}

// A stale read is refused at the commit in words that say what to read again; aborted, what is held is never made.
func TestMCPRefused(t *testing.T) {
	d := openDoor(t)
	s := d.enter(t, "", "", nil)
	must(d.client.Put(background(t), "shard:/a", []byte("1"), client.WriteOptions{}))(t)
	tx := field(t, calls(t, s, "tx_begin", nil, ""), "tx").(string)
	calls(t, s, "shard_read", map[string]any{"scope": "shard:/a", "tx": tx}, "")
	calls(t, s, "s__drop", nil, tx)
	must(d.client.Put(background(t), "shard:/a", []byte("2"), client.WriteOptions{}))(t)
	out := calls(t, s, "tx_commit", map[string]any{"tx": tx}, "")
	var p api.Problem
	data, _ := json.Marshal(out.Meta["hence/problem"])
	if err := json.Unmarshal(data, &p); err != nil || !out.IsError || p.Code != "stale_read" ||
		!slices.Contains(p.ReRead, "shard:/a") || !strings.Contains(textOf(out), "REFUSED (stale_read)") ||
		!strings.Contains(textOf(out), "Read again: [shard:/a]") {
		t.Errorf("%s, %s", textOf(out), data)
	}
	if made := mcptest.Made(d.log); len(made) > 0 {
		t.Errorf("%q", made)
	}
}

// A tool that is gone between a call and its commit is a phantom: the commit is refused, and the call is never made.
func TestMCPPhantom(t *testing.T) {
	d := openDoor(t)
	s := d.enter(t, "", "", map[string]string{"Hence-Session": "one"})
	registered := func(tool string) bool {
		list, _, err := d.only.agent.Tools(background(t), api.Page{Limit: 100}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(i api.ToolItem) bool { return i.Server == "s" && i.Name == tool })
	}
	eventually(t, func() error { return unless(registered("fail"), "the catalogue is not registered") })
	tx := field(t, calls(t, s, "tx_begin", nil, ""), "tx").(string)
	calls(t, s, "s__fail", nil, tx)
	calls(t, d.enter(t, "", "", nil), "s__drop", nil, "") // the server drops all but two, and says so
	eventually(t, func() error { return unless(!registered("fail"), "the change is not registered") })
	out := calls(t, s, "tx_commit", map[string]any{"tx": tx}, "")
	if !out.IsError || !strings.Contains(textOf(out), "phantom_tool") || !strings.Contains(textOf(out), "fail") {
		t.Errorf("%s", textOf(out))
	}
	made := mcptest.Made(d.log)
	if slices.ContainsFunc(made, func(c string) bool { return strings.HasPrefix(c, "fail") }) {
		t.Errorf("%q", made)
	}
}

// A request without the token calls no tool, and one from a page of another site calls none with it.
func TestMCPGuard(t *testing.T) {
	d := openDoor(t)
	const ask = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	for _, c := range []struct {
		path, token, origin string
		status              int
	}{
		{"", d.Token(), "", http.StatusOK},
		{"", "", "", http.StatusUnauthorized},
		{"", "another", "", http.StatusUnauthorized},
		{"", d.Token(), "https://evil.example", http.StatusForbidden},
		{"", d.Token(), "null", http.StatusForbidden},
		{"", d.Token(), "https://app.example", http.StatusOK},
		{"", d.Token(), d.URL(), http.StatusOK},
		{"/other", d.Token(), "", http.StatusNotFound},
	} {
		r := must(http.NewRequestWithContext(background(t), http.MethodPost, d.MCPURL()+c.path, strings.NewReader(ask)))(t)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+c.token)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		res := must(http.DefaultTransport.RoundTrip(r))(t)
		body := must(io.ReadAll(res.Body))(t)
		_ = res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%+v: %d, %s", c, res.StatusCode, body)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// What is no request of the protocol is answered as such, and the process goes on.
func TestMCPMalformed(t *testing.T) {
	d := openDoor(t)
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__look","arguments":[1]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tx_commit","arguments":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tx_commit","_meta":{"hence/tx":5}}}`,
		`[]`, `{`, `{"jsonrpc":"2.0","method":"tools/call"}`, strings.Repeat("x", 100),
	} {
		r := must(http.NewRequestWithContext(background(t), http.MethodPost, d.MCPURL(), strings.NewReader(body)))(t)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		res := must(bearer{d.Token(), nil}.RoundTrip(r))(t)
		answer := must(io.ReadAll(res.Body))(t)
		_ = res.Body.Close()
		if res.StatusCode >= 500 || strings.Contains(string(answer), "-32603") {
			t.Errorf("%s: %d, %s", body, res.StatusCode, answer)
		}
	}
	if out := calls(t, d.enter(t, "", "", nil), "s__look", map[string]any{"at": "x"}, ""); textOf(out) != "look x" {
		t.Errorf("%+v", out)
	}
}

// A client that cuts its call leaves no doubt behind: the call is made once, and its transaction ends.
func TestMCPCut(t *testing.T) {
	d := openDoor(t)
	s := d.enter(t, "", "", nil)
	ctx, cancel := context.WithCancel(background(t))
	go func() {
		for len(mcptest.Made(d.log)) == 0 && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	_, _ = s.CallTool(ctx, &sdk.CallToolParams{Name: "s__drop"})
	eventually(t, func() error {
		list := must(d.only.agent.Transactions(api.Page{Limit: 10}))(t)
		return unless(len(list.Items) == 1 && list.Items[0].Final, fmt.Sprintf("%+v", list.Items))
	})
	if made := mcptest.Made(d.log); len(made) != 1 {
		t.Errorf("%q", made)
	}
}

// large reports whether a number came whole. The SDK's own client would round it, so it is asked for by hand.
func large(t *testing.T, d *door) bool {
	t.Helper()
	const ask = `{"jsonrpc":"2.0","id":1,"method":"tools/call",` +
		`"params":{"name":"s__look","arguments":{"at":"large number"}}}`
	r := must(http.NewRequestWithContext(background(t), http.MethodPost, d.MCPURL(), strings.NewReader(ask)))(t)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	res := must(bearer{d.Token(), nil}.RoundTrip(r))(t)
	defer res.Body.Close()
	return strings.Contains(string(must(io.ReadAll(res.Body))(t)), `"n":9007199254740993`)
}

func unless(holds bool, why string) error {
	if holds {
		return nil
	}
	return errors.New(why)
}

// eventually waits for what comes by itself.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	ctx := background(t)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
