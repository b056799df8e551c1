// Package upstream keeps one session with each MCP server that an agent's tools are served by.
//
// Guarantees: opening waits for no server; one that hangs, floods, dies or lists nonsense costs its own callers a
// bounded time and the others nothing; its last catalogue stays while it is away; a call is made once, and its error
// says whether it may have been made (ErrNotSent: it was not; ErrUnknown: it may have been). What a server answers is
// handed on as it is.
package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Errors of a call.
var (
	ErrNotSent = errors.New("the call was not sent to the MCP server")
	ErrUnknown = errors.New("it is not known whether the MCP server made the call")
)

// The phases of a server.
const (
	Starting = "starting"
	Ready    = "ready"
	Failed   = "failed" // it is tried again, after a growing pause
)

// Tool is one tool as its server lists it.
type Tool struct {
	Server string          `json:"server"`
	Name   string          `json:"name"`
	Public string          `json:"public"` // its name beside those of other servers, see Name
	Hash   string          `json:"hash"`   // of name, inputSchema and outputSchema
	Raw    json.RawMessage `json:"-"`      // the whole entry of the list

	Input, Output map[string]any `json:"-"`                   // the schemas; nil: none, or no object
	ReadOnly      bool           `json:"read_only,omitempty"` // what the server says of itself: a hint
}

// hashOf is the part of a tool that a caller relies on.
func hashOf(name string, input, output any) string {
	data, err := json.Marshal([]any{name, input, output}) // names of objects are sorted
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// State is one server as it stands.
type State struct {
	Name    string    `json:"name"`
	Phase   string    `json:"phase"`
	Err     string    `json:"error,omitempty"` // why it is not ready
	Since   time.Time `json:"since"`
	Server  string    `json:"server,omitempty"`   // what it calls itself, with its version
	LeftOut []string  `json:"left_out,omitempty"` // tools that it lists and that cannot be called, each with the reason
	Tools   []Tool    `json:"tools"`              // by name; the last ones known
}

// Options of a Set.
type Options struct {
	Log     *slog.Logger
	Version string        // of the client that servers see
	Start   time.Duration // how long a start with its list of tools may take; zero: 30 s
	Pause   time.Duration // after the first failure; zero: 500 ms; it doubles up to 30 s
}

// Call is one call of a tool.
type Call struct {
	Tool     string
	Hash     string          // the tool is to have this one; empty: any
	Args     json.RawMessage // an object
	Meta     map[string]any
	Progress func(params json.RawMessage) // called for each notification while the call lasts; nil: none is asked for
}

// Result is what a server answered.
type Result struct {
	Raw     json.RawMessage // the CallToolResult, or {"error": {...}}, as it came
	IsError bool            // the tool says that it failed, or the server refused the request
	Refused bool            // the server refused the request before the tool saw it: unknown tool, invalid arguments
	Said    string          // the text of an error, for people
}

// Set is all servers of a process.
type Set struct {
	options Options
	stop    context.CancelFunc
	done    sync.WaitGroup
	servers map[string]*server

	mu      sync.Mutex
	watches map[int]func()
	next    int
}

// Open begins to start the servers, and waits for none.
func Open(servers map[string]Server, o Options) *Set {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Start <= 0 {
		o.Start = 30 * time.Second
	}
	if o.Pause <= 0 {
		o.Pause = 500 * time.Millisecond
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Set{options: o, stop: stop, servers: map[string]*server{}, watches: map[int]func(){}}
	for name, config := range servers {
		one := newServer(name, config, s)
		s.servers[name] = one
		s.done.Go(func() { one.run(ctx) })
	}
	return s
}

// Close ends all sessions and programs.
func (s *Set) Close() {
	s.stop()
	s.done.Wait()
}

// Has says that a server of this name is configured.
func (s *Set) Has(name string) bool { return s.servers[name] != nil }

// SecretVariables are the environment variables that the servers' env and headers are taken from, sorted: they hold
// what the servers ask of their clients. Those that every program needs are not among them. A nil Set has none.
func (s *Set) SecretVariables() []string {
	if s == nil {
		return nil
	}
	needed := append(common(), "SHELL", "PWD", "LOGNAME", "TERM")
	var out []string
	for _, one := range s.servers {
		for _, name := range one.config.variables {
			if !slices.Contains(needed, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// States are all servers, by name.
func (s *Set) States() []State {
	var out []State
	for _, name := range slices.Sorted(maps.Keys(s.servers)) {
		out = append(out, s.servers[name].look())
	}
	return out
}

// State is one server as it stands; false: it is not configured.
func (s *Set) State(server string) (State, bool) {
	one := s.servers[server]
	if one == nil {
		return State{}, false
	}
	return one.look(), true
}

// Tool finds a tool by its server's name for it, or by the public one.
func (s *Set) Tool(server, name string) (Tool, bool) {
	one := s.servers[server]
	if one == nil {
		return Tool{}, false
	}
	for _, t := range one.look().Tools {
		if t.Name == name || t.Public == name {
			return t, true
		}
	}
	return Tool{}, false
}

// Watch calls f after each change of a catalogue or of a phase, until the returned function is called. f does not
// block.
func (s *Set) Watch(f func()) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.next
	s.next++
	s.watches[id] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, id)
	}
}

func (s *Set) changed() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.watches))
	s.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// Settled returns once no server is starting for the first time, or ctx ends.
func (s *Set) Settled(ctx context.Context) {
	for _, one := range s.servers {
		select {
		case <-one.settled:
		case <-ctx.Done():
			return
		}
	}
}

// Call makes one call. Until its server is ready it waits as long as ctx lasts, but no longer than a start may take.
func (s *Set) Call(ctx context.Context, server string, c Call) (Result, error) {
	one := s.servers[server]
	if one == nil {
		return Result{}, fmt.Errorf("%w: no server %.40q is configured", ErrNotSent, server)
	}
	return one.call(ctx, c)
}
