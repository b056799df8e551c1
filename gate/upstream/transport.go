package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/gate/child"
)

const (
	stopGrace = 2 * time.Second // between the end of a program's input and its end by force
	maxStderr = 2 << 10         // of what a program has said before it died
)

// link is how a server is reached.
type link struct {
	mcp.Transport
	close func()            // ends the program, where there is one
	said  func(error) error // adds to an error what the program wrote on its standard error before it
}

// link reaches the server, no longer than until ctx ends.
func (s *server) link(ctx context.Context) (*link, error) {
	if s.config.URL != "" {
		endpoint, err := url.Parse(s.config.URL)
		if err != nil {
			return nil, fmt.Errorf("its url is none: %w", err)
		}
		client := &http.Client{Transport: &bounded{endpoint: endpoint, headers: s.config.Headers}}
		return &link{&mcp.StreamableClientTransport{Endpoint: s.config.URL, HTTPClient: client, MaxEventSize: MaxMessage},
			func() {}, func(err error) error { return err }}, nil
	}
	cmd := exec.CommandContext(ctx, s.config.Command, s.config.Args...)
	cmd.Dir, cmd.Env = s.config.Dir, environment(s.config.Env)
	words := &tail{}
	cmd.Stderr = words
	child.KillWithContext(cmd, stopGrace)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.config.Command, err)
	}
	out, its, err := os.Pipe() // no StdoutPipe: Wait would close that before what the program said last is read
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.config.Command, err)
	}
	cmd.Stdout = its
	err = cmd.Start()
	_ = its.Close() // else the output would have no end
	if err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("start %s: %w", s.config.Command, err)
	}
	p := &program{out: out, in: in, cmd: cmd, ended: make(chan struct{})}
	go p.await()
	said := func(err error) error {
		if text := words.text(); text != "" && err != nil {
			return fmt.Errorf("%w; it said: %s", err, text)
		}
		return err
	}
	to := tapped{&mcp.IOTransport{Reader: p, Writer: in, MaxLineLength: MaxMessage}}
	return &link{to, func() { _ = p.Close() }, said}, nil
}

// common are the variables that every program is given.
func common() []string {
	return []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"}
}

// environment is all that a program sees of this process's environment, and what its entry gives it. Tokens of the
// agent and secrets of the policy are not for third-party programs.
func environment(own map[string]string) []string {
	var out []string
	for _, name := range common() {
		if value, set := os.LookupEnv(name); set && own[name] == "" {
			out = append(out, name+"="+value)
		}
	}
	for name, value := range own {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// errHeld is why a session ends whose program is gone and whose output is not at its end.
var errHeld = errors.New("the program has ended, and what it left behind holds its output open")

// program is what a program writes. Closing it ends the program, with all that it has started.
type program struct {
	out   *os.File
	in    io.Closer
	cmd   *exec.Cmd
	once  sync.Once
	ended chan struct{} // closed by await, which Close joins
}

func (p *program) Read(data []byte) (int, error) {
	n, err := p.out.Read(data)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errHeld
	}
	return n, err
}

// await ends what the program has started once the program itself is gone, and bounds the reading of its output: a
// process that has left the group may hold that open for as long as it lives.
func (p *program) await() {
	defer close(p.ended)
	_ = p.cmd.Wait() // gives what holds the standard error open stopGrace
	child.Signal(p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.out.SetReadDeadline(time.Now().Add(stopGrace))
}

func (p *program) Close() error {
	p.once.Do(func() {
		_ = p.in.Close() // the protocol's word for: end
		var drain sync.WaitGroup
		drain.Go(func() { _, _ = io.Copy(io.Discard, p) }) // a program that cannot write does not end by itself
		grace := time.NewTimer(stopGrace)
		defer grace.Stop()
		select {
		case <-p.ended:
		case <-grace.C:
			child.Signal(p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.ended // no longer than stopGrace
		}
		_ = p.out.Close() // ends the drain, too
		drain.Wait()
	})
	return nil
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	data []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - maxStderr; over > 0 {
		t.data = slices.Clone(t.data[over:])
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.data), ""))
	if over := len(text) - 200; over > 0 {
		text = "…" + strings.ToValidUTF8(text[over:], "")
	}
	return text
}

// bounded adds the configured headers to each request to the endpoint's host, so that no redirection takes them to
// another one, and bounds what an answer that is no stream of events may hold; the stream's events are bounded one by
// one.
type bounded struct {
	endpoint *url.URL
	headers  map[string]string
}

// trusts reports whether the configured headers are for a URL. The scheme counts: they do not go on in clear text. The
// request before says nothing, since another host can redirect to itself.
func (b *bounded) trusts(u *url.URL) bool {
	return u.Scheme == b.endpoint.Scheme && strings.EqualFold(u.Host, b.endpoint.Host)
}

var errTooLong = errors.New("the answer is too long")

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.trusts(r.URL) {
		for name, value := range b.headers {
			r.Header.Set(name, value)
		}
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	stream := strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	if !stream {
		res.Body = &short{ReadCloser: res.Body, left: MaxMessage}
	}
	if a, ok := r.Context().Value(rawKey{}).(*rawAnswer); ok {
		res.Body = &heard{ReadCloser: res.Body, to: a, stream: stream}
	}
	return res, nil
}

type short struct {
	io.ReadCloser
	left int
}

func (s *short) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p[:min(len(p), s.left+1)])
	if s.left -= n; s.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
