package mcptools

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bridge serves a client on in and out what a sidecar serves at url, until the client closes its end. What carries its
// requests shows that they may be sent.
func Bridge(ctx context.Context, in io.Reader, out io.Writer, url string, carries http.RoundTripper,
	version string) error {
	// One process is one conversation: what it begins with tx_begin is what its next calls are of.
	carrier := &http.Client{Transport: &ofSession{"stdio-" + rand.Text(), carries}}
	var server *mcp.Server
	upstream := mcp.NewClient(&mcp.Implementation{Name: "hence-mcp-stdio", Version: version},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{},
			ProgressNotificationHandler: func(ctx context.Context, r *mcp.ProgressNotificationClientRequest) {
				for client := range server.Sessions() { // there is one, and the token is its own
					_ = client.NotifyProgress(ctx, r.Params)
				}
			}})
	session, err := upstream.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: carrier,
		DisableStandaloneSSE: true}, nil)
	if err != nil {
		return fmt.Errorf("connect to %s: %w (is a sidecar with --mcp there, and HENCE_TOKEN its token?)", url, err)
	}
	defer session.Close()
	server = mcp.NewServer(&mcp.Implementation{Name: "hence", Title: "Hence", Version: version}, &mcp.ServerOptions{
		Instructions: session.InitializeResult().Instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			switch in := r.(type) {
			case *mcp.ListToolsRequest:
				list := &mcp.ListToolsParams{}
				if in.Params != nil { // as some clients leave them out
					list.Cursor = in.Params.Cursor
				}
				return session.ListTools(ctx, list)
			case *mcp.CallToolRequest:
				if in.Params == nil {
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params is missing: name the tool"}
				}
				return session.CallTool(ctx, &mcp.CallToolParams{Meta: in.Params.Meta, Name: in.Params.Name,
					Arguments: in.Params.Arguments})
			}
			return next(ctx, method, r)
		}
	})
	err = server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: unclosed{out}})
	if errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) {
		return nil
	}
	return err
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// ofSession makes all requests one conversation's.
type ofSession struct {
	session string
	next    http.RoundTripper
}

func (o *ofSession) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Hence-Session", o.session)
	return o.next.RoundTrip(r)
}
