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
