package adapters

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/gate"
)

// recorder keeps the requests that reach it.
type recorder struct {
	*httptest.Server
	mu   sync.Mutex
	reqs []*http.Request
	body []string
}

func record(t *testing.T, answer http.HandlerFunc) *recorder {
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.reqs, r.body = append(r.reqs, req), append(r.body, string(body))
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// seen are the requests so far and their bodies.
func (r *recorder) seen() ([]*http.Request, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reqs), slices.Clone(r.body)
}

func (r *recorder) env(secret string) gate.Env {
	return gate.Env{Hosts: []string{r.Listener.Addr().String()},
		Secret: func(string) (string, error) { return secret, nil }}
}

func TestHTTPRequest(t *testing.T) {
	r := record(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"ok":true}`) })
	a := build(t, gate.KindHTTP, r.env("tok-9"), gate.HTTPSpec{Method: "PUT", URL: r.URL + "/o/{id}?q={q}",
		Headers: map[string]string{"Authorization": "Bearer {$secret.api}"},
		Body:    []byte(`{"amount":"{n}","note":"for {id}","key":"{$key}","left":"{none?}"}`)})
	c := call("key-1", `{"id":"a/b?c#d","q":"x&y=z","n":12.50}`)
	c.Compensates = "key-0"
	if got := must(t, a, c); string(got.Result) != `{"ok":true}` {
		t.Errorf("result %s", got.Result)
	}
	reqs, bodies := r.seen()
	req := reqs[0]
	if req.URL.EscapedPath() != "/o/a%2Fb%3Fc%23d" || req.URL.Query().Get("q") != "x&y=z" {
		t.Errorf("the URL is %s", req.URL)
	}
	if bodies[0] != `{"amount":12.50,"key":"key-1","note":"for a/b?c#d"}` {
		t.Errorf("the body is %s", bodies[0])
	}
	for name, want := range map[string]string{"Idempotency-Key": "key-1", "Hence-Compensates": "key-0",
		"Authorization": "Bearer tok-9", "Content-Type": "application/json"} {
		if got := req.Header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
}

func TestHTTPStatuses(t *testing.T) {
	var status int // set before each call, whose connection orders it before the handler
	r := record(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	spec := gate.HTTPSpec{Method: "POST", URL: r.URL}
	plain := build(t, gate.KindHTTP, r.env(""), spec)
	spec.Refused, spec.Done = []int{409, 503}, []int{303, 404}
	listed := build(t, gate.KindHTTP, r.env(""), spec)
	for _, c := range []struct {
		status        int
		plain, listed verdict
	}{
		{200, happened, happened}, {202, happened, happened}, {204, happened, happened},
		{302, unclear, unclear}, {303, unclear, happened}, {307, refused, unclear},
		{400, refused, unclear}, {403, refused, unclear}, {404, refused, happened}, {408, unclear, unclear},
		{401, refused, unclear}, {402, refused, unclear}, {406, unclear, unclear}, {412, refused, unclear},
		{418, unclear, unclear}, {421, refused, unclear}, {423, unclear, unclear}, {424, unclear, unclear},
		{428, refused, unclear}, {451, unclear, unclear},
		{409, unclear, refused}, {410, refused, unclear}, {422, refused, unclear}, {425, unclear, unclear},
		{429, unclear, unclear}, {499, unclear, unclear}, {500, unclear, unclear}, {503, unclear, refused},
	} {
		status = c.status
		for name, pair := range map[string]struct {
			a    gate.Adapter
			want verdict
		}{"plain": {plain, c.plain}, "listed": {listed, c.listed}} {
			answer, err := pair.a.Call(t.Context(), call("k", `{}`))
			got := happened
			switch {
			case errors.Is(err, gate.ErrUnknown):
				got = unclear
			case err != nil:
				t.Errorf("%d %s: %v", c.status, name, err)
			case answer.Refused:
				got = refused
			}
			if got != pair.want {
				t.Errorf("%d %s: verdict %d, want %d", c.status, name, got, pair.want)
			}
		}
	}
}

func TestHTTPStaysOnDeclaredHosts(t *testing.T) {
	other := record(t, func(http.ResponseWriter, *http.Request) {})
	var to string
	r := record(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/end" {
			fmt.Fprint(w, `"end"`)
			return
		}
		http.Redirect(w, req, to, http.StatusTemporaryRedirect)
	})
	a := build(t, gate.KindHTTP, r.env("tok"), gate.HTTPSpec{Method: "POST", URL: r.URL + "/a",
		Headers: map[string]string{"X-Token": "{$secret.api}"}})
	to = other.URL + "/stolen"
	if got, err := a.Call(t.Context(), call("k", `{}`)); err == nil && !got.Refused {
		t.Errorf("a redirect off the host: %+v", got)
	}
	to = r.URL + "/end"
	if got := must(t, a, call("k", `{}`)); string(got.Result) != `"end"` {
		t.Errorf("a redirect on the host: %+v", got)
	}
	elsewhere := build(t, gate.KindHTTP, r.env(""), gate.HTTPSpec{Method: "POST", URL: other.URL})
	if _, err := elsewhere.Call(t.Context(), call("k", `{}`)); !errors.Is(err, gate.ErrNotSent) {
		t.Errorf("a host that is not declared: %v", err)
	}
	if reqs, _ := other.seen(); len(reqs) != 0 {
		t.Errorf("%d requests reached a host that is not declared", len(reqs))
	}
}

func TestHTTPAnswersAreBounded(t *testing.T) {
	r := record(t, func(w http.ResponseWriter, _ *http.Request) {
		for range MaxAnswer/1024 + 1 {
			if _, err := w.Write([]byte(strings.Repeat("x", 1024))); err != nil {
				return
			}
		}
	})
	a := build(t, gate.KindHTTP, r.env(""), gate.HTTPSpec{Method: "POST", URL: r.URL})
	if _, err := a.Call(t.Context(), call("k", `{}`)); !errors.Is(err, gate.ErrUnknown) {
		t.Errorf("with a key: %v, want it to be asked again", err)
	}
	if got, err := a.Call(t.Context(), call("", `{}`)); err != nil || got.Result != nil || got.Detail == "" {
		t.Errorf("without a key: %+v, %v; want that it happened, without a result", got, err)
	}
}

func TestHTTPMakesNoRetries(t *testing.T) {
	r := record(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	a := build(t, gate.KindHTTP, r.env(""), gate.HTTPSpec{Method: "POST", URL: r.URL})
	for range 3 {
		if _, err := a.Call(t.Context(), call("k", `{}`)); !errors.Is(err, gate.ErrUnknown) {
			t.Errorf("a connection that ends: %v", err)
		}
	}
	if reqs, _ := r.seen(); len(reqs) != 3 {
		t.Errorf("3 calls made %d requests", len(reqs))
	}
}

// TestSecretsStayInside has sinks throw the secret back in every place where their words come out.
func TestSecretsStayInside(t *testing.T) {
	const secret = `tok"9\x/π`
	status := 200
	r := record(t, func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"you":%q,"plain":%s}`, req.Header.Get("X-Token"), toJSON(req.Header.Get("X-Token")))
	})
	headers := map[string]string{"X-Token": "{$secret.api}"}
	env := r.env(secret)
	web := build(t, gate.KindHTTP, env, gate.HTTPSpec{Method: "POST", URL: r.URL, Headers: headers,
		LookUp: &gate.HTTPLookUp{URL: r.URL}})
	program := build(t, gate.KindExec, env, gate.ExecSpec{
		Argv: []string{"sh", "-c", `printf %s "$TOK"; printf %s "$TOK" >&2; exit "$CODE"`}, Refused: []int{3},
		Env: map[string]string{"TOK": "{$secret.api}", "CODE": "{code}"}})
	broken := r.env(secret + "\n")
	var said []string
	say := func(a gate.Answer, err error) { said = append(said, fmt.Sprint(string(toJSON(a)), " ", err)) }
	for _, status = range []int{200, 400, 500} {
		say(web.Call(t.Context(), call("k", `{}`)))
		say(web.LookUp(t.Context(), call("k", `{}`)))
	}
	for _, code := range []string{"0", "3", "4"} {
		say(program.Call(t.Context(), call("k", `{"code":`+code+`}`)))
	}
	say(build(t, gate.KindHTTP, broken, gate.HTTPSpec{Method: "POST", URL: r.URL, Headers: headers}).
		Call(t.Context(), call("k", `{}`)))
	for i, text := range said {
		if strings.Contains(text, "tok") {
			t.Errorf("answer %d holds the secret: %s", i, text)
		}
	}
	if len(said) != 10 || !strings.Contains(strings.Join(said, ""), "[secret]") {
		t.Errorf("the sinks said %q", said)
	}
}

func TestSecretsOnlyWhereDeclared(t *testing.T) {
	r := record(t, func(http.ResponseWriter, *http.Request) {})
	for _, spec := range []gate.HTTPSpec{
		{Method: "POST", URL: r.URL + "/{$secret.api}"},
		{Method: "POST", URL: r.URL, Body: []byte(`"{$secret.api}"`)},
	} {
		if _, err := build(t, gate.KindHTTP, r.env("tok"), spec).Call(t.Context(), call("k", `{}`)); err == nil {
			t.Errorf("%+v sends a secret", spec)
		}
	}
}

func FuzzURLValue(f *testing.F) {
	for _, seed := range []string{"a", "../x", "a/b", "?q", "#f", "%2e%2e", "@evil", "\x00", "é"} {
		f.Add(seed)
	}
	a := &httpAdapter{env: gate.Env{Hosts: []string{"api.example.com:443"}}}
	p := &parser{}
	t1 := p.text("url", "https://api.example.com/v1/{x}/end?k={x}&z=1")
	f.Fuzz(func(t *testing.T, x string) {
		v, err := values(call("k", string(toJSON(map[string]string{"x": x}))))
		if err != nil {
			return
		}
		u, err := a.target(t1, v)
		if err != nil {
			return
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Host != "api.example.com" {
			t.Fatalf("%q leads to %s, %v", x, u, err)
		}
		if n := strings.Count(again.EscapedPath(), "/"); n != 3 || !strings.HasSuffix(again.EscapedPath(), "/end") {
			t.Fatalf("%q makes the path %s", x, again.EscapedPath())
		}
		if len(again.Query()) != 2 || again.Fragment != "" || again.Query().Get("z") != "1" {
			t.Fatalf("%q makes the query %s", x, again.RawQuery)
		}
	})
}
