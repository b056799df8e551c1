// Package sbus is the face for clients of S-Bus: shards under keys with small version numbers, a delivery log for each
// name, and commits that rest on it.
//
// Guarantees: what a GET with an agent_id shows is in that name's delivery log, in the journal, before it is answered;
// a commit counts only if all that its name was given, and what it names itself, is as it was, in one step of the log;
// a name whose log is not whole any more is told so before its next commit counts.
//
// It knows an agent by its interfaces only, and keeps nothing but counters.
package sbus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// Shards are an agent's shards under their counts.
type Shards interface {
	Give(ctx context.Context, reader, scope string) (one *api.Counted, answered func(), err error)
	GiveAll(ctx context.Context, reader, pattern string) (all []api.Counted, answered func(), err error)
	FormerKeyed(ctx context.Context, scope string, version uint64) (*api.Counted, error)
	WriteKeyed(ctx context.Context, scope string, content []byte, media func(string) string,
		create bool) (*api.Counted, error)
	CommitKeyed(ctx context.Context, in *api.KeyedCommit) (*api.KeyedDone, error)
}

// Readers are the delivery logs of names.
type Readers interface {
	OpenReader(ctx context.Context, reader string, ttl time.Duration) error
	Register(ctx context.Context, reader string, scopes []string) (api.Registered, error)
	Inject(ctx context.Context, reader, scope string, version uint64) error
	ReaderLogs(most int) []api.ReaderLog
	Census() (shards, readers, reads int)
}

// Resets take all shards away in one decision, and end all delivery logs.
type Resets interface {
	Reset(ctx context.Context) (cleared int, err error)
	Resets() uint64 // that this node has seen since it started
}

// Tokens let one name alone commit to a shard for a while.
type Tokens interface {
	TakeToken(ctx context.Context, scope, owner string, ttl time.Duration) (expires time.Time, err error)
	DropToken(ctx context.Context, scope, owner string) error
}

// Config is what a face is made of.
type Config struct {
	Shards  Shards
	Readers Readers
	Resets  Resets
	Tokens  Tokens
	Name    string // of this node, in /cluster/status
	URL     string // of this face
	Token   string // that requests must carry; empty: none
	// Signs says whether a key may sign requests in place of the token; nil: none may.
	Signs func(key string) bool
	Admin bool // the routes that look into delivery logs are there
	Merge bool // commits that only add, and say so, are merged with what came before them
	// Ask asks the hook that merges such commits where regions do not, for an answer of at most so many bytes; nil: none.
	Ask      func(ctx context.Context, body []byte, most int) ([]byte, error)
	MaxDelta int           // bytes of a commit's content; zero: no bound but the workspace's
	WaitMost time.Duration // of one request
	Log      *slog.Logger
}

// atOnce bounds the commits that are worked on; the others wait. A sidecar has a bound of open transactions.
const atOnce = 128

// Face answers the routes of S-Bus.
type Face struct {
	config Config
	routes map[string]map[string]handler // by path, and by method
	ori    atomic.Bool
	counts counters
	turns  chan struct{}
	asking chan struct{} // questions to the hook
	now    func() time.Time

	reading, holding chan struct{} // large contents
}

type handler func(*call) error

// New makes a face.
func New(c Config) *Face {
	f := &Face{config: c, turns: make(chan struct{}, atOnce), asking: make(chan struct{}, asksAtOnce),
		now: time.Now, reading: make(chan struct{}, readAtOnce), holding: make(chan struct{}, wholeAtOnce)}
	f.ori.Store(true)
	f.counts.since(0)
	get, post := http.MethodGet, http.MethodPost
	f.routes = map[string]map[string]handler{
		"/shard":                 {post: f.create},
		"/shards":                {get: f.list},
		"/commit":                {post: f.commit},
		"/commit/v2":             {post: f.commit},
		"/session":               {post: f.session},
		"/rollback":              {post: f.rollback},
		"/delivery_log/register": {post: f.register},
		"/stats":                 {get: f.stats},
		"/metrics":               {get: f.metrics},
		"/token":                 {post: f.takeToken, http.MethodDelete: f.dropToken},
		"/admin/config":          {get: f.showConfig, post: f.setConfig},
		"/admin/reset":           {post: f.gated(f.reset)},
		"/admin/health":          {get: f.health},
		"/admin/delivery-log":    {get: f.gated(f.deliveryLog)},
		"/admin/shard":           {post: f.gated(f.adminShard)},
		"/admin/commit":          {post: f.gated(f.adminCommit)},
		"/admin/inject-stale":    {post: f.gated(f.injectStale)},
		"/admin/add-node":        {post: f.gated(addNode)},
		"/cluster/status":        {get: f.cluster},
		"/raft/leader":           {get: f.leader},
	}
	return f
}

// call is one request on its way through a handler.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	whole context.Context // of the request; that of r ends with the time for its work
	key   string          // of /shard/{key}
	sent  bool
}

// ServeHTTP answers one request.
func (f *Face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r, whole: r.Context()}
	methods := f.routes[r.URL.Path]
	if key, ok := keyInPath(r.URL); ok {
		c.key, methods = key, map[string]handler{http.MethodGet: f.show}
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	handle := methods[method]
	switch {
	case methods == nil:
		w.WriteHeader(http.StatusNotFound)
		return
	case handle == nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if err := f.lets(w, r); err != nil {
		f.problem(c, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.config.WaitMost)
	defer cancel()
	c.r = r.WithContext(ctx)
	if err := handle(c); err != nil {
		f.problem(c, err)
	}
}

// lets refuses a request that does not carry the token, where there is one, and one whose signature does not hold.
func (f *Face) lets(w http.ResponseWriter, r *http.Request) error {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch signed := api.SignedOf(r.Context()); {
	case signed.Err != nil:
		return signed.Err
	case signed.Key != "" && (f.config.Signs == nil || !f.config.Signs(signed.Key)):
		return api.Problemf(api.CodeOtherAgent, "the key is another agent's, and these are the shards of %s: sign with its",
			f.config.Name)
	case signed.Key != "": // also of a route that looks at no body
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if p := (*api.Problem)(nil); errors.As(err, &p) {
			return p
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		return nil
	case f.config.Token == "" || found && subtle.ConstantTimeCompare([]byte(token), []byte(f.config.Token)) == 1:
		return nil
	}
	return errUnauthorized
}

// errUnauthorized is answered as S-Bus writes it.
var errUnauthorized = errors.New("send the token as Authorization: Bearer TOKEN")

// keyInPath is the key of /shard/{key}, in which an escaped slash is one of the key.
func keyInPath(u *url.URL) (string, bool) {
	segment, found := strings.CutPrefix(u.EscapedPath(), "/shard/")
	if !found || segment == "" || strings.Contains(segment, "/") {
		return "", false
	}
	key, err := url.PathUnescape(segment)
	return key, err == nil
}

// answer writes an answer as JSON.
func (c *call) answer(status int, value any) error {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	c.sent = true
	_, _ = c.w.Write(append(asJSON(value), '\n')) // a client that went away needs none
	return nil
}

func (c *call) refuse(status int, name, detail string) {
	_ = c.answer(status, map[string]string{"error": name, "detail": detail})
}

// problem answers what a handler did not.
func (f *Face) problem(c *call, err error) {
	if c.sent {
		return
	}
	if p, ok := errors.AsType[*plain](err); ok {
		c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		c.w.WriteHeader(p.status)
		_, _ = c.w.Write([]byte(p.text))
		return
	}
	if errors.Is(err, errUnauthorized) {
		c.refuse(http.StatusUnauthorized, "Unauthorized", err.Error())
		return
	}
	p := api.AsProblem(err)
	status, name, detail := p.Status, nameOf(err), p.Detail
	if r, ok := errors.AsType[*api.KeyedRefusal](err); ok {
		status, name, detail = said(r)
	} else if name == unavailable && p.Retryable {
		c.w.Header().Set("Retry-After", "1")
	}
	c.refuse(status, name, detail)
}

const unavailable = "Unavailable"

// nameOf is what the wire calls an error.
func nameOf(err error) string {
	if r, ok := errors.AsType[*api.KeyedRefusal](err); ok {
		_, name, _ := said(r)
		return name
	}
	p := api.AsProblem(err)
	switch {
	case p.Code == api.CodeTooLarge:
		return "DeltaTooLarge"
	case p.Code == string(sequencer.CodeStaleRead):
		return "CrossShardStale"
	case p.Code == string(sequencer.CodeVersionMismatch):
		return "VersionMismatch"
	case p.Status == http.StatusServiceUnavailable:
		return unavailable
	case p.Status >= http.StatusInternalServerError:
		return "InternalError"
	}
	return p.Code
}

// turn waits for one of the turns of commits.
func (f *Face) turn(ctx context.Context) (done func(), err error) {
	return f.place(ctx, f.turns, "commits are being worked on")
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
