package client

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers requests one after the other with the given handlers and notes their keys.
func serve(t *testing.T, handlers ...http.HandlerFunc) (c *Client, keys func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := len(seen)
		seen = append(seen, r.Header.Get("Idempotency-Key"))
		mu.Unlock()
		handlers[min(n, len(handlers)-1)](w, r)
	}))
	c = New(server.URL+"/", "a-token-for-the-test")
	t.Cleanup(func() {
		c.Close()
		server.Close()
	})
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

func answerWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// hangUp closes the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

const busy = `{"code":"not_ready","status":503,"detail":"soon","retryable":true,"safe_to_retry_with_same_key":true}`

// A call that was not answered, or answered with "not yet", is made again with the same key.
func TestTriesAgainWithTheSameKey(t *testing.T) {
	c, keys := serve(t, hangUp, answerWith(503, busy), answerWith(201, `{"tx":"a.1.1","state":"open"}`))
	tx, err := c.Begin(context.Background(), BeginOptions{})
	if err != nil || tx.ID() != "a.1.1" {
		t.Fatalf("%v, %v", tx, err)
	}
	got := keys()
	if len(got) != 3 || got[0] == "" || got[0] != got[1] || got[1] != got[2] {
		t.Fatalf("the keys were %q", got)
	}
}

// Other refusals are final, and a call with a new purpose has a new key.
func TestDoesNotTryAgain(t *testing.T) {
	c, keys := serve(t, answerWith(409, `{"code":"stale_read","status":409,"detail":"moved","retryable":true}`))
	for range 2 {
		_, err := c.Begin(context.Background(), BeginOptions{})
		var p *Problem
		if !errors.As(err, &p) || p.Code != "stale_read" {
			t.Fatal(err)
		}
	}
	if got := keys(); len(got) != 2 || got[0] == got[1] {
		t.Fatalf("the keys were %q", got)
	}
}

// Tries end with the context and with their number.
func TestTriesEnd(t *testing.T) {
	c, keys := serve(t, answerWith(503, busy))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Begin(ctx, BeginOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("with a deadline: %v", err)
	}
	before := len(keys())
	WithTries(2)(c)
	var p *Problem
	if _, err := c.Begin(context.Background(), BeginOptions{}); !errors.As(err, &p) || p.Status != 503 {
		t.Fatalf("with two tries: %v", err)
	}
	if n := len(keys()) - before; n != 2 {
		t.Fatalf("%d tries", n)
	}
}

// An answer that is not a sidecar's is an error that shows it.
func TestForeignAnswer(t *testing.T) {
	c, _ := serve(t, answerWith(404, "<html>"), answerWith(200, "<html>"),
		answerWith(200, strings.Repeat("x", maxAnswer+1)))
	for _, want := range []string{"<html>", "read the sidecar's answer", "larger"} {
		if _, err := c.Explain(context.Background(), "a.1.1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, wanted %q in it", err, want)
		}
	}
}

// A seal that takes long is waited for with the status, and an aborted one is a decision, not an error.
func TestSealWaits(t *testing.T) {
	c, _ := serve(t, answerWith(202, `{"tx":"a.1.1","state":"sealed"}`),
		answerWith(200, `{"tx":"a.1.1","state":"sealed"}`),
		answerWith(200, `{"tx":"a.1.1","state":"committed","seq":7}`),
		answerWith(409, `{"code":"wounded","status":409,"decision":{"tx":"a.1.1","state":"aborted","code":"wounded"}}`))
	tx := c.Tx("a.1.1")
	if d, err := tx.Seal(context.Background()); err != nil || d.Seq != 7 {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err := tx.Seal(context.Background()); err != nil || d.State != "aborted" || d.Code != "wounded" {
		t.Fatalf("%+v, %v", d, err)
	}
}

// A call that was answered 202 waits for the decision; when that does not come, it says of which transaction.
func TestWaitsForWhatIsSealed(t *testing.T) {
	const sealed = `{"tx":"a.1.1","state":"sealed"}`
	calls := map[string]func(context.Context, *Client) (Decision, error){
		"put": func(ctx context.Context, c *Client) (Decision, error) {
			return c.Put(ctx, "shard:/x", []byte("1"), WriteOptions{})
		},
		"do": func(ctx context.Context, c *Client) (Decision, error) {
			done, err := c.Do(ctx, "mail", nil, EffectOptions{})
			return done.Decision, err
		},
		"seal": func(ctx context.Context, c *Client) (Decision, error) { return c.Tx("a.1.1").Seal(ctx) },
	}
	for name, call := range calls {
		first := sealed
		if name == "do" {
			first = `{"tx":"a.1.1","decision":` + sealed + `}`
		}
		for end, want := range map[string]string{
			`{"tx":"a.1.1","state":"committed","seq":7}`:        "committed",
			`{"tx":"a.1.1","state":"aborted","code":"wounded"}`: "aborted",
		} {
			c, _ := serve(t, answerWith(202, first), answerWith(200, sealed), answerWith(200, end))
			if d, err := call(t.Context(), c); err != nil || d.State != want {
				t.Errorf("%s, then %s: %+v, %v", name, want, d, err)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		for why, then := range map[string]http.HandlerFunc{
			"no more time": func(w http.ResponseWriter, r *http.Request) {
				cancel(errors.New("no more time"))
				answerWith(200, sealed)(w, r)
			},
			"session_lost":            answerWith(410, lost),
			"did not accept its seal": answerWith(200, `{"tx":"a.1.1","state":"open"}`),
		} {
			c, _ := serve(t, answerWith(202, first), then)
			with := t.Context()
			if why == "no more time" {
				with = ctx
			}
			d, err := call(with, c)
			var u *Undecided
			if !errors.As(err, &u) || u.Tx != "a.1.1" || d.State != "sealed" || !strings.Contains(err.Error(), why) ||
				!strings.Contains(err.Error(), "a.1.1") {
				t.Errorf("%s, then %s: %+v, %v", name, why, d, err)
			}
		}
		cancel(nil)
	}
}

// What names its transaction only in the answer is answered before the caller's deadline.
func TestAnswerBeforeDeadline(t *testing.T) {
	var asked []string
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("wait_ms"))
		answerWith(200, `{"tx":"a.1.1","state":"committed","decision":{"state":"committed"}}`)(w, r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, put := c.Put(ctx, "shard:/x", nil, WriteOptions{})
	_, do := c.Do(ctx, "mail", nil, EffectOptions{})
	if err := errors.Join(put, do); err != nil {
		t.Fatal(err)
	}
	for _, ms := range asked {
		if n, err := strconv.Atoi(ms); err != nil || n > 9000 {
			t.Errorf("with 10 s left they wait for %q ms", asked)
		}
	}
}

const (
	lost    = `{"code":"session_lost","status":410,"detail":"gone","retryable":true}`
	unknown = `{"code":"unknown_tx","status":404,"detail":"it may lag behind","safe_to_retry_with_same_key":true}`
)

// After a seal without an answer the sidecar is asked until it knows, and the log's table when it never will.
func TestEnded(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers []string
		state   string
		failed  string // the problem's code
	}{
		{"committed meanwhile", []string{`{"state":"sealed"}`, busy, `{"state":"committed","seq":7}`}, "committed", ""},
		{"not taken", []string{`{"state":"open"}`}, "open", ""},
		{"lost and committed", []string{lost, unknown, `{"rows":[{"status":"sealed"}]}`, `{"rows":[{"seq":7}]}`},
			"committed", ""},
		{"lost and aborted", []string{lost, `{"rows":[{"seq":7,"code":"lease_expired"}]}`}, "aborted", ""},
		{"lost and never in the log", []string{lost, unknown}, "", "session_lost"},
		{"lost, and the table refuses", []string{lost, `{"code":"unauthorized","status":401}`}, "", "unauthorized"},
		{"refused", []string{unknown}, "", "unknown_tx"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var handlers []http.HandlerFunc
			for _, body := range test.answers {
				status := 200
				if strings.Contains(body, `"code"`) && !strings.Contains(body, "rows") {
					status = 503
				}
				handlers = append(handlers, answerWith(status, body))
			}
			c, _ := serve(t, handlers...)
			c.lag = tableLooks * time.Millisecond
			d, err := c.Tx("a.1.1").Ended(context.Background())
			var p *Problem
			if errors.As(err, &p); d.State != test.state || test.failed != "" && (p == nil || p.Code != test.failed) ||
				test.failed == "" && err != nil {
				t.Fatalf("%+v, %v", d, err)
			}
		})
	}
}

// A certificate that is not believed now is not asked for again.
func TestUntrustedOnce(t *testing.T) {
	var tries atomic.Int32
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			tries.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	c := New(server.URL, "a-token-for-the-test")
	t.Cleanup(c.Close)
	if _, err := c.Rules(t.Context()); err == nil || !strings.Contains(err.Error(), "x509") || tries.Load() != 1 {
		t.Errorf("after %d tries: %v", tries.Load(), err)
	}
}
