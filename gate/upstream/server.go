package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what a server may send.
const (
	MaxMessage = 8 << 20 // bytes of one message
	MaxTools   = 1000
	maxPages   = 100
	maxPause   = 30 * time.Second
	relistGap  = 200 * time.Millisecond // between two lists of a server that says again and again that they change
)

// server is one MCP server with its session.
type server struct {
	name    string
	config  Server
	set     *Set
	relist  chan struct{} // the server says that its tools have changed
	settled chan struct{} // closed when the first start has succeeded or failed
	once    sync.Once

	mu       sync.Mutex
	state    State
	session  *mcp.ClientSession // nil: it is not ready
	turn     chan struct{}      // closed when the phase changes
	progress map[string]func(json.RawMessage)
	tokens   int
}

func newServer(name string, config Server, set *Set) *server {
	return &server{name: name, config: config, set: set, relist: make(chan struct{}, 1), settled: make(chan struct{}),
		state: State{Name: name, Phase: Starting, Since: time.Now(), Tools: []Tool{}}, turn: make(chan struct{}),
		progress: map[string]func(json.RawMessage){}}
}

func (s *server) look() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.state
	out.Tools = slices.Clone(out.Tools)
	return out
}

// run keeps a session until ctx ends. There is one start at a time, for all waiting calls.
func (s *server) run(ctx context.Context) {
	pause := s.set.options.Pause
	for ctx.Err() == nil {
		began := time.Now()
		err := s.live(ctx)
		if ctx.Err() != nil {
			return
		}
		s.enter(Failed, nil, err)
		s.set.options.Log.Warn("an MCP server is away", "server", s.name, "error", err)
		if time.Since(began) > maxPause { // it has served for a while
			pause = s.set.options.Pause
		}
		wait := time.NewTimer(pause/2 + rand.N(pause)) // not all at once after an outage of what they share
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		pause = min(2*pause, maxPause)
		s.enter(Starting, nil, nil)
	}
}

// live starts the server, and returns when its session has ended.
func (s *server) live(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	starting, started := context.WithTimeoutCause(ctx, s.set.options.Start, errors.New("it took too long to start"))
	defer started()
	to, err := s.link(ctx)
	if err != nil {
		return err
	}
	defer to.close()
	client := mcp.NewClient(&mcp.Implementation{Name: "hence", Version: s.set.options.Version}, s.clientOptions())
	session, err := client.Connect(starting, to.Transport, nil)
	if err != nil {
		return to.said(cause(starting, err))
	}
	defer session.Close()
	tools, left, err := list(starting, s.name, session)
	if err != nil {
		return to.said(fmt.Errorf("list its tools: %w", cause(starting, err)))
	}
	s.ready(session, tools, left)
	gone := make(chan error, 1)
	go func() { gone <- session.Wait() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-gone:
			if err == nil {
				err = errors.New("it has ended the session")
			}
			return to.said(err)
		case <-s.relist:
		}
		gap := time.NewTimer(relistGap)
		again, cancel := context.WithTimeout(ctx, s.set.options.Start)
		tools, left, err := list(again, s.name, session)
		cancel()
		if err != nil { // what it has now is not known, so nothing is called by what it had
			return to.said(fmt.Errorf("list its tools again: %w", err))
		}
		s.ready(session, tools, left)
		select {
		case <-gap.C:
		case <-ctx.Done():
		}
	}
}

// cause is what a context was ended for, where that is why the error came.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

func (s *server) clientOptions() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, // it asks nothing of the agent: no sampling, no roots, no questions
		Logger:       s.set.options.Log,
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case s.relist <- struct{}{}:
			default: // one is due already
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			token, _ := r.Params.ProgressToken.(string)
			s.mu.Lock()
			f := s.progress[token]
			s.mu.Unlock()
			if f != nil {
				if data, err := json.Marshal(r.Params); err == nil {
					f(data)
				}
			}
		},
	}
}

func (s *server) ready(session *mcp.ClientSession, tools []Tool, left []string) {
	s.mu.Lock()
	s.state.Tools, s.state.LeftOut = tools, left
	if r := session.InitializeResult(); r != nil && r.ServerInfo != nil {
		s.state.Server = clip(strings.TrimSpace(r.ServerInfo.Name+" "+r.ServerInfo.Version), 100)
	}
	s.mu.Unlock()
	s.enter(Ready, session, nil)
}

// enter tells those who wait.
func (s *server) enter(phase string, session *mcp.ClientSession, err error) {
	s.mu.Lock()
	if s.state.Phase != phase {
		s.state.Phase, s.state.Since = phase, time.Now()
		close(s.turn)
		s.turn = make(chan struct{})
	}
	s.session = session
	s.state.Err = ""
	if err != nil {
		s.state.Err = clip(err.Error(), 300)
	}
	s.mu.Unlock()
	if phase != Starting {
		s.once.Do(func() { close(s.settled) })
	}
	s.set.changed()
}

// open waits for a session. One that has failed is not waited for: its next start may be half a minute away.
func (s *server) open(ctx context.Context) (*mcp.ClientSession, error) {
	for {
		s.mu.Lock()
		session, state, turn := s.session, s.state, s.turn
		s.mu.Unlock()
		switch {
		case session != nil:
			return session, nil
		case state.Phase == Failed:
			return nil, fmt.Errorf("%w: the server %s is away: %s", ErrNotSent, s.name, state.Err)
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the server %s is still starting", ErrNotSent, s.name)
		}
	}
}

// call makes one call.
func (s *server) call(ctx context.Context, c Call) (Result, error) {
	session, err := s.open(ctx)
	if err != nil {
		return Result{}, err
	}
	t, found := s.set.Tool(s.name, c.Tool)
	switch {
	case !found:
		return Result{}, fmt.Errorf("%w: the server %s has no tool %.80q", ErrNotSent, s.name, c.Tool)
	case c.Hash != "" && c.Hash != t.Hash:
		return Result{}, fmt.Errorf("%w: the server %s has changed the schemas of %.80q: they are %s, and the call relies "+
			"on %s", ErrNotSent, s.name, c.Tool, t.Hash, c.Hash)
	}
	params := &mcp.CallToolParams{Name: t.Name, Meta: mcp.Meta{}}
	if len(c.Args) > 0 {
		params.Arguments = c.Args
	}
	for key, value := range c.Meta {
		params.Meta[key] = value
	}
	if c.Progress != nil {
		token, end := s.follow(c.Progress)
		defer end()
		params.Meta["progressToken"] = token
	}
	tapped, raw := tapping(ctx)
	out, err := session.CallTool(tapped, params)
	answer, err := s.answer(ctx, out, err)
	if text := raw.get(); err == nil && len(text) > 0 {
		answer.Raw = text
	}
	return answer, err
}

// follow hands the progress of one call on.
func (s *server) follow(f func(json.RawMessage)) (token string, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
	token = fmt.Sprintf("hence-%d", s.tokens)
	s.progress[token] = f
	return token, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.progress, token)
	}
}

func (s *server) answer(ctx context.Context, out *mcp.CallToolResult, err error) (Result, error) {
	var said *jsonrpc.Error
	var dial *net.OpError
	switch {
	case err == nil:
		raw, err := json.Marshal(out)
		if err != nil {
			return Result{}, fmt.Errorf("%w: what the server %s answered is no result: %w", ErrUnknown, s.name, err)
		}
		return Result{Raw: raw, IsError: out.IsError, Said: textOf(out)}, nil
	case ctx.Err() != nil:
		return Result{}, fmt.Errorf("%w: the server %s did not answer in time", ErrUnknown, s.name)
	case errors.As(err, &said):
		raw, merr := json.Marshal(map[string]any{"error": map[string]any{"code": said.Code, "message": said.Message,
			"data": said.Data}})
		if merr != nil {
			return Result{}, fmt.Errorf("%w: the server %s answered with an error that is no JSON", ErrUnknown, s.name)
		}
		// These codes are given before a tool is looked for, or its arguments are taken.
		refused := said.Code == jsonrpc.CodeInvalidParams || said.Code == jsonrpc.CodeMethodNotFound ||
			said.Code == jsonrpc.CodeInvalidRequest || said.Code == jsonrpc.CodeParseError
		return Result{Raw: raw, IsError: true, Refused: refused,
			Said: clip(fmt.Sprintf("error %d: %s", said.Code, said.Message), 300)}, nil
	case errors.As(err, &dial) && dial.Op == "dial":
		return Result{}, fmt.Errorf("%w: the server %s cannot be reached: %w", ErrNotSent, s.name, dial.Err)
	}
	return Result{}, fmt.Errorf("%w: the server %s: %s", ErrUnknown, s.name, clip(err.Error(), 300))
}

// textOf is the first text of a result, for people.
func textOf(r *mcp.CallToolResult) string {
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			return clip(text.Text, 300)
		}
	}
	return ""
}

// list reads all pages of a server's tools. What cannot be called is left out, each with its reason.
func list(ctx context.Context, server string, session *mcp.ClientSession) (out []Tool, left []string, err error) {
	out = []Tool{}
	seen, cursors := map[string]bool{}, map[string]bool{"": true}
	for cursor, pages := "", 0; ; pages++ {
		page, err := session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, nil, err
		}
		for _, t := range page.Tools {
			one, problem := toolOf(server, t)
			if problem == "" && seen[t.Name] {
				problem = "it is listed twice"
			}
			if problem != "" {
				left = append(left, clip(fmt.Sprintf("%.80q: %s", t.Name, problem), 200))
				continue
			}
			seen[t.Name] = true
			out = append(out, one)
		}
		cursor = page.NextCursor
		switch {
		case cursor == "":
			slices.SortFunc(out, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
			return out, left, nil
		case cursors[cursor] || pages == maxPages:
			return nil, nil, errors.New("the pages of the list have no end")
		case len(out)+len(left) > MaxTools:
			return nil, nil, fmt.Errorf("it lists more than %d tools", MaxTools)
		}
		cursors[cursor] = true
	}
}

func toolOf(server string, t *mcp.Tool) (Tool, string) {
	input, isObject := t.InputSchema.(map[string]any)
	output, _ := t.OutputSchema.(map[string]any)
	raw, err := json.Marshal(t)
	switch {
	case t.Name == "" || len(t.Name) > 128 || strings.ContainsFunc(t.Name, unicode.IsControl):
		return Tool{}, "its name is empty, longer than 128 bytes, or holds control characters"
	case err != nil || len(raw) > MaxMessage/8:
		return Tool{}, "its description is too large"
	case !isObject || input["type"] != "object":
		return Tool{}, `its inputSchema is no schema of an object ("type": "object")`
	case t.OutputSchema != nil && output["type"] != "object":
		return Tool{}, `its outputSchema is no schema of an object ("type": "object")`
	}
	return Tool{Server: server, Name: t.Name, Public: Name(server, t.Name), Raw: raw, Input: input, Output: output,
		Hash:     hashOf(t.Name, t.InputSchema, t.OutputSchema),
		ReadOnly: t.Annotations != nil && t.Annotations.ReadOnlyHint}, ""
}

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
