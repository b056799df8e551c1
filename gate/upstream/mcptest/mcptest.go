// Package mcptest is an MCP server for tests: a test's own binary, started again. It speaks the protocol by hand, so
// that it can also break it.
package mcptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hence-dev/hence/gate/upstream"
)

// The variables that make a test's binary a server.
const (
	envMode = "HENCE_MCPTEST_MODE"
	envLog  = "HENCE_MCPTEST_LOG"
)

// The ways in which a server behaves.
const (
	Good  = "good"
	Hang  = "hang"  // it answers nothing
	Flood = "flood" // it writes without an end, and no line
	Huge  = "huge"  // a line that is longer than any message may be
	Dies  = "dies"  // it ends in the middle of each call
	Twice = "twice" // it answers each call twice, the second time with another text
	Bad   = "bad"   // tools with schemas that are none, and without names
	Loops = "loops" // the pages of its list have no end
	Poses = "poses" // its tools have the names of Hence's own
	Turns = "turns" // its first call takes tools away, and says so before it answers
	Forks = "forks" // it ends at once, and what it has started holds its output open from a session of its own
	// Leaves starts such a process at each call, and then ends unless the call says "stay". The log has "left:PID".
	Leaves = "leaves"

	holds = "holds" // the process that is left
)

// Main serves, and does not return, where the process was started as a server. Call it first in TestMain.
func Main() {
	mode := os.Getenv(envMode)
	if mode == "" {
		return
	}
	s := &server{mode: mode, out: bufio.NewWriter(os.Stdout), tools: []string{"look", "note", "fail", "drop", "slow"}}
	if mode == Poses {
		s.tools = append(s.tools, "tx_begin", "tx_commit", "shard_read")
	}
	s.serve(os.Stdin)
	os.Exit(0)
}

// Config is a server that behaves in a way. Its calls are appended to a file, one a line; empty: they are not.
func Config(mode, log string) upstream.Server {
	return upstream.Server{Type: "stdio", Command: os.Args[0], Env: map[string]string{envMode: mode, envLog: log}}
}

// Made are the calls that servers have appended to a file.
func Made(log string) []string {
	data, err := os.ReadFile(log)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

type server struct {
	mode  string
	mu    sync.Mutex
	out   *bufio.Writer
	tools []string
}

// Left are the processes that servers have left behind, by the log of their calls.
func Left(log string) (out []int) {
	for _, line := range Made(log) {
		if pid, err := strconv.Atoi(strings.TrimPrefix(line, "left:")); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// message is a request or a notification.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      map[string]any  `json:"_meta"`
	} `json:"params"`
}

func (s *server) serve(in io.Reader) {
	switch s.mode {
	case Hang:
		_, _ = io.Copy(io.Discard, in)
		return
	case Forks:
		leave()
		return
	case holds:
		<-time.After(time.Minute) // the test that has it left ends it before
		return
	case Flood:
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) == nil && len(m.ID) > 0 {
			s.answer(m)
		}
	}
}

func (s *server) answer(m message) {
	switch m.Method {
	case "initialize":
		s.say(m.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},`+
			`"serverInfo":{"name":"mcptest","version":"1"}}`)
	case "tools/list":
		s.say(m.ID, s.list())
	case "tools/call":
		s.call(m)
	case "ping":
		s.say(m.ID, "{}")
	default:
		s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID))
	}
}

func (s *server) list() string {
	if s.mode == Bad {
		return `{"tools":[{"name":"good","inputSchema":{"type":"object"}},{"name":"array","inputSchema":{"type":"array"}},` +
			`{"name":"","inputSchema":{"type":"object"}},{"name":"good","inputSchema":{"type":"object"}},` +
			`{"name":"out","inputSchema":{"type":"object"},"outputSchema":{"type":"string"}}]}`
	}
	var tools []string
	for _, name := range s.tools {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"description":"It %ss.","inputSchema":{"type":"object","properties":`+
			`{"at":{"type":"string"}}},"outputSchema":{"type":"object","required":["said"],"properties":`+
			`{"said":{"type":"string"}}},"annotations":{"readOnlyHint":%v}}`, name, name, name == "look"))
	}
	next := ""
	if s.mode == Loops {
		next = `,"nextCursor":"again"`
	}
	return fmt.Sprintf(`{"tools":[%s]%s}`, strings.Join(tools, ","), next)
}

func (s *server) call(m message) {
	name, at := m.Params.Name, argument(m.Params.Arguments)
	note(fmt.Sprintf("%s:%s:%v", name, at, m.Params.Meta["hence/key"]))
	said := func(text string) {
		s.say(m.ID, fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"structuredContent":{"said":%q},`+
			`"_meta":{"of":"mcptest"}}`, text, text))
	}
	if s.mode == Turns { // the catalogue changes while a call of it is under way
		s.mu.Lock()
		s.tools = slices.DeleteFunc(s.tools, func(tool string) bool { return tool == "slow" || tool == "drop" })
		s.mu.Unlock()
		s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	}
	switch {
	case s.mode == Dies:
		os.Exit(3)
	case s.mode == Leaves && at != "stay":
		leave()
		os.Exit(0)
	case s.mode == Huge:
		said(strings.Repeat("x", upstream.MaxMessage+1))
	case name == "slow":
		if token := m.Params.Meta["progressToken"]; token != nil {
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress",`+
				`"params":{"progressToken":%q,"progress":1}}`, token))
		} // and no answer
	case name == "fail":
		s.say(m.ID, `{"content":[{"type":"text","text":"it does not fit"}],"isError":true}`)
	case name == "drop":
		s.mu.Lock()
		s.tools = []string{"look", "drop"}
		s.mu.Unlock()
		said("dropped")
		s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	case at == "traceparent":
		said(fmt.Sprint(m.Params.Meta["traceparent"]))
	case at == "large number":
		s.say(m.ID, `{"content":[],"structuredContent":{"said":"x","n":9007199254740993},"unknown":1}`)
	case at == "invalid":
		s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,`+
			`"error":{"code":-32602,"message":"at is invalid","data":{"at":1}}}`, m.ID))
	default:
		if s.mode == Leaves {
			leave()
		}
		said(name + " " + at)
		if s.mode == Twice {
			said("another answer")
		}
	}
}

// note appends a line to the log, where there is one.
func note(line string) {
	log := os.Getenv(envLog)
	if log == "" {
		return
	}
	if f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, line)
		_ = f.Close()
	}
}

// leave starts a process that holds this one's output open and is in no group of it.
func leave() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envMode+"="+holds)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() == nil {
		note(fmt.Sprintf("left:%d", cmd.Process.Pid))
	}
}

func argument(data json.RawMessage) string {
	var in struct{ At string }
	if json.Unmarshal(data, &in) != nil {
		return ""
	}
	return in.At
}

func (s *server) say(id json.RawMessage, result string) {
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func (s *server) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.WriteString(line + "\n")
	_ = s.out.Flush()
}
