package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// rule is how a store of the baselines decides a commit.
type rule uint8

// The stores that are run beside Hence, over one HTTP layer.
const (
	lastWriter rule = iota // no check: the last writer wins
	ownVersion             // the written shard's version alone, as an ETag
	// oneByOne is what the published server does: siblings one by one, each under its own lock, then the target.
	oneByOne
	wholeStep // what the paper says: one lock over all
)

func (r rule) String() string {
	return []string{"the last writer wins", "versions alone", "siblings one by one", "one lock over all"}[r]
}

// shard is what a store keeps under a key.
type shard struct {
	mu      sync.Mutex
	version uint64
	content string
}

// store is an S-Bus in memory, with as much of its wire as rows use.
type store struct {
	rule   rule
	mu     sync.Mutex
	shards map[string]*shard
	given  map[string]map[string]uint64 // by name and key: the version that it was given
	whole  sync.Mutex
	off    bool // siblings are not checked
}

// serve serves a handler on this machine until the context ends.
func serve(ctx context.Context, h http.Handler) (at string, err error) {
	listener, err := net.Listen("tcp", "localhost:")
	if err != nil {
		return "", fmt.Errorf("listen for a baseline: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }() // it ends with the context
	return "http://" + listener.Addr().String(), nil
}

// baseline starts a store.
func baseline(ctx context.Context, r rule) (at string, err error) {
	return serve(ctx, &store{rule: r, shards: map[string]*shard{}, given: map[string]map[string]uint64{}})
}

// ServeHTTP answers one request.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Key      string    `json:"key"`
		Content  string    `json:"content"`
		Delta    string    `json:"delta"`
		Agent    string    `json:"agent_id"`
		Expected uint64    `json:"expected_version"`
		Reads    []readSet `json:"read_set"`
		ORI      bool      `json:"ori_enabled"`
	}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	status, answer := http.StatusOK, any(nil)
	switch path := r.URL.EscapedPath(); {
	case path == "/shard":
		s.mu.Lock()
		if s.shards[in.Key] != nil {
			status = http.StatusConflict
		} else {
			s.shards[in.Key], status = &shard{content: in.Content}, http.StatusCreated
		}
		s.mu.Unlock()
	case path == "/admin/config":
		s.mu.Lock()
		s.off = !in.ORI
		s.mu.Unlock()
	case path == "/admin/reset":
		s.mu.Lock()
		s.shards, s.given = map[string]*shard{}, map[string]map[string]uint64{}
		s.mu.Unlock()
	case path == "/session":
		s.mu.Lock()
		delete(s.given, in.Agent)
		s.mu.Unlock()
	case path == "/commit":
		status, answer = s.commit(in.Key, in.Delta, in.Agent, in.Expected, in.Reads)
	default:
		key, _ := url.PathUnescape(strings.TrimPrefix(path, "/shard/"))
		status, answer = s.show(key, r.URL.Query().Get("agent_id"))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *store) get(key string) *shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards[key]
}

func (s *store) show(key, agent string) (int, any) {
	one := s.get(key)
	if one == nil {
		return http.StatusNotFound, nil
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if agent != "" {
		s.mu.Lock()
		if s.given[agent] == nil {
			s.given[agent] = map[string]uint64{}
		}
		s.given[agent][key] = one.version
		s.mu.Unlock()
	}
	return http.StatusOK, map[string]any{"version": one.version, "content": one.content}
}

// readSet is one read that a commit names.
type readSet struct {
	Key     string `json:"key"`
	Version uint64 `json:"version_at_read"`
}

func refused(name string) (int, any) { return http.StatusConflict, map[string]string{"error": name} }

func (s *store) commit(key, delta, agent string, expected uint64, reads []readSet) (int, any) {
	target := s.get(key)
	if target == nil {
		return http.StatusNotFound, nil
	}
	siblings := map[string]uint64{}
	s.mu.Lock()
	off := s.off
	for k, v := range s.given[agent] {
		siblings[k] = v
	}
	s.mu.Unlock()
	for _, r := range reads {
		siblings[r.Key] = r.Version
	}
	delete(siblings, key)
	if s.rule == wholeStep {
		s.whole.Lock()
		defer s.whole.Unlock()
	}
	if !off && (s.rule == oneByOne || s.rule == wholeStep) {
		for k, v := range siblings {
			one := s.get(k)
			if one == nil {
				return http.StatusNotFound, nil
			}
			one.mu.Lock()
			moved := one.version != v
			one.mu.Unlock()
			if moved {
				return refused("CrossShardStale")
			}
		}
		if s.rule == oneByOne {
			runtime.Gosched() // where the published server awaits the target's lock
		}
	}
	target.mu.Lock()
	defer target.mu.Unlock()
	if s.rule != lastWriter && target.version != expected {
		return refused("VersionMismatch")
	}
	target.version++
	target.content = delta
	if s.rule == wholeStep || s.rule == oneByOne {
		s.mu.Lock()
		if s.given[agent] != nil && s.rule == wholeStep {
			if _, has := s.given[agent][key]; has {
				s.given[agent][key] = target.version
			}
		}
		s.mu.Unlock()
	}
	return http.StatusOK, map[string]any{"new_version": target.version}
}

// bus is a client of an S-Bus, with one connection a request as the published ones have. A status that it does not
// expect is an error, which makes a row void.
type bus struct {
	url  string
	http *http.Client
}

func newBus(at string) *bus {
	return &bus{url: at, http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// ask makes a request and fills out; it takes the statuses that are named.
func (b *bus) ask(ctx context.Context, method, path string, body, out any, takes ...int) (int, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return 0, fmt.Errorf("write a request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, bytes.NewReader(text))
	if err != nil {
		return 0, fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := b.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Errorf("read the answer of %s: %w", path, err)
	}
	if !slices.Contains(takes, resp.StatusCode) {
		return 0, fmt.Errorf("%s %s is answered %d %.200s", method, path, resp.StatusCode, answer)
	}
	if out != nil && resp.StatusCode < 300 {
		if err := json.Unmarshal(answer, out); err != nil {
			return 0, fmt.Errorf("read the answer of %s: %w", path, err)
		}
	}
	return resp.StatusCode, nil
}

// create makes shards, each with its own name as content.
func (b *bus) create(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		body := map[string]string{"key": key, "content": key, "goal_tag": "tables"}
		if _, err := b.ask(ctx, http.MethodPost, "/shard", body, nil, http.StatusCreated); err != nil {
			return err
		}
	}
	return nil
}

// shown is a shard as a GET shows it.
type shown struct {
	Version uint64 `json:"version"`
	Content string `json:"content"`
}

// get reads a shard for a name; without one nothing is recorded.
func (b *bus) get(ctx context.Context, key, agent string) (out shown, err error) {
	path := "/shard/" + url.PathEscape(key)
	if agent != "" {
		path += "?agent_id=" + url.QueryEscape(agent)
	}
	_, err = b.ask(ctx, http.MethodGet, path, nil, &out, http.StatusOK)
	return out, err
}

// commit writes a shard at a version; it is refused where something has moved.
func (b *bus) commit(ctx context.Context, key, agent, text string, version uint64, reads ...readSet) (bool, error) {
	body := map[string]any{"key": key, "expected_version": version, "delta": text, "agent_id": agent}
	if len(reads) > 0 {
		body["read_set"] = reads
	}
	status, err := b.ask(ctx, http.MethodPost, "/commit", body, nil, http.StatusOK, http.StatusConflict, http.StatusGone)
	return status == http.StatusOK, err
}
