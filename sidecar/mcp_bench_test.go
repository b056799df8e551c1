package sidecar

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

const costPolicy = `version: 1
server: doors
tools:
  - {tool: s__look, class: read, scopes: ["thing:/**"], mcp: {server: s}}
  - {tool: s__note, class: known_outcome, keyed: true, scopes: ["thing:/{at}"], args: [at], mcp: {server: s}}
`

// BenchmarkMCP is a call of a server's tool by way of the gateway, in turns with one by way of a bare reverse proxy:
// the medians' ratio for a read, and for an eager effect, which commits, less one commit of a shard in the same run.
func BenchmarkMCP(b *testing.B) {
	server := sdk.NewServer(&sdk.Implementation{Name: "s"}, nil)
	type in struct {
		At string `json:"at"`
	}
	for _, name := range []string{"look", "note"} {
		sdk.AddTool(server, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, in) (*sdk.CallToolResult,
			any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
		})
	}
	options := &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}
	direct := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, options))
	defer direct.Close()
	to, err := url.Parse(direct.URL)
	if err != nil {
		b.Fatal(err)
	}
	bare := httptest.NewServer(httputil.NewSingleHostReverseProxy(to))
	defer bare.Close()
	set := upstream.Open(map[string]upstream.Server{"s": {Type: "http", URL: direct.URL}}, upstream.Options{})
	defer set.Close()
	tools, err := policy.Load([]byte(costPolicy), policy.Options{Build: adapters.Over(set)})
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(Config{Agent: "a", DataDir: b.TempDir(), Tools: tools, MCP: MCP{Upstreams: set},
		Logger: slog.New(slog.DiscardHandler)}, memlog.New("default").Door())
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() { stop(); <-ended }()
	<-s.Ready()
	set.Settled(ctx)
	c := client.New(s.URL(), s.Token())
	defer c.Close()
	proxied, ours := sessionAt(b, bare.URL, ""), sessionAt(b, s.MCPURL(), s.Token())
	call := func(session *sdk.ClientSession, tool string) func() error {
		return func() error {
			_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"at": "x"}})
			return err
		}
	}
	ways := []func() error{call(proxied, "look"), call(ours, "s__look"), call(ours, "s__note"), func() error {
		_, err := c.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{})
		return err
	}}
	took := make([][]float64, len(ways))
	b.ResetTimer()
	for range b.N {
		for i, way := range ways {
			began := time.Now()
			if err := way(); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], float64(time.Since(began)))
		}
	}
	b.StopTimer()
	median := func(i int) float64 {
		slices.Sort(took[i])
		return took[i][len(took[i])/2]
	}
	b.ReportMetric(median(0)/1e3, "proxy-µs")
	b.ReportMetric(median(1)/median(0), "read/proxy")
	b.ReportMetric(median(2)/median(0), "eager/proxy")
	b.ReportMetric((median(2)-median(3))/median(0), "eager-commit/proxy")
}

// sessionAt is an MCP client at an address.
func sessionAt(b *testing.B, at, token string) *sdk.ClientSession {
	b.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "bench"}, nil)
	s, err := c.Connect(context.Background(), &sdk.StreamableClientTransport{Endpoint: at, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: bearer{token, nil}}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}
