// Package mcp is the face for MCP clients: the tools of the upstream servers, each call made as the policy says, and a
// few tools of Hence itself. /mcp has all servers' tools as server__tool, /mcp/{server} those of one under their own
// names. The protocol is spoken by the official SDK, without sessions, so that clients of both generations are served.
//
// Guarantees: schemas, annotations, results and errors of an upstream's tools are handed on as they came; no tool is
// called but through the agent, by its policy; a call that is held until its commit is answered within ReleaseWait; a
// page in a browser cannot call a tool (Origin), nor can anybody without a token; an upstream that is away hides no
// other one's tools.
//
// It keeps no state of an agent, but which tools a client's open transactions rely on.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
)

const codeCrossOrigin = "cross_origin"

// Path is where the face is served.
const Path = "/mcp"

// Agent is what the face needs of an agent.
type Agent interface {
	Begin(ctx context.Context, c once.Call, in *api.Begin) (*api.Decision, error)
	Status(ctx context.Context, tx string) (*api.Decision, error)
	Read(ctx context.Context, tx string, in *api.Read) (*api.Shard, *api.Announced, error)
	Write(ctx context.Context, tx string, in *api.Write) (*api.Written, error)
	Effect(ctx context.Context, c once.Call, tx string, in *api.Effect) (*api.Receipt, error)
	Effects(ctx context.Context, tx string) (*api.Effects, error)
	Plan(ctx context.Context, tx string, in *api.Plan) (*api.Planned, error)
	Seal(ctx context.Context, tx string, in *api.Seal) (*api.Decision, error)
	Abort(ctx context.Context, tx, reason string) (*api.Decision, error)
	Get(ctx context.Context, c once.Call, scope string, how api.Look) (*api.Content, error)
	Put(ctx context.Context, c once.Call, in *api.Put) (d *api.Decision, created bool, err error)
	List(ctx context.Context, c once.Call, page api.Page, binds bool) (*api.List, error)
}

// Guest is who sent a request.
type Guest struct {
	Agent
	Name string
	// Class is what the policy says of a tool; false: it serves no such tool.
	Class func(tool string) (sequencer.Class, bool)
	// Registered says that the log knows a server's tool with these schemas.
	Registered func(server, tool, hash string) bool
	// Relies: what the agent's models were told are reads of the conversation, which a call alone is to carry, too.
	Relies bool
	Leave  func()
}

// Upstreams are the servers whose tools are served.
type Upstreams interface {
	States() []upstream.State
	Has(server string) bool
	Tool(server, name string) (upstream.Tool, bool)
}

// Config is what a Face is told.
type Config struct {
	Upstreams Upstreams
	// Enter finds the agent that a request is of; an error is a Problem. Else Leave is called at the request's end.
	Enter   func(*http.Request) (*Guest, error)
	Origins []string // of pages in browsers that may send requests, beside those of this host
	Version string
	Body    int64         // of a request, in bytes
	Calls   int           // how many requests may run at once
	Decided time.Duration // how long a held call that is alone, or a commit, waits for its decision
	// ReleaseWait is how long a held call that is alone is waited for after its commit. Clients cut a call after 5 s.
	ReleaseWait time.Duration
	Longest     time.Duration // of a request; the listener's bounds may be shorter
	Log         *slog.Logger
}

// Face serves MCP clients.
type Face struct {
	Config
	pins    *pins
	turns   turns
	running chan struct{}
	working sync.WaitGroup // calls whose client may have gone
	served  http.Handler
	// streamed answers by server-sent events, which have room for a call's progress.
	streamed http.Handler
}

// New makes the face of a sidecar.
func New(c Config) *Face {
	f := &Face{Config: c, pins: newPins(), turns: turns{open: map[[2]string]*turn{}},
		running: make(chan struct{}, max(1, c.Calls))}
	version := c.Version
	if version == "" {
		version = "dev"
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "hence", Title: "Hence", Version: version}, &sdk.ServerOptions{
		Instructions: instructions, Logger: c.Log,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	server.AddReceivingMiddleware(f.receive)
	// The SDK hands what was verified of a token on to the handlers of a request: its guest, and where it was sent.
	verified := auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		v, ok := ctx.Value(visitKey{}).(*visit)
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{Expiration: time.Now().Add(time.Hour), Extra: map[string]any{"visit": v}}, nil
	}, nil)
	handler := func(whole bool) http.Handler {
		return verified(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
			&sdk.StreamableHTTPOptions{
				Stateless: true, JSONResponse: whole, Logger: c.Log, MaxRequestBodyBytes: c.Body,
				PropagateRequestCancellation: true,
				DisableLocalhostProtection:   true, // what a name leads to says nothing: the token does, and Origin is looked at
			}))
	}
	f.served, f.streamed = handler(true), handler(false)
	return f
}

const instructions = "Tool calls go through Hence. A call that cannot be undone may be answered with HELD: it is " +
	"accepted, and made once its transaction has committed; do not call it again. Begin a transaction with tx_begin to " +
	"let several calls take effect together or not at all."

type visitKey struct{}

// visit is one request.
type visit struct {
	guest   *Guest
	server  string // the one whose endpoint it is; empty: the aggregate
	session string
	tx      string
	signed  api.Signed
}

// Busy reports whether requests are under way.
func (f *Face) Busy() bool { return len(f.running) > 0 }

// ServeHTTP answers one request.
func (f *Face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := f.enter(r)
	if err != nil {
		refuse(w, api.AsProblem(err))
		return
	}
	defer v.guest.Leave()
	select {
	case f.running <- struct{}{}:
		defer func() { <-f.running }()
	default:
		refuse(w, api.AsProblem(api.Problemf(api.CodeBusy, "%d requests of MCP clients are under way", cap(f.running))))
		return
	}
	body, err := bodyOf(r, f.Body)
	if err != nil {
		refuse(w, api.AsProblem(err))
		return
	}
	served := f.served
	if bytes.Contains(body, []byte(`"progressToken"`)) { // it wants to hear of its progress
		served = f.streamed
	}
	// A read takes as long as its policy lets it. The read deadline, which would end the context, is moved once the body
	// is there, so that a slow sender keeps the listener's.
	c, until := http.NewResponseController(w), time.Now().Add(f.Longest)
	_ = c.SetReadDeadline(until) // not every writer has one
	_ = c.SetWriteDeadline(until)
	if v.signed.Key != "" { // the SDK takes no request without a token
		r.Header.Set("Authorization", "Bearer signed")
	}
	served.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
}

// bodyOf reads a request's body, which is there as before. An error says that it is not the one that was signed, or no
// text.
func bodyOf(r *http.Request, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if p := (*api.Problem)(nil); errors.As(err, &p) { // all else that is larger, or broken, the SDK finds again
		return nil, p
	}
	if int64(len(body)) <= most {
		if err := api.CheckText(body); err != nil {
			return nil, api.Problemf(api.CodeBadRequest, "%v", err)
		}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	return body, nil
}

// enter takes a request through what is checked before any of it is read.
func (f *Face) enter(r *http.Request) (*visit, error) {
	if !f.fromHere(r) {
		// A page could else have the browser call tools with what the user has configured.
		return nil, &api.Problem{Type: api.ProblemType(codeCrossOrigin), Title: http.StatusText(http.StatusForbidden),
			Status: http.StatusForbidden, Code: codeCrossOrigin,
			Detail: fmt.Sprintf("a page of %.100s sent this: name it with --mcp-origin if it may",
				gate.Plain(r.Header.Get("Origin")))}
	}
	server := strings.Trim(strings.TrimPrefix(r.URL.Path, Path), "/")
	if server != "" && !f.Upstreams.Has(server) {
		return nil, api.Problemf(api.CodeNoRoute, "no MCP server %.40q is configured: %s lists the tools of all", server,
			Path)
	}
	session, err := api.SessionOf(r.Header)
	if err != nil {
		return nil, err
	}
	guest, err := f.Enter(r)
	if err != nil {
		return nil, err
	}
	return &visit{guest: guest, server: server, session: session, tx: r.Header.Get("Hence-Tx"),
		signed: api.SignedOf(r.Context())}, nil
}

// fromHere: requests of programs have no Origin; those of pages have theirs.
func (f *Face) fromHere(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(f.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host != r.Host {
		return false
	}
	host := u.Hostname() // of the same host is one only where no other name can lead here
	return host == "127.0.0.1" || host == "localhost" || host == "::1"
}

// refuse answers before the protocol begins.
func refuse(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="hence"`)
		if p.Code != api.CodeUnauthorized {
			w.Header().Set("Accept-Signature", api.AcceptSignature)
		}
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(mustJSON(p), '\n'))
}

// receive answers what the face itself answers, and leaves the rest of the protocol to the SDK. Tools are not added to
// the SDK's server: it has one catalogue for all, and refuses schemas that it cannot read by a panic.
func (f *Face) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (out sdk.Result, err error) {
		defer func() {
			if why := recover(); why != nil { // in a goroutine of the SDK: it would end the process, with all its agents
				f.Log.Error("a request of an MCP client failed", "method", method, "cause", why, "stack", string(debug.Stack()))
				out, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
					Message: "the request failed: see the sidecar's log"}
			}
		}()
		v := visitOf(r)
		switch in := r.(type) {
		case *sdk.ListToolsRequest:
			if v == nil {
				return nil, errors.New("the request has no guest")
			}
			return f.list(v), nil
		case *sdk.CallToolRequest:
			switch {
			case v == nil:
				return nil, errors.New("the request has no guest")
			case in.Params == nil:
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params is missing: name the tool"}
			}
			// The context is the SDK's, and not that of the request.
			out, err := f.call(api.WithSigned(progressing(traced(ctx, in), in), v.signed), v, in)
			if _, newer := in.Params.Meta[metaProtocol]; newer && err == nil {
				out = complete(out)
			}
			if err != nil {
				return nil, err // and no typed nil
			}
			return out, nil
		}
		return next(ctx, method, r)
	}
}

// traced puts a call below the span that its client names.
func traced(ctx context.Context, in *sdk.CallToolRequest) context.Context {
	parent, named := in.Params.Meta["traceparent"].(string)
	if !named {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
}

// progressing lets a client hear of the progress of its call, under its own token, where it has given one.
func progressing(ctx context.Context, in *sdk.CallToolRequest) context.Context {
	token := in.Params.Meta["progressToken"]
	if token == nil {
		return ctx
	}
	return gate.WithProgress(ctx, func(said json.RawMessage) {
		var p sdk.ProgressNotificationParams
		if json.Unmarshal(said, &p) != nil {
			return
		}
		p.ProgressToken = token
		_ = in.Session.NotifyProgress(ctx, &p) // a client that has gone hears of nothing
	})
}

// metaProtocol is there in a request of the generation without sessions, which wants to be told that a result is
// whole.
const metaProtocol = "io.modelcontextprotocol/protocolVersion"

// complete says that a result is whole, which the SDK says of results of its own handlers only.
func complete(out *sdk.CallToolResult) *sdk.CallToolResult {
	whole := &sdk.CallToolResult{}
	if json.Unmarshal([]byte(`{"content": [], "resultType": "complete"}`), whole) != nil {
		return out
	}
	whole.Meta, whole.Content, whole.IsError = out.Meta, out.Content, out.IsError
	whole.StructuredContent = out.StructuredContent
	return whole
}

func visitOf(r sdk.Request) *visit {
	extra := r.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	v, _ := extra.TokenInfo.Extra["visit"].(*visit)
	return v
}
