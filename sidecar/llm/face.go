// Package llm is the face between an agent and the APIs of its models: a reverse proxy that records which shards a
// request names, and which its answer uses. What the model was told is as old as the view that the request left at,
// whatever the agent reads later.
//
// Guarantees: bodies are handed on as they came, in both directions, and streams as they come; mentions are in the
// delivery log before the request leaves; what the answer uses is a read of the conversation before the client has
// that part of the answer (mode enforce); no credential of a model's API is kept or logged.
//
// It sees shards by the names of the policy's vocabulary alone. A name in an image, a paraphrase, an answer that the
// provider has compressed, one of more than 32 MiB that is no stream, what a stream has beyond 32 MiB, and what
// is said over a WebSocket it does not see.
package llm

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/api"
)

// observeWait is how long a request waits for its record where it leaves without one, too.
const observeWait = 250 * time.Millisecond

// Path is where the face is served: /llm/KEY/PROVIDER.
const Path = "/llm"

// maxRequest bounds a request, which is read whole.
const maxRequest = 64 << 20

// Agent is what the face needs of an agent.
type Agent interface {
	Mention(ctx context.Context, who api.Told, scopes []string) (*api.Mention, error)
	Rely(ctx context.Context, who api.Told, mention string, scopes []string, bind bool) (*api.Relied, error)
	EndMention(mention string) error
	Spend(who api.Told, tokens uint64)
}

// Guest is whose request it is.
type Guest struct {
	Agent
	Who        api.Told
	Suffix     string           // of the path of each shard that a text names
	Vocabulary *gate.Vocabulary // nil: nothing is looked for
	// Answered is told which calls an answer asks for, before the client has the answer's end; nil: not needed.
	Answered func(session string, uses []api.ToolUse)
	Leave    func()
}

// Config is what a Face is told.
type Config struct {
	Providers map[string]*url.URL // by name: where their APIs are
	Enter     func(r *http.Request, key string) (*Guest, error)
	Figures   Figures
	// Extract asks an external program which shards texts name, for an answer of so many bytes; nil: there is none.
	Extract func(ctx context.Context, body []byte, most int) ([]byte, error)
	Calls   int // how many requests may be under way at once
	Log     *slog.Logger
}

// Figures count what comes of requests.
type Figures interface {
	Model(provider, result string)
	References(provider, kind string, n int)
	ModelTokens(provider, kind string, n uint64)
}

// Defaults are where the APIs of the providers are that are known.
func Defaults() map[string]string {
	return map[string]string{"openai": "https://api.openai.com", "anthropic": "https://api.anthropic.com",
		"gemini": "https://generativelanguage.googleapis.com"}
}

// SignedKey stands in an address for a key, where the request is signed.
const SignedKey = "-"

// Key stands in an address for an agent's token: who knows it can say what the agent's models were told, and nothing
// else. Clients of models send the provider's key where a token would stand.
func Key(token string) string {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte("hence llm"))
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// Face serves clients of models.
type Face struct {
	Config
	proxy *httputil.ReverseProxy
	under atomic.Int64 // requests under way
	mu    sync.Mutex
	words map[*gate.Vocabulary]*vocabulary
}

// New makes the face of a sidecar.
func New(c Config) *Face {
	f := &Face{Config: c, words: map[*gate.Vocabulary]*vocabulary{}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	f.proxy = &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.In.Context().Value(passKey{}).(*pass).rewrite(p.Out) },
		ModifyResponse: func(r *http.Response) error {
			r.Request.Context().Value(passKey{}).(*pass).watch(r)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			p := r.Context().Value(passKey{}).(*pass)
			f.Figures.Model(p.provider, "unreachable")
			refuse(w, p.provider, http.StatusBadGateway, "the API of "+p.provider+" cannot be reached: "+err.Error())
		},
		FlushInterval: -1, Transport: transport, ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return f
}

type passKey struct{}

// pass is one request on its way.
type pass struct {
	f        *Face
	provider string
	to       *url.URL
	path     string
	guest    *Guest
	words    *vocabulary // nil: nothing is looked for
	mention  string
	used     []string
	ended    sync.Once
}

// Busy reports whether requests are under way.
func (f *Face) Busy() bool { return f.under.Load() > 0 }

// ServeHTTP hands a request on.
func (f *Face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), Path+"/"), "/")
	provider, path, _ := strings.Cut(rest, "/")
	f.serve(w, r, provider, path, func() (*Guest, error) { return f.Enter(r, key) })
}

// serve hands on a request that is sent to a path of a provider's API.
func (f *Face) serve(w http.ResponseWriter, r *http.Request, provider, path string, enter func() (*Guest, error)) {
	n := f.under.Add(1)
	defer f.under.Add(-1)
	to, known := f.Providers[provider]
	switch {
	case r.Header.Get("Origin") != "": // a page could spend what it does not know
		refuse(w, provider, http.StatusForbidden, "a page of a browser sent this: models are served to programs alone")
		return
	case !known:
		refuse(w, provider, http.StatusNotFound, "no provider of this name is served: start the sidecar with --llm NAME")
		return
	case n > int64(f.Calls): // each is kept whole
		refuse(w, provider, http.StatusServiceUnavailable,
			fmt.Sprintf("%d requests are under way: try again later", f.Calls))
		return
	}
	if _, err := api.SessionOf(r.Header); err != nil {
		refuse(w, provider, http.StatusBadRequest, api.AsProblem(err).Detail)
		return
	}
	guest, err := enter()
	if err != nil {
		p := api.AsProblem(err)
		refuse(w, provider, p.Status, p.Detail)
		return
	}
	defer guest.Leave()
	unhurried(w) // from here on: a caller without a key could else hold connections open
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		} else if p := (*api.Problem)(nil); errors.As(err, &p) { // it is not what was signed
			status = p.Status
		}
		refuse(w, provider, status, "the request cannot be read: "+err.Error())
		return
	}
	p := &pass{f: f, provider: provider, to: to, path: path, guest: guest, words: f.vocabulary(guest.Vocabulary)}
	defer p.end()
	switch up := r.Header.Get("Upgrade"); {
	case up == "" || p.words == nil:
	case strings.EqualFold(up, "h2c"): // some clients offer it with each request, and go on without it
		r.Header.Del("Upgrade")
	case guest.Vocabulary.Enforce: // what is said behind it is in no shape that is looked through
		refuse(w, provider, http.StatusBadRequest, fmt.Sprintf("what a model says over %.40q is not looked through, and "+
			"the policy's vocabulary is enforced: let the client use HTTP requests (with streams of server-sent events)", up))
		return
	default:
		f.Figures.Model(provider, "unseen")
		p.words = nil
	}
	if err := p.note(r.Context(), body); err != nil {
		f.Figures.Model(provider, "unrecorded")
		if guest.Vocabulary.Enforce { // what the answer uses could not be held against it
			problem := api.AsProblem(err)
			refuse(w, provider, problem.Status, "what the request names cannot be recorded: "+problem.Detail)
			return
		}
		f.Log.Warn("what a request to a model names is not recorded", "provider", provider, "cause", err)
		p.words = nil
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	f.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passKey{}, p)))
}

// unhurried takes the listener's bounds off a request that a model answers.
func unhurried(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{}) // not every writer has one
	_ = c.SetWriteDeadline(time.Time{})
}

func (f *Face) vocabulary(v *gate.Vocabulary) *vocabulary {
	if v == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.words[v] == nil {
		f.words[v] = newVocabulary(v.Terms)
	}
	return f.words[v]
}

// note records what a request names, before it leaves. One that names nothing is recorded, too: what its answer uses
// is as old as the request.
func (p *pass) note(ctx context.Context, body []byte) error {
	if p.words == nil {
		return nil
	}
	var scopes, said []string
	add := func(found []string) {
		for _, scope := range found {
			// What is left out is no mention, and a read all the same once the answer uses it.
			if scope = p.shard(scope); len(scopes) < mostNamed && !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	seen := len(body) == 0 || scanned(body, silent, func(text string) {
		found, _ := p.words.find(text, true)
		add(found)
		if p.f.Extract != nil {
			said = append(said, text)
		}
	})
	if !seen { // such as an upload
		p.f.Figures.Model(p.provider, "unseen")
	}
	found, err := p.extract(ctx, "request", said)
	if err != nil {
		return err
	}
	add(found)
	if !p.guest.Vocabulary.Enforce { // who only looks does not hold a request up while the log is away
		bound, stop := context.WithTimeout(ctx, observeWait)
		defer stop()
		ctx = bound
	}
	m, err := p.guest.Mention(ctx, p.guest.Who, scopes)
	if err != nil {
		return err
	}
	p.mention = m.ID
	return nil
}

// rewrite directs a request to its provider, without what is meant for this sidecar.
func (p *pass) rewrite(out *http.Request) {
	base := strings.TrimRight(p.to.Path, "/")
	path := "/" + p.path
	if base != "" && (path == base || strings.HasPrefix(path, base+"/")) { // both have the version
		base = ""
	}
	query := p.to.RawQuery // such as the version of an API
	if query != "" && out.URL.RawQuery != "" {
		query += "&"
	}
	query += out.URL.RawQuery
	to := url.URL{Scheme: p.to.Scheme, User: p.to.User, Host: p.to.Host}
	if joined, err := url.Parse(to.String() + base + path); err == nil {
		to = *joined
	}
	to.RawQuery = query
	out.URL, out.Host = &to, ""
	for name := range out.Header {
		if strings.HasPrefix(name, "Hence-") || strings.HasPrefix(name, "X-Sbus-") {
			delete(out.Header, name)
		}
	}
	if api.SignerOf(out.Context()) != "" { // it was for this sidecar: it does not fit what the provider gets
		for _, name := range []string{"Signature", "Signature-Input", "Content-Digest"} {
			out.Header.Del(name)
		}
	}
	out.Header.Set("Accept-Encoding", "identity") // what is compressed could not be looked through
}

// watch looks an answer through on its way back.
func (p *pass) watch(r *http.Response) {
	p.f.Figures.Model(p.provider, "answered")
	if p.words == nil { // its calls are looked for all the same
		p.words = newVocabulary(nil)
	}
	switch {
	case r.StatusCode/100 != 2:
		return
	case r.Header.Get("Content-Encoding") != "":
		p.f.Figures.Model(p.provider, "unseen")
		return
	}
	stream := strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream")
	ctx := context.WithoutCancel(r.Request.Context()) // what was released is recorded, also when the client goes
	r.Body = &answer{body: r.Body, stream: stream, words: p.words, pieces: map[string]*piece{}, over: p.end,
		use: func(scopes []string) error { return p.use(ctx, scopes) }, calls: calls{}, told: p.told, spent: p.spent}
	if p.f.Extract != nil && p.mention != "" {
		r.Body.(*answer).extract = func(said []string) ([]string, error) { return p.extract(ctx, "answer", said) }
	}
}

// told says which calls the answer asks for.
func (p *pass) told(uses []api.ToolUse) {
	if p.guest.Answered != nil && len(uses) > 0 {
		p.guest.Answered(p.guest.Who.Session, uses)
	}
}

// use makes what an answer uses reads of the conversation.
func (p *pass) use(ctx context.Context, scopes []string) error {
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return slices.Contains(p.used, s) })
	if len(scopes) == 0 {
		return nil
	}
	p.used = append(p.used, scopes...)
	for i := range scopes {
		scopes[i] = p.shard(scopes[i])
	}
	bind := p.guest.Vocabulary.Enforce
	got, err := p.guest.Rely(ctx, p.guest.Who, p.mention, scopes, bind)
	if err != nil && !bind {
		p.f.Log.Warn("how what an answer uses was read is not counted", "provider", p.provider, "cause", err)
		return nil
	}
	if err == nil {
		count := func(kind string, n int) { p.f.Figures.References(p.provider, kind, n) }
		count("step", got.Step)
		count("earlier", got.Earlier)
		count("request", got.Mentioned)
		count("answer", got.Answered)
		count("none", got.Missing)
	}
	return err
}

// spent notes what the answer says that it took.
func (p *pass) spent(in, out uint64) {
	p.f.Figures.ModelTokens(p.provider, "input", in)
	p.f.Figures.ModelTokens(p.provider, "output", out)
	p.guest.Spend(p.guest.Who, in+out)
}

// shard is the scope of a path.
func (p *pass) shard(path string) string { return "shard:/" + path + url.PathEscape(p.guest.Suffix) }

// end lets the mentions go.
func (p *pass) end() {
	p.ended.Do(func() {
		if p.mention == "" {
			return
		}
		if err := p.guest.EndMention(p.mention); err != nil {
			p.f.Log.Warn("the mentions of a request are not let go", "cause", err)
		}
	})
}

// refuse answers in the shape that the clients of a provider read.
func refuse(w http.ResponseWriter, provider string, status int, why string) {
	var v any
	switch provider {
	case "anthropic":
		v = map[string]any{"type": "error", "error": map[string]any{"type": "hence_error", "message": why}}
	case "gemini":
		v = map[string]any{"error": map[string]any{"code": status, "message": why, "status": "UNAVAILABLE"}}
	default:
		v = map[string]any{"error": map[string]any{"message": why, "type": "hence_error", "code": "hence"}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
