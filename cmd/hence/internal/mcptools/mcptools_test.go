package mcptools

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/gate/upstream/mcptest"
	"github.com/hence-dev/hence/sequencer"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	m.Run()
}

// A policy from catalogues can be loaded as it is, holds what does not say that it reads, and all of a server that is
// away; and lint finds no mistake in it.
func TestFirstPolicy(t *testing.T) {
	set := upstream.Open(map[string]upstream.Server{"s": mcptest.Config(mcptest.Good, ""),
		"bad": mcptest.Config(mcptest.Bad, ""), "Gone": {Type: "stdio", Command: "/no/such/program"},
		"My_server-2": {Type: "stdio", Command: "/none"}},
		upstream.Options{Pause: time.Hour})
	defer set.Close()
	set.Settled(t.Context())
	text := FirstPolicy(set.States())
	p, err := policy.Load(text, policy.Options{Build: adapters.Over(set)})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for tool, want := range map[string]sequencer.Class{"s__look": sequencer.ClassRead,
		"s__note": sequencer.ClassIrreversible, "Gone__any": sequencer.ClassIrreversible,
		"bad__good": sequencer.ClassIrreversible} {
		if class, _, declared := p.Treats(tool); class != want || !declared {
			t.Errorf("%s is %v, %v", tool, class, declared)
		}
	}
	for _, f := range p.Lint() {
		if f.Severity == policy.Mistake {
			t.Errorf("%+v", f)
		}
	}
	if !strings.Contains(string(text), `left out: "array"`) || !strings.Contains(string(text), "Gone: start") {
		t.Errorf("what is not there is not said:\n%s", text)
	}
	p, err = policy.Load(DefaultPolicy([]string{"s", "bad", "Gone"}), policy.Options{Build: adapters.Over(set)})
	if err != nil {
		t.Fatal(err)
	}
	if class, _, declared := p.Treats("s__look"); class != sequencer.ClassIrreversible || !declared {
		t.Errorf("without a policy a call is %v, %v", class, declared)
	}
}

// Each client's text names the sidecar, and no token.
func TestConfig(t *testing.T) {
	for _, client := range Clients() {
		text, found := Config(client, "http://127.0.0.1:7420/mcp")
		if !found || !strings.Contains(text, "http://127.0.0.1:7420") || !strings.Contains(text, "HENCE_TOKEN") {
			t.Errorf("%s:\n%s", client, text)
		}
	}
	if _, found := Config("nobody", ""); found {
		t.Error("an unknown client is found")
	}
}

// token shows a token.
type token string

func (t token) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

// What a client says on the bridge reaches the sidecar with the token, and ends when the client closes its end.
func TestBridge(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "h"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(ctx context.Context, r *mcp.CallToolRequest, in struct {
		At string `json:"at"`
	}) (*mcp.CallToolResult, any, error) {
		if asked := r.Params.GetProgressToken(); asked != nil {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: asked, Progress: 1})
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.At}}}, nil, nil
	})
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	in, toBridge := io.Pipe()
	fromBridge, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Bridge(ctx, in, out, web.URL, token("secret"), "v1") }()
	heard := make(chan any, 4)
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			heard <- r.Params.ProgressToken
		}})
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: fromBridge, Writer: toBridge}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := session.ListTools(ctx, nil)
	if err != nil || len(list.Tools) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"at": "x"}})
	if data, _ := json.Marshal(got); err != nil || !strings.Contains(string(data), `"text":"x"`) {
		t.Errorf("%s, %v", data, err)
	}
	asks := &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"at": "y"}}
	asks.SetProgressToken("mine")
	if _, err := session.CallTool(ctx, asks); err != nil {
		t.Error(err)
	}
	select {
	case token := <-heard:
		if token != "mine" || len(heard) > 0 {
			t.Errorf("progress is heard with the token %v, and %d more", token, len(heard))
		}
	case <-ctx.Done():
		t.Error("progress is not heard over the bridge")
	}
	_ = toBridge.Close()
	if err := <-ended; err != nil {
		t.Errorf("the bridge ends with %v", err)
	}
	_ = fromBridge.Close()
	_ = session.Close()
	err = Bridge(ctx, in, out, web.URL, token("wrong"), "v1")
	if err == nil || !strings.Contains(err.Error(), "HENCE_TOKEN") {
		t.Errorf("with a wrong token: %v", err)
	}
}
