package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/gate/upstream/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func open(t *testing.T, servers map[string]upstream.Server) *upstream.Set {
	t.Helper()
	set := upstream.Open(servers, upstream.Options{Start: 5 * time.Second, Pause: 10 * time.Millisecond})
	t.Cleanup(set.Close)
	return set
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// until waits for what a server is to come to.
func until(t *testing.T, set *upstream.Set, what string, holds func() bool) {
	t.Helper()
	changed := make(chan struct{}, 1)
	defer set.Watch(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	ctx := within(t)
	for !holds() {
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: it does not come to that: %+v", what, set.States())
		}
	}
}

func names(s upstream.State) (out []string) {
	for _, t := range s.Tools {
		out = append(out, t.Name)
	}
	return out
}

// What a server answers comes whole, and the three ways in which a call can fail are told apart.
func TestCall(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	set := open(t, map[string]upstream.Server{"s": mcptest.Config(mcptest.Good, log)})
	ctx := within(t)
	res, err := set.Call(ctx, "s", upstream.Call{Tool: "note", Args: json.RawMessage(`{"at":"x"}`),
		Meta: map[string]any{"hence/key": "k1"}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Content           []struct{ Text string }
		StructuredContent struct{ Said string }
		Meta              struct{ Of string } `json:"_meta"`
	}
	if err := json.Unmarshal(res.Raw, &got); err != nil || got.Content[0].Text != "note x" ||
		got.StructuredContent.Said != "note x" || got.Meta.Of != "mcptest" || res.IsError {
		t.Errorf("%s, %v", res.Raw, err)
	}
	if made := mcptest.Made(log); !slices.Equal(made, []string{"note:x:k1"}) {
		t.Errorf("the server was called %q", made)
	}
	res, err = set.Call(ctx, "s", upstream.Call{Tool: "fail"})
	if err != nil || !res.IsError || res.Refused || res.Said != "it does not fit" {
		t.Errorf("a failure is %+v, %v", res, err)
	}
	res, err = set.Call(ctx, "s", upstream.Call{Tool: "note", Args: json.RawMessage(`{"at":"invalid"}`)})
	if err != nil || !res.Refused || !strings.Contains(string(res.Raw), `"code":-32602`) {
		t.Errorf("a refusal is %s, %v", res.Raw, err)
	}
	for _, c := range []upstream.Call{{Tool: "none"}, {Tool: "note", Hash: "sha256:other"}} {
		if _, err := set.Call(ctx, "s", c); !errors.Is(err, upstream.ErrNotSent) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := set.Call(ctx, "other", upstream.Call{}); !errors.Is(err, upstream.ErrNotSent) {
		t.Errorf("a server that is not configured: %v", err)
	}
	if n := len(mcptest.Made(log)); n != 3 {
		t.Errorf("%d calls were made, want 3: what is not sent is not made", n)
	}
}

// A call that is not answered is unknown, and its progress is handed on meanwhile.
func TestSlow(t *testing.T) {
	set := open(t, map[string]upstream.Server{"s": mcptest.Config(mcptest.Good, "")})
	ctx, cancel := context.WithCancel(within(t))
	_, err := set.Call(ctx, "s", upstream.Call{Tool: "slow", Progress: func(json.RawMessage) { cancel() }})
	if !errors.Is(err, upstream.ErrUnknown) {
		t.Errorf("%v", err)
	}
	if _, err := set.Call(within(t), "s", upstream.Call{Tool: "look"}); err != nil {
		t.Errorf("the session does not go on: %v", err)
	}
}

// The catalogue follows the server, and a tool that is gone is not called.
func TestChanges(t *testing.T) {
	set := open(t, map[string]upstream.Server{"s": mcptest.Config(mcptest.Good, "")})
	ctx := within(t)
	if _, err := set.Call(ctx, "s", upstream.Call{Tool: "drop"}); err != nil {
		t.Fatal(err)
	}
	until(t, set, "a changed list", func() bool { return slices.Equal(names(set.States()[0]), []string{"drop", "look"}) })
	if _, err := set.Call(ctx, "s", upstream.Call{Tool: "note"}); !errors.Is(err, upstream.ErrNotSent) {
		t.Errorf("a tool that is gone: %v", err)
	}
}

// A server that misbehaves costs the others nothing.
func TestHostile(t *testing.T) {
	servers := map[string]upstream.Server{"good": mcptest.Config(mcptest.Good, "")}
	for _, mode := range []string{mcptest.Hang, mcptest.Flood, mcptest.Huge, mcptest.Dies, mcptest.Twice, mcptest.Bad,
		mcptest.Loops} {
		servers[mode] = mcptest.Config(mode, "")
	}
	servers["absent"] = upstream.Server{Type: "stdio", Command: "/no/such/program"}
	set := open(t, servers)
	ctx := within(t)
	look := func(server string) error {
		_, err := set.Call(ctx, server, upstream.Call{Tool: "look", Args: json.RawMessage(`{"at":"x"}`)})
		return err
	}
	for range 3 {
		if err := look("good"); err != nil {
			t.Fatalf("the good one: %v", err)
		}
	}
	for server, want := range map[string]error{"absent": upstream.ErrNotSent, mcptest.Loops: upstream.ErrNotSent,
		mcptest.Flood: upstream.ErrNotSent, mcptest.Dies: upstream.ErrUnknown, mcptest.Huge: upstream.ErrUnknown} {
		if err := look(server); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", server, err, want)
		}
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := set.Call(short, mcptest.Hang, upstream.Call{Tool: "look"}); !errors.Is(err, upstream.ErrNotSent) {
		t.Errorf("one that hangs: %v", err)
	}
	for range 3 { // an answer that no call awaits any more is not the next call's
		res, err := set.Call(ctx, mcptest.Twice, upstream.Call{Tool: "look", Args: json.RawMessage(`{"at":"x"}`)})
		if err != nil || !strings.Contains(string(res.Raw), "look x") {
			t.Errorf("one that answers twice: %s, %v", res.Raw, err)
		}
	}
	until(t, set, "bad schemas", func() bool {
		for _, s := range set.States() {
			if s.Name == mcptest.Bad {
				return slices.Equal(names(s), []string{"good"}) && len(s.LeftOut) == 4
			}
		}
		return false
	})
	until(t, set, "the next start of one that died", func() bool {
		s, _ := set.State(mcptest.Dies)
		return s.Phase == upstream.Ready
	})
}

// A program that has ended is started again, and closing waits for no longer than two bounds, though what the program
// left behind in a session of its own holds its output open.
func TestLeavesItsOutputOpen(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	// A start may take longer than the test waits, so no failure is a time-out; the pause lets the test see one.
	set := upstream.Open(map[string]upstream.Server{"forks": mcptest.Config(mcptest.Forks, log),
		"leaves": mcptest.Config(mcptest.Leaves, log), "stays": mcptest.Config(mcptest.Leaves, log)},
		upstream.Options{Pause: time.Second})
	var closing sync.Once
	end := func() { closing.Do(set.Close) }
	t.Cleanup(end)
	t.Cleanup(func() {
		for _, pid := range mcptest.Left(log) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	ctx := within(t)
	if _, err := set.Call(ctx, "stays", upstream.Call{Tool: "look", Args: json.RawMessage(`{"at":"stay"}`)}); err != nil {
		t.Fatal(err)
	}
	_, err := set.Call(ctx, "leaves", upstream.Call{Tool: "look", Args: json.RawMessage(`{"at":"x"}`)})
	if !errors.Is(err, upstream.ErrUnknown) || !strings.Contains(err.Error(), "holds its output open") {
		t.Errorf("a call of one that leaves: %v", err)
	}
	until(t, set, "the failure of one that forks", func() bool {
		s, _ := set.State("forks")
		return s.Phase == upstream.Failed && strings.Contains(s.Err, "holds its output open")
	})
	until(t, set, "the next start of one that left", func() bool {
		s, _ := set.State("leaves")
		return s.Phase == upstream.Ready
	})
	closed := make(chan struct{})
	go func() { defer close(closed); end() }()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Error("closing has no end")
	}
}

// A service at a URL is called with the headers of its entry, which are not sent to another host.
func TestHTTP(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "h"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		At string `json:"at"`
	}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.At}}}, nil, nil
	})
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "secret" {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	set := open(t, map[string]upstream.Server{
		"with":    {Type: "http", URL: web.URL, Headers: map[string]string{"X-Key": "secret"}},
		"without": {Type: "http", URL: web.URL}})
	t.Cleanup(web.CloseClientConnections)
	res, err := set.Call(within(t), "with", upstream.Call{Tool: "echo", Args: json.RawMessage(`{"at":"x"}`)})
	if err != nil || !strings.Contains(string(res.Raw), `"text":"x"`) {
		t.Errorf("%s, %v", res.Raw, err)
	}
	if _, err := set.Call(within(t), "without", upstream.Call{Tool: "echo"}); !errors.Is(err, upstream.ErrNotSent) {
		t.Errorf("without the key: %v", err)
	}
	set.Close()
	web.Close()
}

// The configured headers go to no other host, also not at the second redirection there, which comes from that host
// itself.
func TestHeadersOverRedirects(t *testing.T) {
	at := make(chan string, 64)
	tell := func(r *http.Request, host string) {
		select {
		case at <- host + r.URL.Path + " " + r.Header.Get("X-Key"):
		default: // the server is tried again: more than enough is known
		}
	}
	var other *httptest.Server
	other = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tell(r, "other")
		if r.URL.Path == "/1" {
			http.Redirect(w, r, other.URL+"/2", http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(other.Close)
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tell(r, "own")
		to := "/moved"
		if r.URL.Path == to {
			to = other.URL + "/1"
		}
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(own.Close)
	open(t, map[string]upstream.Server{"s": {Type: "http", URL: own.URL + "/mcp",
		Headers: map[string]string{"X-Key": "secret"}}})
	ctx := within(t)
	for _, want := range []string{"own/mcp secret", "own/moved secret", "other/1 ", "other/2 "} {
		select {
		case got := <-at:
			if got != want {
				t.Fatalf("a request %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("no request %q", want)
		}
	}
}

func TestReadConfig(t *testing.T) {
	t.Setenv("HENCE_TEST_VALUE", "from outside")
	read := func(text string) (map[string]upstream.Server, error) {
		path := filepath.Join(t.TempDir(), "mcp.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return upstream.ReadConfig(path)
	}
	got, err := read(`{"mcpServers":{"a":{"command":"x","args":["${HENCE_TEST_VALUE}","${NOT_SET_HERE:-other}"]},
		"b":{"type":"http","url":"http://h/mcp","headers":{"A":"Bearer ${HENCE_TEST_VALUE}"}}}}`)
	if err != nil || got["a"].Args[0] != "from outside" || got["a"].Args[1] != "other" || got["a"].Type != "stdio" ||
		got["b"].Headers["A"] != "Bearer from outside" {
		t.Errorf("%+v, %v", got, err)
	}
	many := func(n int) string { // an agent registers so many and no more
		servers := make([]string, n)
		for i := range servers {
			servers[i] = fmt.Sprintf(`"s%d":{"command":"x"}`, i)
		}
		return `{"mcpServers":{` + strings.Join(servers, ",") + `}}`
	}
	if got, err := read(many(upstream.MaxServers)); err != nil || len(got) != upstream.MaxServers {
		t.Errorf("%d servers, %v", len(got), err)
	}
	for text, want := range map[string]string{
		many(upstream.MaxServers + 1): fmt.Sprintf("keep it to %d", upstream.MaxServers),

		`[]`:                      "no JSON object",
		`{"servers":{}}`:          `below "mcpServers"`,
		`{"mcpServers":{}}`:       "names no server",
		`{"mcpServers":{"a":{}}}`: "a command, or a url",
		`{"mcpServers":{"a":{"command":"x","url":"http://h"}}}`:           "one of both",
		`{"mcpServers":{"a__b":{"command":"x"}}}`:                         "names its tools",
		`{"mcpServers":{"a":{"command":"x","comand":"y"}}}`:               "it takes command",
		`{"mcpServers":{"a":{"command":"x","args":["${NOT_SET_HERE}"]}}}`: "NOT_SET_HERE is not set",
		`{"mcpServers":{"a":{"url":"ftp://h"}}}`:                          "no absolute URL",
		`{"mcpServers":{"a":{"type":"sse","url":"http://h"}}}`:            "transport of 2024",
		`{"mcpServers":{"a":{"url":"http://h","args":["x"]}}}`:            "are for a command",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Public names fit what models take, and no two tools share one.
func TestName(t *testing.T) {
	long := strings.Repeat("x", 80)
	seen := map[string]bool{}
	for _, tool := range []string{"read", "a.b", "a_b", "a/b", long, long + "y"} {
		name := upstream.Name("files", tool)
		if len(name) > upstream.MaxName || seen[name] || strings.ContainsAny(name, "./") {
			t.Errorf("%q is called %q", tool, name)
		}
		seen[name] = true
	}
	if name := upstream.Name("files", "read"); name != "files__read" {
		t.Error(name)
	}
}
