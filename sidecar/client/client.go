// Package client talks to a sidecar over HTTP.
package client

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/signature"
)

// The shapes of answers, as the sidecar writes them.
type (
	// Decision is a transaction as its sidecar knows it.
	Decision = api.Decision
	// Problem is a refused request; errors.As finds it in the errors of this package.
	Problem = api.Problem
	// Overtaken says that a later decision wrote over what a transaction has read.
	Overtaken = api.Overtaken
	// Item is one shard of a list.
	Item = api.Item
	// List is one page of shards, or the versions of one.
	List = api.List
	// Chain is a run of chain hashes.
	Chain = api.Chain
	// Level is what the last operations leave of the levels.
	Level = api.Level
	// Frontier is what can still change, by scope.
	Frontier = api.Frontier
	// Explain is why a transaction waits or was refused.
	Explain = api.Explain
	// Closure is what a transaction rests on.
	Closure = api.Closure
)

// Bounds of a client.
const (
	maxAnswer   = 16 << 20               // bytes
	longestWait = 25 * time.Second       // of one request that waits for a decision
	firstPause  = 20 * time.Millisecond  // before a call is tried again
	lastPause   = 500 * time.Millisecond //
	defaultWait = 60 * time.Second       // of one request without a deadline of its own
	tableLag    = 30 * time.Second       // longer than the table of transactions is behind the log
	tableLooks  = 60                     // at it, in that time
)

// Client is one agent's connection to its sidecar. It is safe for concurrent use.
type Client struct {
	base      string
	token     string
	signer    *signature.Signer // nil: the token is shown
	workspace string
	session   string
	agent     string
	http      *http.Client
	tries     int
	lag       time.Duration
}

// Option changes a client that New makes.
type Option func(*Client)

// WithWorkspace names the workspace; without it, "default".
func WithWorkspace(name string) Option { return func(c *Client) { c.workspace = name } }

// WithSession names the agent's conversation that the client speaks for, in at most 64 printable ASCII characters;
// without it, the agent's default one.
func WithSession(name string) Option { return func(c *Client) { c.session = name } }

// WithAgent names the agent that the client speaks for, where the token is not one agent's: an operator's, or that of
// a sidecar for any agent.
func WithAgent(name string) Option { return func(c *Client) { c.agent = name } }

// WithKey signs each request with a private key, in place of showing a token.
func WithKey(key ed25519.PrivateKey) Option {
	return func(c *Client) { c.signer = signature.NewSigner(key) }
}

// WithHTTPClient replaces the HTTP client.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithTries sets how often a call is tried while the sidecar cannot be reached or says that it is not ready; without
// it, 8. One means once.
func WithTries(n int) Option { return func(c *Client) { c.tries = max(1, n) } }

// New returns a client of the sidecar at a base URL such as http://127.0.0.1:7070.
func New(baseURL, token string, opts ...Option) *Client {
	c := &Client{base: strings.TrimSuffix(baseURL, "/"), token: token, workspace: "default", tries: 8, lag: tableLag}
	for _, o := range opts {
		o(c)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, MaxIdleConns: 64, MaxIdleConnsPerHost: 64,
			IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		}}
	}
	return c
}

// Session is a client for another conversation of the same agent, over the same connections.
func (c *Client) Session(name string) *Client {
	other := *c
	other.session = name
	return &other
}

// EndSession says that the client's conversation is over: what it read outside transactions and has not sealed since
// binds nothing any more. It returns how many reads that were.
func (c *Client) EndSession(ctx context.Context) (int, error) {
	out := &api.EndedSession{}
	err := c.json(ctx, http.MethodDelete, c.inWorkspace("/session"), nil, nil, out)
	return out.Reads, err
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request is one call before it is sent, perhaps more than once.
type request struct {
	method, path string
	query        url.Values
	header       map[string]string
	body         []byte
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request until it is answered. Every try carries the same Idempotency-Key, so a call that did arrive
// counts once. An answer of 400 and above is a *Problem.
func (c *Client) call(ctx context.Context, r request) (*answer, error) {
	if r.method != http.MethodGet {
		r.header["Idempotency-Key"] = newKey()
	}
	pause := firstPause
	for try := 1; ; try++ {
		out, err := c.once(ctx, &r)
		if err == nil || try >= c.tries || !again(err) {
			return out, err
		}
		if !sleep(ctx, pause) {
			return nil, fmt.Errorf("%s %s: %w; before: %w", r.method, r.path, context.Cause(ctx), err)
		}
		pause = min(2*pause, lastPause)
	}
}

// sleep waits; it reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// again reports whether the same call, with the same key, can end differently.
func again(err error) bool {
	var p *Problem
	if errors.As(err, &p) {
		soon := p.Status == http.StatusServiceUnavailable || p.Code == "idempotency_key_in_flight" ||
			p.Code == api.CodeSignatureTime || p.Code == api.CodeSignatureSeen // each try has its own signature
		return p.SafeSameKey && p.Retryable && soon
	}
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return false
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

func (c *Client) once(ctx context.Context, r *request) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultWait)
	defer cancel()
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("make the request %s %s: %w", r.method, r.path, err)
	}
	if c.session != "" {
		req.Header.Set("Hence-Session", c.session)
	}
	if c.agent != "" {
		req.Header.Set("Hence-Agent", c.agent)
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	if c.signer == nil {
		req.Header.Set("Authorization", "Bearer "+c.token)
	} else if err := c.signer.Sign(req, r.body); err != nil { // again for each try: a sidecar takes a signature once
		return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("send %s %s: %w", r.method, r.path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s %s: %w", r.method, r.path, err)
	}
	if len(body) > maxAnswer {
		return nil, &Problem{Code: "too_large", Status: resp.StatusCode,
			Detail: "the answer is larger than this client reads"}
	}
	out := &answer{resp.StatusCode, resp.Header, body}
	if resp.StatusCode >= http.StatusBadRequest {
		return out, problemOf(out)
	}
	return out, nil
}

func problemOf(a *answer) error {
	p := &Problem{}
	if err := json.Unmarshal(a.body, p); err != nil || p.Code == "" {
		return &Problem{Code: "foreign_answer", Status: a.status, Title: "the answer is not a sidecar's",
			Detail: fmt.Sprintf("status %d, %.200q", a.status, a.body)}
	}
	return p
}

// json sends a value and reads one.
func (c *Client) json(ctx context.Context, method, path string, query url.Values, in, out any) error {
	r := request{method: method, path: path, query: query, header: map[string]string{}}
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("write the body of %s %s: %w", method, path, err)
		}
		r.body = body
		r.header["Content-Type"] = "application/json"
	}
	got, err := c.call(ctx, r)
	if err != nil {
		return err
	}
	return decode(got, out)
}

func (c *Client) inWorkspace(rest string) string {
	return "/v1/workspaces/" + url.PathEscape(c.workspace) + rest
}

// Chain lists chain hashes, beginning at a seq; limit 0 is the sidecar's default.
func (c *Client) Chain(ctx context.Context, from uint64, limit int) (*Chain, error) {
	out := &Chain{}
	query := url.Values{"from": {strconv.FormatUint(from, 10)}}
	return out, c.json(ctx, http.MethodGet, c.inWorkspace("/chain"), withLimit(query, limit), nil, out)
}

// Frontier lists what can still change under a prefix; limit 0 is the sidecar's default.
func (c *Client) Frontier(ctx context.Context, prefix string, limit int) (*Frontier, error) {
	out := &Frontier{}
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return out, c.json(ctx, http.MethodGet, c.inWorkspace("/frontier"), withLimit(query, limit), nil, out)
}

// Level says what the last operations of the workspace leave of the levels, where anomalies are looked for.
func (c *Client) Level(ctx context.Context) (*Level, error) {
	out := &Level{}
	return out, c.json(ctx, http.MethodGet, c.inWorkspace("/level"), nil, nil, out)
}

// Explain says why a transaction waits or was refused.
func (c *Client) Explain(ctx context.Context, tx string) (*Explain, error) {
	out := &Explain{}
	return out, c.json(ctx, http.MethodGet, txPath(tx, "/explain"), nil, nil, out)
}

// Closure lists what a transaction rests on; limit 0 is the sidecar's default.
func (c *Client) Closure(ctx context.Context, tx string, limit int) (*Closure, error) {
	out := &Closure{}
	return out, c.json(ctx, http.MethodGet, txPath(tx, "/closure"), withLimit(url.Values{}, limit), nil, out)
}

func withLimit(query url.Values, limit int) url.Values {
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return query
}

func txPath(tx, rest string) string { return "/v1/tx/" + url.PathEscape(tx) + rest }

func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

func decode(got *answer, out any) error {
	if err := json.Unmarshal(got.body, out); err != nil {
		return fmt.Errorf("read the sidecar's answer: %w", err)
	}
	return nil
}
