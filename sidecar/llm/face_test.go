package llm

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/api"
)

// away is an agent whose log is away: it waits as long as it may.
type away struct{}

func (away) Mention(ctx context.Context, _ api.Told, _ []string) (*api.Mention, error) {
	<-ctx.Done()
	return nil, api.Problemf(api.CodeNotReady, "the log is away")
}

func (away) Rely(context.Context, api.Told, string, []string, bool) (*api.Relied, error) {
	return &api.Relied{}, nil
}

func (away) EndMention(string) error { return nil }

func (away) Spend(api.Told, uint64) {}

// uncounted are figures that nothing reads.
type uncounted struct{}

func (uncounted) Model(string, string)               {}
func (uncounted) References(string, string, int)     {}
func (uncounted) ModelTokens(string, string, uint64) {}

// serve is a face over an agent whose log is away, before a model that answers by then.
func serve(t *testing.T, enforce bool, model http.HandlerFunc) *httptest.Server {
	t.Helper()
	stub := httptest.NewServer(model)
	t.Cleanup(stub.Close)
	to, err := url.Parse(stub.URL)
	if err != nil {
		t.Fatal(err)
	}
	f := New(Config{Providers: map[string]*url.URL{"openai": to}, Calls: 1, Log: slog.New(slog.DiscardHandler),
		Figures: uncounted{}, Enter: func(*http.Request, string) (*Guest, error) {
			return &Guest{Agent: away{}, Vocabulary: &gate.Vocabulary{Enforce: enforce}, Leave: func() {}}, nil
		}})
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server
}

func ask(ctx context.Context, t *testing.T, s *httptest.Server) (status int, body string) {
	t.Helper()
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/llm/k/openai/v1/chat/completions",
		strings.NewReader(`{"messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Client().Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer out.Body.Close()
	data, _ := io.ReadAll(out.Body)
	return out.StatusCode, string(data)
}

// While the log is away, observe holds no request up, and enforce lets none through.
func TestTheLogIsAway(t *testing.T) {
	model := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"said":1}`) }
	if status, body := ask(t.Context(), t, serve(t, false, model)); status != 200 || body != `{"said":1}` {
		t.Errorf("observe: %d %s", status, body)
	}
	reached := false
	s := serve(t, true, func(http.ResponseWriter, *http.Request) { reached = true })
	s.Config.Handler = bounded(s.Config.Handler)
	if status, body := ask(t.Context(), t, s); status != 503 || !strings.Contains(body, "cannot be recorded") || reached {
		t.Errorf("enforce: %d %s, the model was asked: %t", status, body, reached)
	}
}

// bounded ends requests at once, as the agent's own bound does after a while.
func bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, stop := context.WithCancel(r.Context())
		stop()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Beyond the bound a request is refused, and not kept.
func TestTooManyRequests(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, false, func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-leave
	})
	done := make(chan int)
	go func() {
		status, _ := ask(context.Background(), t, s)
		done <- status
	}()
	<-arrived
	status, body := ask(t.Context(), t, s)
	close(leave)
	if first := <-done; status != 503 || !strings.Contains(body, "1 requests are under way") || first != 200 {
		t.Errorf("%d %s, and the first one %d", status, body, first)
	}
}

// counts is an agent that counts what is mentioned.
type counts struct {
	away
	mentioned *int
}

func (c counts) Mention(_ context.Context, _ api.Told, scopes []string) (*api.Mention, error) {
	*c.mentioned = len(scopes)
	return &api.Mention{ID: "m"}, nil
}

// A request that names ever more shards has a bound of mentions.
func TestMentionsAreBounded(t *testing.T) {
	stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{}")
	}))
	defer stub.Close()
	to, err := url.Parse(stub.URL)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	words := &gate.Vocabulary{Terms: []gate.Term{{Scope: "orders/*", Names: []string{"order *"}}}}
	f := New(Config{Providers: map[string]*url.URL{"openai": to}, Calls: 1, Log: slog.New(slog.DiscardHandler),
		Figures: uncounted{}, Enter: func(*http.Request, string) (*Guest, error) {
			return &Guest{Agent: counts{mentioned: &n}, Vocabulary: words, Leave: func() {}}, nil
		}})
	for many, want := range map[int]int{10: 10, mostNamed + 500: mostNamed} {
		var text strings.Builder
		for i := range many {
			fmt.Fprintf(&text, "order %d, ", i)
		}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/llm/k/openai/v1/chat/completions",
			strings.NewReader(`{"messages":[{"content":"`+text.String()+`"}]}`)))
		if w.Code != http.StatusOK || n != want {
			t.Errorf("%d names: status %d, %d are mentioned, wanted %d", many, w.Code, n, want)
		}
	}
}

// faced is a face over an agent, before a model.
func faced(t *testing.T, agent Agent, v *gate.Vocabulary, at string, model http.HandlerFunc) *Face {
	t.Helper()
	stub := httptest.NewServer(model)
	t.Cleanup(stub.Close)
	to, err := url.Parse(stub.URL + at)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Providers: map[string]*url.URL{"openai": to}, Calls: 1, Log: slog.New(slog.DiscardHandler),
		Figures: uncounted{}, Enter: func(*http.Request, string) (*Guest, error) {
			return &Guest{Agent: agent, Vocabulary: v, Leave: func() {}}, nil
		}})
}

// The address of an API may have a path and a query; the client's own query comes behind it.
func TestAddresses(t *testing.T) {
	for at, want := range map[string]string{
		"":                       "/v1/a%2Fb?x=1",
		"/openai":                "/openai/v1/a%2Fb?x=1",
		"/v1/":                   "/v1/a%2Fb?x=1",
		"/openai?api-version=1":  "/openai/v1/a%2Fb?api-version=1&x=1",
		"/v1?api-version=1#part": "/v1/a%2Fb?api-version=1&x=1",
		"?":                      "/v1/a%2Fb?x=1",
	} {
		got := ""
		f := faced(t, away{}, nil, at, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
		f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/llm/k/openai/v1/a%2Fb?x=1", nil))
		if got != want {
			t.Errorf("%q: the model sees %s, wanted %s", at, got, want)
		}
	}
	got := ""
	f := faced(t, away{}, nil, "/openai?api-version=1",
		func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/llm/k/openai/v1/models", nil))
	if got != "/openai/v1/models?api-version=1" {
		t.Errorf("without a query of its own: the model sees %s", got)
	}
}

// What is said behind an upgrade is not looked through: enforce refuses it, and observe hands it on.
func TestUpgrades(t *testing.T) {
	for _, c := range []struct {
		enforce  bool
		upgrade  string
		status   int
		says     string
		arrives  string // as what the model is asked for
		mentions int
	}{
		{true, "websocket", http.StatusBadRequest, "is not looked through", "not at all", -1},
		{true, "h2c, websocket", http.StatusBadRequest, "is not looked through", "not at all", -1},
		{true, "h2c", http.StatusOK, "said", "", 0},
		{false, "websocket", http.StatusSwitchingProtocols, "said", "websocket", -1},
	} {
		mentions, arrives := -1, "not at all"
		f := faced(t, counts{mentioned: &mentions}, &gate.Vocabulary{Enforce: c.enforce}, "",
			func(w http.ResponseWriter, r *http.Request) {
				if arrives = r.Header.Get("Upgrade"); arrives == "" {
					_, _ = io.WriteString(w, "said")
					return
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+arrives+
					"\r\n\r\nsaid")
			})
		s := httptest.NewServer(f)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/llm/k/openai/v1/realtime", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", c.upgrade)
		out, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(out.Body)
		_ = out.Body.Close()
		if out.StatusCode != c.status || !strings.Contains(string(body), c.says) || arrives != c.arrives ||
			mentions != c.mentions {
			t.Errorf("%+v: %d %s; asked for %q, %d mentions", c, out.StatusCode, body, arrives, mentions)
		}
		s.Close()
	}
}
