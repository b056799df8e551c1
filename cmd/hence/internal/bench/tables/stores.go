package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/postgres"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/redis"
)

// rule is how a store of the baselines decides a commit.
type rule uint8

// The stores that are run beside Hence. All but the published one are behind one HTTP layer.
const (
	lastWriter rule = iota // no check: the last writer wins
	ownVersion             // the written shard's version alone, as an ETag
	// oneByOne is what the published server does: siblings one by one, each under its own lock, then the target.
	oneByOne
	wholeStep  // what the paper says: one lock over all
	inPostgres // reads and the write in one serializable transaction
	inRedis    // reads and the write watched together
	published  // a published server that is given
)

func (r rule) String() string {
	return []string{"the last writer wins", "versions alone", "siblings one by one", "one lock over all", "PostgreSQL",
		"Redis", "the published server"}[r]
}

// keeper keeps shards, and decides what is committed to them.
type keeper interface {
	Create(ctx context.Context, key, content string) (made bool, err error)
	Read(ctx context.Context, key string) (version uint64, content string, there bool, err error)
	// Commit writes a shard at a version, while others have theirs. Refused names what stands in the way; empty: nothing.
	Commit(ctx context.Context, key, text string, at uint64, others map[string]uint64) (version uint64, refused string,
		err error)
}

// store is an S-Bus over a keeper, with as much of its wire as rows use.
type store struct {
	keeper keeper
	rule   rule
	mu     sync.Mutex
	given  map[string]map[string]uint64 // by name and key: the version that it was given
	off    bool                         // siblings are not checked
}

// inMemory is an S-Bus whose shards are in this process.
func inMemory(r rule) *store {
	return &store{keeper: &shelf{rule: r, shards: map[string]*shard{}}, rule: r, given: map[string]map[string]uint64{}}
}

// serve serves a handler on this machine until the context ends.
func serve(ctx context.Context, h http.Handler) (at string, err error) {
	return serveWith(ctx, &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second})
}

func serveWith(ctx context.Context, server *http.Server) (at string, err error) {
	listener, err := net.Listen("tcp", "localhost:")
	if err != nil {
		return "", fmt.Errorf("listen for a baseline: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }() // it ends with the context
	return "http://" + listener.Addr().String(), nil
}

// baseline starts a store in memory.
func baseline(ctx context.Context, r rule) (at string, err error) { return serve(ctx, inMemory(r)) }

// ServeHTTP answers one request.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serveAs(w, r, func(name string) string { return name })
}

// serveAs answers one request, of whose agent it keeps what it was given under the name that named returns.
func (s *store) serveAs(w http.ResponseWriter, r *http.Request, named func(string) string) {
	var in struct {
		Key      string    `json:"key"`
		Content  string    `json:"content"`
		Delta    string    `json:"delta"`
		Agent    string    `json:"agent_id"`
		Expected uint64    `json:"expected_version"`
		Reads    []readSet `json:"read_set"`
		ORI      bool      `json:"ori_enabled"`
		Shards   []string  `json:"shards_used"`
	}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		in.Agent = named(in.Agent)
	}
	status, answer, err := http.StatusOK, any(nil), error(nil)
	switch path := r.URL.EscapedPath(); {
	case path == "/shard":
		made := false
		if made, err = s.keeper.Create(r.Context(), in.Key, in.Content); made {
			status = http.StatusCreated
		} else {
			status = http.StatusConflict
		}
	case path == "/admin/config":
		s.mu.Lock()
		s.off = !in.ORI
		s.mu.Unlock()
	case path == "/admin/reset": // as a published server that has just started: nothing is there
	case path == "/delivery_log/register":
		status, answer, err = s.register(r.Context(), in.Agent, in.Shards)
	case path == "/commit":
		status, answer, err = s.commit(r.Context(), in.Key, in.Delta, in.Agent, in.Expected, in.Reads)
	default:
		key, _ := url.PathUnescape(strings.TrimPrefix(path, "/shard/"))
		agent := r.URL.Query().Get("agent_id")
		if agent != "" {
			agent = named(agent)
		}
		status, answer, err = s.show(r.Context(), key, agent)
	}
	if err != nil {
		status, answer = http.StatusInternalServerError, map[string]string{"error": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// note puts what a name was given into its log; fresh: only where there is nothing yet.
func (s *store) note(agent, key string, version uint64, fresh bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given[agent] == nil {
		s.given[agent] = map[string]uint64{}
	}
	if _, has := s.given[agent][key]; has && fresh {
		return false
	}
	s.given[agent][key] = version
	return true
}

func (s *store) show(ctx context.Context, key, agent string) (int, any, error) {
	version, content, there, err := s.keeper.Read(ctx, key)
	if err != nil || !there {
		return http.StatusNotFound, nil, err
	}
	if agent != "" {
		s.note(agent, key, version, false)
	}
	return http.StatusOK, map[string]any{"version": version, "content": content}, nil
}

func (s *store) register(ctx context.Context, agent string, keys []string) (int, any, error) {
	registered := 0
	for _, key := range keys {
		version, _, there, err := s.keeper.Read(ctx, key)
		if err != nil {
			return 0, nil, err
		}
		if there && s.note(agent, key, version, true) {
			registered++
		}
	}
	return http.StatusOK, map[string]int{"registered": registered}, nil
}

// readSet is one read that a commit names.
type readSet struct {
	Key     string `json:"key"`
	Version uint64 `json:"version_at_read"`
}

// What refuses a commit.
const (
	noShard    = "ShardNotFound"
	staleShard = "CrossShardStale"
	otherShard = "VersionMismatch"
)

// refuses names what is in the way of a commit where shards have these versions: the others first, as S-Bus does.
func refuses(there map[string]uint64, key string, at uint64, others map[string]uint64) string {
	for other, seen := range others {
		if version, is := there[other]; !is {
			return noShard
		} else if version != seen {
			return staleShard
		}
	}
	if version, is := there[key]; !is {
		return noShard
	} else if version != at {
		return otherShard
	}
	return ""
}

func (s *store) commit(ctx context.Context, key, delta, agent string, expected uint64, reads []readSet) (int, any,
	error) {
	others := map[string]uint64{}
	s.mu.Lock()
	maps.Copy(others, s.given[agent])
	off := s.off
	s.mu.Unlock()
	for _, r := range reads {
		others[r.Key] = r.Version
	}
	delete(others, key)
	if off {
		clear(others)
	}
	version, refused, err := s.keeper.Commit(ctx, key, delta, expected, others)
	switch {
	case err != nil:
		return 0, nil, err
	case refused == noShard:
		return http.StatusNotFound, nil, nil
	case refused != "":
		return http.StatusConflict, map[string]string{"error": refused}, nil
	}
	if s.rule != oneByOne { // the published server leaves the entry of an own commit behind
		s.mu.Lock()
		if _, has := s.given[agent][key]; has {
			s.given[agent][key] = version
		}
		s.mu.Unlock()
	}
	return http.StatusOK, map[string]any{"new_version": version}, nil
}

// shelf is shards in memory.
type shelf struct {
	rule   rule
	mu     sync.Mutex
	shards map[string]*shard
	whole  sync.Mutex
}

// shard is what a shelf keeps under a key.
type shard struct {
	mu      sync.Mutex
	version uint64
	content string
}

func (s *shelf) get(key string) *shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards[key]
}

// forget drops the shards whose version is one of those that go.
func (s *shelf) forget(goes func(version uint64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.shards, func(_ string, one *shard) bool {
		one.mu.Lock()
		defer one.mu.Unlock()
		return goes(one.version)
	})
}

// Create is part of keeper.
func (s *shelf) Create(_ context.Context, key, content string) (made bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards[key] != nil {
		return false, nil
	}
	s.shards[key] = &shard{content: content}
	return true, nil
}

// Read is part of keeper.
func (s *shelf) Read(_ context.Context, key string) (version uint64, content string, there bool, err error) {
	one := s.get(key)
	if one == nil {
		return 0, "", false, nil
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.version, one.content, true, nil
}

// Commit is part of keeper.
func (s *shelf) Commit(_ context.Context, key, text string, at uint64, others map[string]uint64) (uint64, string,
	error) {
	if s.rule == wholeStep {
		s.whole.Lock()
		defer s.whole.Unlock()
	}
	if s.rule == oneByOne || s.rule == wholeStep {
		there := map[string]uint64{key: at} // the target has its turn below
		for k := range others {
			if one := s.get(k); one != nil {
				one.mu.Lock()
				there[k] = one.version
				one.mu.Unlock()
			}
		}
		if refused := refuses(there, key, at, others); refused != "" {
			return 0, refused, nil
		}
		if s.rule == oneByOne {
			runtime.Gosched() // where the published server awaits the target's lock
		}
	}
	target := s.get(key)
	if target == nil {
		return 0, noShard, nil
	}
	target.mu.Lock()
	defer target.mu.Unlock()
	if s.rule != lastWriter && target.version != at {
		return 0, otherShard, nil
	}
	target.version++
	target.content = text
	return target.version, "", nil
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

// Servers are addresses of what may run beside Hence; empty: it does not.
type Servers struct{ Postgres, Redis, SBus string }

// rules are those of the servers that were given.
func (s Servers) rules() (all []rule) {
	for i, at := range []string{s.Postgres, s.Redis, s.SBus} {
		if at != "" {
			all = append(all, []rule{inPostgres, inRedis, published}[i])
		}
	}
	return all
}

// versioned are shards on a server.
type versioned interface {
	Create(ctx context.Context, key, content string) (made bool, err error)
	Read(ctx context.Context, key string) (version uint64, content string, there bool, err error)
	Commit(ctx context.Context, key, text string, at uint64, others []string, refuses func(map[string]uint64) string) (
		version uint64, refused string, err error)
	Settings(ctx context.Context) (string, error)
	Close()
}

// served is a keeper over shards on a server.
type served struct{ versioned }

// Commit is part of keeper.
func (s served) Commit(ctx context.Context, key, text string, at uint64, others map[string]uint64) (uint64, string,
	error) {
	return s.versioned.Commit(ctx, key, text, at, slices.Collect(maps.Keys(others)),
		func(there map[string]uint64) string { return refuses(there, key, at, others) })
}

// store opens a store of a rule, and says how it makes a commit durable. End closes what was opened.
func (e *Env) store(ctx context.Context, r rule) (b *bus, says string, end func(), err error) {
	const conns = 16
	var shards versioned
	name := fmt.Sprintf("hence-tables-%d-%d", os.Getpid(), time.Now().UnixNano())
	switch r {
	case published:
		b := newBus(e.Servers.SBus)
		_, err := b.ask(ctx, http.MethodPost, "/admin/reset", struct{}{}, nil, http.StatusOK)
		return b, "", func() {}, err
	case inPostgres:
		shards, err = postgres.OpenShards(ctx, e.Servers.Postgres, name, conns)
	case inRedis:
		shards, err = redis.Open(ctx, e.Servers.Redis, name, conns)
	}
	if err != nil {
		return nil, "", nil, err
	}
	kept := inMemory(r)
	serving, end := context.WithCancel(ctx)
	if shards != nil {
		kept.keeper = served{shards}
		stop := end
		end = func() { stop(); shards.Close() }
		says, err = shards.Settings(ctx)
	}
	at := ""
	if err == nil {
		at, err = serve(serving, kept)
	}
	if err != nil {
		end()
		return nil, "", nil, err
	}
	return newBus(at), says, end, nil
}
