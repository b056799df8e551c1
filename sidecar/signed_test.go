package sidecar

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/gate/upstream/mcptest"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/signature"
)

// keyOf is a private key that tests know, by a letter.
func keyOf(letter string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(letter, ed25519.SeedSize)))
}

func publicOf(letter string) ed25519.PublicKey { return keyOf(letter).Public().(ed25519.PublicKey) }

func idOf(letter string) string { return signature.KeyID(publicOf(letter)) }

// keyed is a sidecar of the agent a that knows keys.
func keyed(t *testing.T, log *memlog.Log, change func(*Config)) *running {
	t.Helper()
	c := Config{Agent: "a", OperatorToken: operatorToken, Keys: []Key{
		{"a", KeyAgent, publicOf("a")}, {"b", KeyAgent, publicOf("b")}, {"olga", KeyOperator, publicOf("o")},
		{"ann", KeyApprover, publicOf("p")}}}
	if change != nil {
		change(&c)
	}
	s := start(t, log.Door(), c)
	if err := s.by(t, "a").Ready(t); err != nil { // past the second in which it started
		t.Fatal(err)
	}
	return s
}

// keyClient signs with the key of a letter.
type keyClient struct{ *client.Client }

func (s *running) by(t *testing.T, letter string) keyClient {
	c := client.New(s.URL(), "", client.WithKey(keyOf(letter)), client.WithHTTPClient(&http.Client{}))
	t.Cleanup(c.Close)
	return keyClient{c}
}

// Ready asks until signatures of now are taken.
func (c keyClient) Ready(t *testing.T) error {
	_, err := c.Rules(background(t))
	return err
}

func problemCodeOf(err error) string {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// TestSignedRoles: a key acts for the one that it names, in its role.
func TestSignedRoles(t *testing.T) {
	ctx, s := background(t), keyed(t, memlog.New("default"), nil)
	for letter, want := range map[string]struct{ write, rules string }{
		"a": {"", api.CodeOperatorOnly}, "b": {api.CodeNotFound, api.CodeNotFound}, "o": {"", ""},
		"p": {api.CodeApproverOnly, api.CodeOperatorOnly}, "x": {api.CodeBadSignature, api.CodeBadSignature}} {
		c := s.by(t, letter)
		_, err := c.Put(ctx, "s/"+letter, []byte("1"), client.WriteOptions{})
		if problemCodeOf(err) != want.write {
			t.Errorf("%s writes: %v, want %q", letter, err, want.write)
		}
		_, err = c.SetRules(ctx, 0, client.RulesChange{})
		if problemCodeOf(err) != want.rules {
			t.Errorf("%s sets rules: %v, want %q", letter, err, want.rules)
		}
	}
	for _, keys := range [][]Key{{{"a", KeyAgent, publicOf("a")}, {"b", KeyAgent, publicOf("a")}},
		{{"a", KeyAgent, publicOf("a")[1:]}}, {{"a", "king", publicOf("a")}}} {
		if _, err := New(Config{Agent: "a", Keys: keys}, memlog.New("default").Door()); err == nil {
			t.Errorf("%v are taken", keys)
		}
	}
}

// TestSignerInDecision: the decision of what was signed names the key, and that of what was not names none.
func TestSignerInDecision(t *testing.T) {
	log := memlog.New("default")
	ctx, s := background(t), keyed(t, log, nil)
	a := s.by(t, "a")
	d := must(a.Put(ctx, "s", []byte("1"), client.WriteOptions{}))(t)
	if d.Signer != idOf("a") {
		t.Errorf("a signed write: %+v", d)
	}
	if d = must(s.client.Put(ctx, "s", []byte("2"), client.WriteOptions{}))(t); d.Signer != "" {
		t.Errorf("a write with a token: %+v", d)
	}
	tx := must(a.Begin(ctx, client.BeginOptions{}))(t)
	if err := tx.Abort(ctx, "done"); err != nil {
		t.Fatal(err)
	}
	if d = must(tx.Status(ctx, 0))(t); d.State != api.StateAborted || d.Signer != idOf("a") {
		t.Errorf("a signed abort: %+v", d)
	}
	// One that is refused from the view is in the log with its key, too.
	stale := must(a.Begin(ctx, client.BeginOptions{}))(t)
	if _, err := stale.Read(ctx, "shard:/s"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Session("other").Put(ctx, "s", []byte("3"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	d, err := stale.Seal(ctx)
	if err != nil || d.Code != "stale_read" {
		t.Fatalf("%+v, %v", d, err)
	}
	eventually(t, func() error { // the view has answered; the abort is on its way to the log
		signed := 0
		for _, o := range log.Outcomes() {
			if o.Tx == sequencer.TxID(d.Tx) && o.Signer == idOf("a") {
				signed++
			}
		}
		if signed != 1 {
			return fmt.Errorf("%d decisions of a refused seal name the key", signed)
		}
		return nil
	})
	olga := s.by(t, "o")
	levels := "L2"
	if _, err := olga.SetRules(ctx, 0, client.RulesChange{Levels: &levels}); err != nil {
		t.Fatal(err)
	}
	if _, err := olga.Retract(ctx, firstOf(log, idOf("a")), "a wrong one", false); err != nil {
		t.Fatal(err)
	}
	kinds := map[sequencer.OutcomeKind]bool{}
	for _, o := range log.Outcomes() {
		if o.Signer == idOf("o") {
			kinds[o.Kind] = true
		}
	}
	if !kinds[sequencer.OutcomeRules] || !kinds[sequencer.OutcomeRetracting] {
		t.Errorf("the operator's key is in decisions of the kinds %v", kinds)
	}
}

// firstOf is the first transaction that a key has committed.
func firstOf(log *memlog.Log, key string) string {
	for _, o := range log.Outcomes() {
		if o.Kind == sequencer.OutcomeCommitted && o.Signer == key {
			return string(o.Tx)
		}
	}
	return ""
}

// face4 is a request that one of the four faces takes.
type face4 struct {
	name, method, url, body string
	headers                 []string
	want                    int
	otherMethod, otherPath  string // that the face takes, too
	by                      string // the letter of the key; empty: a's
}

// openFaces is a sidecar with all faces.
func openFaces(t *testing.T, log *memlog.Log) (*running, []face4) {
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Signature", "Signature-Input", "Content-Digest", "Hence-Session"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s was sent to a provider", name)
			}
		}
		if r.Header.Get("Authorization") != "Bearer "+modelKey {
			t.Error("the provider's credential was not handed on")
		}
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(model.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	set := upstream.Open(map[string]upstream.Server{"s": mcptest.Config(mcptest.Good, "")}, upstream.Options{})
	t.Cleanup(set.Close)
	s := keyed(t, log, func(c *Config) {
		c.SBus.Listen, c.MCP.Upstreams = "127.0.0.1:0", set
		c.Models.APIs = map[string]*url.URL{"openai": must(url.Parse(model.URL))(t)}
	})
	if _, err := s.client.Put(background(t), "k", []byte("1"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return s, []face4{
		{"/v1", "POST", s.URL() + "/v1/workspaces/default/tx?", `{"mode":"optimistic"}`,
			[]string{"Content-Type", "application/json", "Hence-Session", "s", "Idempotency-Key", "k"}, 201,
			"GET", "/v1/workspaces/default/groups", ""},
		{"/mcp", "POST", s.MCPURL(), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			[]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Hence-Session", "s",
				"Hence-Tx", "x"}, 200, "GET", "/mcp/s", ""},
		{"/llm", "POST", s.URL() + "/llm/-/openai/v1/chat/completions", `{"messages":[]}`,
			[]string{"Content-Type", "application/json", "Authorization", "Bearer " + modelKey, "Hence-Session", "s"}, 200,
			"PUT", "/llm/-/openai/v1/completions", ""},
		{"S-Bus", "POST", s.BusURL() + "/shard", `{"key":"s","content":"1","goal_tag":"g"}`,
			[]string{"Content-Type", "application/json", "X-SBus-Agent-Id", "n"}, 201, "POST", "/session", ""},
	}
}

// signed makes the face's request, with its signature.
func (f face4) signed(t *testing.T, skew time.Duration) *http.Request {
	t.Helper()
	r := must(http.NewRequestWithContext(background(t), f.method, f.url, strings.NewReader(f.body)))(t)
	for i := 0; i < len(f.headers); i += 2 {
		r.Header.Set(f.headers[i], f.headers[i+1])
	}
	signer := signature.NewSigner(keyOf(cmp.Or(f.by, "a")))
	signer.Now = func() time.Time { return time.Now().Add(skew) }
	if err := signer.Sign(r, []byte(f.body)); err != nil {
		t.Fatal(err)
	}
	return r
}

// answered sends a request and returns status and body.
func answered(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	out := must(http.DefaultClient.Do(r))(t)
	defer out.Body.Close()
	return out.StatusCode, string(must(io.ReadAll(out.Body))(t))
}

// body puts another body into a request.
func body(text string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		r.GetBody = nil
	}
}

// TestSignedFaces: each face takes what was signed, once, and nothing that was changed on its way.
func TestSignedFaces(t *testing.T) {
	_, faces := openFaces(t, memlog.New("default"))
	for _, f := range faces {
		for name, change := range map[string]func(*http.Request){
			"method":     func(r *http.Request) { r.Method = f.otherMethod },
			"path":       func(r *http.Request) { r.URL.Path = f.otherPath },
			"query":      func(r *http.Request) { r.URL.RawQuery = "a=1" },
			"authority":  func(r *http.Request) { r.Host = "localhost:" + r.URL.Port() },
			"session":    func(r *http.Request) { r.Header.Set("Hence-Session", "t") },
			"agent":      func(r *http.Request) { r.Header.Set("Hence-Agent", "a") },
			"bus name":   func(r *http.Request) { r.Header.Set("X-SBus-Agent-Id", "m") },
			"tx":         func(r *http.Request) { r.Header.Set("Hence-Tx", "t") },
			"key":        func(r *http.Request) { r.Header.Set("Idempotency-Key", "l") },
			"type":       func(r *http.Request) { r.Header.Set("Content-Type", "application/x+json") },
			"type added": func(r *http.Request) { r.Header.Add("Content-Type", "text/plain") },
			"condition":  func(r *http.Request) { r.Header.Set("If-None-Match", "*") },
			"digest":     func(r *http.Request) { r.Header.Set("Content-Digest", "sha-256=:AAAA:") },
			"body":       body(strings.Replace(f.body, "{", "{ ", 1)),
			"cut body":   body(""),
			"long body":  body(f.body + " "),
			"signature":  func(r *http.Request) { r.Header.Set("Signature", "hence=:"+strings.Repeat("A", 86)+"==:") },
			"input":      func(r *http.Request) { r.Header.Set("Signature-Input", r.Header.Get("Signature-Input")+";x=1") },
			"both": func(r *http.Request) {
				r.Header.Add("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), "hence=", "h=", 1))
			},
		} {
			r := f.signed(t, 0)
			change(r)
			if name == "method" && f.otherMethod == f.method {
				continue
			}
			if status, text := answered(t, r); status != http.StatusUnauthorized {
				t.Errorf("%s, another %s: %d %s", f.name, name, status, text)
			}
		}
		for skew, want := range map[time.Duration]int{-signature.Window - 2*time.Second: http.StatusUnauthorized,
			signature.Ahead + 2*time.Second: http.StatusUnauthorized} {
			if status, text := answered(t, f.signed(t, skew)); status != want {
				t.Errorf("%s, signed %v from now: %d %s", f.name, skew, status, text)
			}
		}
		r := f.signed(t, 0)
		again := r.Clone(r.Context())
		again.Body = must(r.GetBody())(t)
		if status, text := answered(t, r); status != f.want {
			t.Errorf("%s, as it was signed: %d %s", f.name, status, text)
		}
		if status, text := answered(t, again); status != http.StatusUnauthorized || !strings.Contains(text, "nonce") {
			t.Errorf("%s, twice: %d %s", f.name, status, text)
		}
	}
}

// TestSignedKeySplit: a signed Idempotency-Key whose header is split into two on its way, which has the same
// signature, does not count as another key.
func TestSignedKeySplit(t *testing.T) {
	s := keyed(t, memlog.New("default"), nil)
	send := func(signed string, sent ...string) (int, string) {
		r := must(http.NewRequestWithContext(background(t), "PUT", s.URL()+"/v1/workspaces/default/shards/x",
			strings.NewReader("1")))(t)
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set("Idempotency-Key", signed)
		if err := signature.NewSigner(keyOf("a")).Sign(r, []byte("1")); err != nil {
			t.Fatal(err)
		}
		r.Header["Idempotency-Key"] = sent
		return answered(t, r)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	if status, text := send("a", "a"); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := send("a, b", "a", "b"); status != http.StatusBadRequest || !strings.Contains(text, "2 times") {
		t.Errorf("split: %d %s", status, text)
	}
	if status, text := send("a, b", "a, b"); status/100 != 2 {
		t.Errorf("whole: %d %s", status, text)
	}
}

// TestFacesNameTheSigner: what comes of a signed request names its key in the log, by whichever face it came; what
// another agent's key has signed does nothing.
func TestFacesNameTheSigner(t *testing.T) {
	log := memlog.New("default")
	s, faces := openFaces(t, log)
	for scope, send := range map[string]func(face4) face4{
		"shard:/one": func(f face4) face4 {
			f.method, f.url, f.body = "PUT", s.URL()+"/v1/workspaces/default/shards/one", "1"
			return f
		},
		"shard:/two": func(f face4) face4 {
			f.body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shard_write",` +
				`"arguments":{"scope":"shard:/two","content":"2"}}}`
			f.headers[7] = "" // it is alone
			return f
		},
		"shard:/three": func(f face4) face4 {
			f.body = strings.Replace(f.body, `"s"`, `"three"`, 1)
			return f
		},
	} {
		f := send(map[string]face4{"shard:/one": faces[0], "shard:/two": faces[1], "shard:/three": faces[3]}[scope])
		status, text := answered(t, f.signed(t, 0))
		signer := ""
		for _, o := range log.Outcomes() {
			for _, w := range o.Writes {
				if w.Scope == sequencer.Scope(scope) {
					signer = o.Signer
				}
			}
		}
		if status/100 != 2 || signer != idOf("a") {
			t.Errorf("%s by %s: %d %s; its decision names the key %q", scope, f.name, status, text, signer)
		}
		f.by = "b"
		if status, text := answered(t, f.signed(t, 0)); status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("%s by %s, with the key of b: %d %s", scope, f.name, status, text)
		}
	}
	model := faces[2]
	model.by = "b"
	if status, text := answered(t, model.signed(t, 0)); status != http.StatusNotFound {
		t.Errorf("a model, with the key of b: %d %s", status, text)
	}
	key := s.ModelURL("openai")
	model.by, model.url = "", key+"/v1/chat/completions"
	if status, text := answered(t, model.signed(t, 0)); status != http.StatusUnauthorized {
		t.Errorf("a model, with a signature and the key in the address: %d %s", status, text)
	}
	both := faces[0].signed(t, 0)
	both.Header.Set("Authorization", "Bearer "+s.Token())
	if status, text := answered(t, both); status != http.StatusUnauthorized {
		t.Errorf("with a token and a signature: %d %s", status, text)
	}
}

// TestSignedAnyAgent: where any agent is served, a key's agent comes in with its first request, and in no other name.
func TestSignedAnyAgent(t *testing.T) {
	m := several(t, memlog.New("default"), func(c *Config) {
		c.Agents, c.AnyAgent = nil, true
		c.Keys = []Key{{"ann", KeyAgent, publicOf("a")}, {"olga", KeyOperator, publicOf("o")}}
	}).ready()
	ann := client.New(m.URL(), "", client.WithKey(keyOf("a")))
	defer ann.Close()
	d := must(ann.Put(background(t), "s", []byte("1"), client.WriteOptions{}))(t)
	if !strings.HasPrefix(d.Tx, "ann.") || d.Signer != idOf("a") {
		t.Errorf("%+v", d)
	}
	posing := client.New(m.URL(), "", client.WithKey(keyOf("a")), client.WithAgent("bob"))
	defer posing.Close()
	_, err := posing.Put(background(t), "s", []byte("2"), client.WriteOptions{})
	if problemCodeOf(err) != api.CodeOtherAgent {
		t.Errorf("in another name: %v", err)
	}
	olga := client.New(m.URL(), "", client.WithKey(keyOf("o")), client.WithAgent("bob"))
	defer olga.Close()
	if d = must(olga.Put(background(t), "s", []byte("3"), client.WriteOptions{}))(t); !strings.HasPrefix(d.Tx, "bob.") {
		t.Errorf("an operator for bob: %+v", d)
	}
}
