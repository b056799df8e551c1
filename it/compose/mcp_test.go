package compose

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/it/harness"
)

// mcp looks at what the profile "mcp" adds: a client of this machine reads a tool of the server, and what it orders
// has left once that is committed.
func (s *stack) mcp(t *testing.T) {
	s.Must(t, "--profile", "mcp", "up", "-d", "--no-deps", "--no-build", "shelf", "gateway")
	defer s.Must(t, "--profile", "mcp", "rm", "--stop", "--force", "shelf", "gateway")
	at := fmt.Sprintf("http://127.0.0.1:%d", s.Ports["HENCE_GATEWAY_PORT"])
	harness.EachSecond(t, harness.CommitBound, func() error {
		resp, err := http.Get(at + "/readyz")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the gateway answers %s", resp.Status)
		}
		return nil
	})
	id := strings.TrimSpace(s.Must(t, "--profile", "mcp", "ps", "-q", "gateway"))
	token, err := harness.Docker(time.Minute, nil, "cp", id+":/run/hence/token", "-")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	client := &http.Client{Transport: bearer(inTar(token))}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: at + "/mcp", HTTPClient: client, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	call := func(tool string, args map[string]any) string {
		t.Helper()
		out, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
		if err != nil || out.IsError || len(out.Content) == 0 {
			t.Fatalf("%s: %+v, %v", tool, out, err)
		}
		text, _ := out.Content[0].(*sdk.TextContent)
		return text.Text
	}
	list, err := session.ListTools(ctx, nil)
	if err != nil || !slices.ContainsFunc(list.Tools, func(t *sdk.Tool) bool { return t.Name == "shelf__order" }) {
		t.Fatalf("the tools are %+v, %v", list, err)
	}
	if got := call("shelf__look", map[string]any{"item": "mugs"}); got != "10 mugs" {
		t.Errorf("at first there are %s", got)
	}
	call("shelf__order", map[string]any{"item": "mugs", "count": 5})
	harness.EachSecond(t, time.Minute, func() error {
		if got := call("shelf__look", map[string]any{"item": "mugs"}); got != "15 mugs" {
			return fmt.Errorf("after the order there are %s", got)
		}
		return nil
	})
}

// bearer sends a token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// inTar is the one file of an archive, without its line's end.
func inTar(archive string) string {
	files := tar.NewReader(strings.NewReader(archive))
	if _, err := files.Next(); err != nil {
		return ""
	}
	text, _ := io.ReadAll(files)
	return strings.TrimSpace(string(text))
}
